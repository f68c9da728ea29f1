// SPDX-License-Identifier: MIT
// Random spheres, and their renderer again, in double precision and in world space, written from the formulas; with its
// adjoint. Of a frame only camera and blend are read.
#ifndef SPHERE_REFERENCE_H
#define SPHERE_REFERENCE_H

#include "camera_ray.h"
#include "spheres.h"
#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

struct sphere_case {
    const char *name;
    int count, channels, width, height, kept;
    double radius; // of the largest spheres, by the depth of the nearest
    unsigned seed;
};

class random_spheres {
    std::vector<float> values;

  public:
    const sphere_case choice;
    sphere_set set;         // host
    sphere_frame view = {}; // its camera and blend
    const size_t pixels, colors;
    std::vector<size_t>
        begins; // of centres, logarithms of radii, logits of opacities and features; and the end

    explicit random_spheres(const sphere_case &chosen)
        : values(size_t(chosen.count) * size_t(5 + chosen.channels)), choice(chosen),
          set(sphere_set_over(values.data(), choice.count, choice.channels)),
          pixels(size_t(choice.width) * size_t(choice.height)), colors(pixels * size_t(choice.channels)) {
        const double eye[3] = {0.3, -0.4, -5}, target[3] = {0.1, 0.2, 0}, up[3] = {0.1, -1, 0.05};
        view.camera = pinhole_look_at(choice.width, choice.height, 0.7, eye, target, up);
        view.camera.center[0] += 1.25f;
        view.blend = {3, 7, 0.15f, 0.7f, 0.25f, choice.kept};
        for (const size_t values_of_one : {0, 3, 4, 5, 5 + choice.channels})
            begins.push_back(values_of_one * size_t(choice.count));
        std::mt19937 random(choice.seed);
        const auto between = [&](double low, double high) {
            return float(low + (high - low) * double(random()) / 4294967296.0);
        };
        for (int64_t i = 0; i < set.count; i++) {
            set.center[3 * i] = between(-2.2, 2.2);
            set.center[3 * i + 1] = between(-1.8, 1.8);
            set.center[3 * i + 2] = between(-2.5, 2.5); // some are beyond the limits
            set.log_radius[i] = float(std::log(choice.radius)) - between(0, 1.2);
            set.opacity_logit[i] = between(-2, 3);
            for (int k = 0; k < choice.channels; k++)
                set.feature[choice.channels * i + k] = between(-0.5, 1.5);
        }
        std::copy_n(target, 3, set.center); // one is in view
    }
    random_spheres(const random_spheres &) = delete;
};

// The numbers of a set on the host in double precision, or room for their gradient.
struct reference_spheres {
    std::vector<double> values;
    const int64_t count;
    const int channels;
    double *const center, *const log_radius, *const opacity_logit, *const feature;

    explicit reference_spheres(const sphere_set &set)
        : values(set.center, set.center + set.count * (5 + set.channels)), count(set.count),
          channels(set.channels), center(values.data()), log_radius(center + 3 * count),
          opacity_logit(center + 4 * count), feature(center + 5 * count) {}
    reference_spheres(const reference_spheres &) = delete;
};

// A sphere and the ray of a pixel.
struct sphere_meeting {
    double from[3], direction[3]; // from the camera to the centre; of the ray, of length 1
    double square, depth;         // of the distance of the centre from the ray's line; in the camera
    double inverse, closeness;    // 1 / radius^2; d, which is above 0 where the ray meets the sphere
    double opacity, nearness;     // o, s

    sphere_meeting(const reference_spheres &set, const sphere_frame &view, int64_t i, size_t pixel)
        : depth(view.camera.translation[2]) {
        const int x = int(pixel) % view.camera.width, y = int(pixel) / view.camera.width;
        double origin[3], area[3];
        camera_ray(&view.camera, x + 0.5, y + 0.5, origin, direction);
        normalize(direction);
        for (int axis = 0; axis < 3; axis++) {
            from[axis] = set.center[3 * i + axis] - origin[axis];
            depth += double(view.camera.rotation[6 + axis]) * set.center[3 * i + axis];
        }
        cross(from, direction, area);
        square = dot(area, area);
        inverse = std::exp(-2 * set.log_radius[i]);
        closeness = 1 - square * inverse;
        opacity = 1 / (1 + std::exp(-set.opacity_logit[i]));
        nearness = (view.blend.far_limit - depth) / double(view.blend.far_limit - view.blend.near_limit);
    }
};

// Of each pixel, row by row, its spheres, closest first.
using sphere_lists = std::vector<std::vector<int>>;

inline sphere_lists reference_lists(const reference_spheres &set, const sphere_frame &view) {
    sphere_lists lists(size_t(view.camera.width) * size_t(view.camera.height));
    for (size_t pixel = 0; pixel < lists.size(); pixel++) {
        std::vector<std::pair<double, int>> met; // by depth, then by index
        for (int i = 0; i < set.count; i++) {
            const sphere_meeting m(set, view, i, pixel);
            if (m.depth > view.blend.near_limit && m.depth < view.blend.far_limit && m.closeness > 0)
                met.emplace_back(m.depth, i);
        }
        std::sort(met.begin(), met.end());
        met.resize(std::min(met.size(), size_t(view.blend.kept)));
        for (const auto &[depth, i] : met) lists[pixel].push_back(i);
    }
    return lists;
}

// The shares of a pixel's spheres and, last, the background's: a softmax of log(o d) + o s / gamma, the background's being
// log(b).
inline std::vector<double> shares_of(const reference_spheres &set, const sphere_frame &view,
                                     const std::vector<int> &list, size_t pixel) {
    std::vector<double> share;
    for (const int i : list) {
        const sphere_meeting m(set, view, i, pixel);
        share.push_back(std::log(m.opacity * m.closeness) + m.opacity * m.nearness / view.blend.softness);
    }
    share.push_back(std::log(double(view.blend.background_weight)));
    const double largest = *std::max_element(share.begin(), share.end());
    double sum = 0;
    for (double &value : share) sum += value = std::exp(value - largest);
    for (double &value : share) value /= sum;
    return share;
}

// Of the j-th of a list, or of the background behind it.
inline double feature_of(const reference_spheres &set, const sphere_frame &view, const std::vector<int> &list,
                         size_t j, int k) {
    return j == list.size() ? view.blend.background : set.feature[int64_t(list[j]) * set.channels + k];
}

// [channels][height][width]
inline std::vector<double> reference_render(const reference_spheres &set, const sphere_frame &view,
                                            const sphere_lists &lists) {
    std::vector<double> color(lists.size() * size_t(set.channels));
    for (size_t pixel = 0; pixel < lists.size(); pixel++) {
        const std::vector<double> share = shares_of(set, view, lists[pixel], pixel);
        for (size_t j = 0; j < share.size(); j++)
            for (int k = 0; k < set.channels; k++)
                color[size_t(k) * lists.size() + pixel] +=
                    share[j] * feature_of(set, view, lists[pixel], j, k);
    }
    return color;
}

// Adds what the exponent log(o d) + o s / gamma of sphere i at a pixel hands on to the sphere's parameters.
inline void exponent_backward(const reference_spheres &set, const sphere_frame &view, int64_t i, size_t pixel,
                              double by_exponent, reference_spheres &gradient) {
    const sphere_meeting m(set, view, i, pixel);
    const double softness = view.blend.softness;
    const double by_square = -by_exponent * m.inverse / m.closeness;
    const double by_depth =
        -by_exponent * m.opacity / (softness * double(view.blend.far_limit - view.blend.near_limit));
    const double along = dot(m.from, m.direction);
    for (int axis = 0; axis < 3; axis++)
        gradient.center[3 * i + axis] += 2 * by_square * (m.from[axis] - along * m.direction[axis]) +
                                         by_depth * double(view.camera.rotation[6 + axis]);
    gradient.log_radius[i] += -2 * by_square * m.square;
    gradient.opacity_logit[i] +=
        by_exponent * (1 / m.opacity + m.nearness / softness) * m.opacity * (1 - m.opacity);
}

// Overwrites the gradient.
inline void reference_render_backward(const reference_spheres &set, const sphere_frame &view,
                                      const sphere_lists &lists, const std::vector<double> &color_gradient,
                                      reference_spheres &gradient) {
    std::fill(gradient.values.begin(), gradient.values.end(), 0);
    for (size_t pixel = 0; pixel < lists.size(); pixel++) {
        const std::vector<int> &list = lists[pixel];
        const std::vector<double> share = shares_of(set, view, list, pixel);
        std::vector<double> by_share(share.size());
        double mean = 0;
        for (size_t j = 0; j < share.size(); j++) {
            for (int k = 0; k < set.channels; k++) {
                const double by_color = color_gradient[size_t(k) * lists.size() + pixel];
                by_share[j] += by_color * feature_of(set, view, list, j, k);
                if (j < list.size()) gradient.feature[list[j] * set.channels + k] += share[j] * by_color;
            }
            mean += share[j] * by_share[j];
        }
        for (size_t j = 0; j < list.size(); j++)
            exponent_backward(set, view, list[j], pixel, share[j] * (by_share[j] - mean), gradient);
    }
}

#endif
