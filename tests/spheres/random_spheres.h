// SPDX-License-Identifier: MIT
// Random spheres for tests, in floats and, the same numbers, in doubles.
#ifndef RANDOM_SPHERES_H
#define RANDOM_SPHERES_H

#include "spheres.h"
#include "sphere_reference.h"
#include <algorithm>
#include <random>
#include <string>
#include <vector>

struct sphere_case {
    const char *name;
    int count, channels, width, height, kept;
    double radius; // of the largest spheres, by the depth of the nearest
    unsigned seed;
};

class random_spheres {
    std::mt19937 generator;
    std::vector<float> values;
    std::vector<double> doubles;

    float between(double low, double high) {
        return float(low + (high - low) * double(generator()) / 4294967296.0);
    }

  public:
    sphere_case choice;
    sphere_set set;    // host
    sphere_frame view; // its camera and blend

    explicit random_spheres(const sphere_case &chosen)
        : generator(chosen.seed), values(size_t(chosen.count) * size_t(5 + chosen.channels)), choice(chosen) {
        const double eye[3] = {0.3, -0.4, -5}, target[3] = {0.1, 0.2, 0}, up[3] = {0.1, -1, 0.05};
        view = {};
        view.camera = pinhole_look_at(choice.width, choice.height, 0.7, eye, target, up);
        view.camera.center[0] += 1.25f;
        view.blend = {3, 7, 0.15f, 0.7f, 0.25f, choice.kept};
        const int64_t n = choice.count;
        set = sphere_set_over(values.data(), n, choice.channels);
        for (int64_t i = 0; i < n; i++) {
            set.center[3 * i] = between(-2.2, 2.2);
            set.center[3 * i + 1] = between(-1.8, 1.8);
            set.center[3 * i + 2] = between(-2.5, 2.5); // some are beyond the limits
            set.log_radius[i] = float(std::log(choice.radius)) - between(0, 1.2);
            set.opacity_logit[i] = between(-2, 3);
            for (int k = 0; k < choice.channels; k++)
                set.feature[choice.channels * i + k] = between(-0.5, 1.5);
        }
        const float first[3] = {0.1f, 0.2f, 0}; // one is in view
        std::copy(first, first + 3, set.center);
    }

    // Anew from the floats, which a test may have changed.
    reference_spheres doubled() {
        doubles.assign(values.begin(), values.end());
        return over(doubles);
    }
    reference_spheres over(std::vector<double> &block) const {
        double *const at = block.data();
        const int64_t n = choice.count;
        return {n, choice.channels, at, at + 3 * n, at + 4 * n, at + 5 * n};
    }
    size_t parameters() const { return values.size(); }
    // Where centres, logarithms of radii, logits of opacities and features begin, and the end.
    std::vector<size_t> begins() const {
        const size_t n = size_t(choice.count);
        return {0, 3 * n, 4 * n, 5 * n, parameters()};
    }
    size_t pixels() const { return size_t(choice.width) * size_t(choice.height); }
    size_t colors() const { return pixels() * size_t(choice.channels); }

    random_spheres(const random_spheres &) = delete;
};

#endif
