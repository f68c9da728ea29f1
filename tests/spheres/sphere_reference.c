// SPDX-License-Identifier: MIT
#include "sphere_reference.h"
#include "camera_ray.h"
#include <string.h>

enum { MAX_KEPT = 64 };

// The pixel's ray in the world: the camera's place, a direction of length 1.
static void ray_of(const sphere_frame *view, int x, int y, double origin[3], double direction[3]) {
    camera_ray(&view->camera, x + 0.5, y + 0.5, origin, direction);
    normalize(direction);
}

// The square of the distance of the centre from the ray's line, by a cross product.
static double distance_square(const double center[3], const double origin[3], const double direction[3]) {
    double from[3], area[3];
    for (int axis = 0; axis < 3; axis++) from[axis] = center[axis] - origin[axis];
    cross(from, direction, area);
    return dot(area, area);
}

double reference_closeness(const reference_spheres *set, const sphere_frame *view, int64_t i, int x, int y) {
    double origin[3], direction[3];
    ray_of(view, x, y, origin, direction);
    return 1 - distance_square(set->center + 3 * i, origin, direction) * exp(-2 * set->log_radius[i]);
}

double reference_depth(const reference_spheres *set, const sphere_frame *view, int64_t i) {
    const float *forward = view->camera.rotation + 6;
    return dot((const double[3]){forward[0], forward[1], forward[2]}, set->center + 3 * i) +
           view->camera.translation[2];
}

void reference_lists(const reference_spheres *set, const sphere_frame *view, int *list, int *length) {
    const int64_t pixels = (int64_t)view->camera.width * view->camera.height;
    for (int y = 0; y < view->camera.height; y++)
        for (int x = 0; x < view->camera.width; x++) {
            const int64_t pixel = (int64_t)y * view->camera.width + x;
            int n = 0;
            for (int64_t i = 0; i < set->count; i++) {
                const double depth = reference_depth(set, view, i);
                if (!(depth > view->blend.near_limit && depth < view->blend.far_limit)) continue;
                if (!(reference_closeness(set, view, i, x, y) > 0)) continue;
                int at = n; // before those that are deeper; of equal depth the lower index is there already
                while (at > 0 && reference_depth(set, view, list[(at - 1) * pixels + pixel]) > depth) at--;
                if (at >= view->blend.kept) continue;
                if (n < view->blend.kept) n++;
                for (int j = n - 1; j > at; j--) list[j * pixels + pixel] = list[(j - 1) * pixels + pixel];
                list[at * pixels + pixel] = (int)i;
            }
            length[pixel] = n;
        }
}

// The shares of a pixel: those of its spheres and, last, the background's. A softmax of
// log(o d) + o s / gamma, the background's being log(b).
static void shares_of(const reference_spheres *set, const sphere_frame *view, const int *list, int length,
                      int64_t pixels, int x, int y, double share[MAX_KEPT + 1]) {
    const int64_t pixel = (int64_t)y * view->camera.width + x;
    double largest = log(view->blend.background_weight), sum = 0;
    share[length] = largest;
    for (int j = 0; j < length; j++) {
        const int64_t i = list[j * pixels + pixel];
        const double opacity = 1 / (1 + exp(-set->opacity_logit[i]));
        const double nearness = (view->blend.far_limit - reference_depth(set, view, i)) /
                                (view->blend.far_limit - view->blend.near_limit);
        share[j] = log(opacity * reference_closeness(set, view, i, x, y)) +
                   opacity * nearness / view->blend.softness;
        if (share[j] > largest) largest = share[j];
    }
    for (int j = 0; j <= length; j++) sum += share[j] = exp(share[j] - largest);
    for (int j = 0; j <= length; j++) share[j] /= sum;
}

static double feature_of(const reference_spheres *set, const sphere_frame *view, const int *list, int length,
                         int64_t pixels, int64_t pixel, int j, int k) {
    return j == length ? view->blend.background
                       : set->feature[(int64_t)list[j * pixels + pixel] * set->channels + k];
}

void reference_render(const reference_spheres *set, const sphere_frame *view, const int *list,
                      const int *length, double *color) {
    const int64_t pixels = (int64_t)view->camera.width * view->camera.height;
    for (int y = 0; y < view->camera.height; y++)
        for (int x = 0; x < view->camera.width; x++) {
            const int64_t pixel = (int64_t)y * view->camera.width + x;
            double share[MAX_KEPT + 1];
            shares_of(set, view, list, length[pixel], pixels, x, y, share);
            for (int k = 0; k < set->channels; k++) {
                double sum = 0;
                for (int j = 0; j <= length[pixel]; j++)
                    sum += share[j] * feature_of(set, view, list, length[pixel], pixels, pixel, j, k);
                color[k * pixels + pixel] = sum;
            }
        }
}

// Adds what the exponent log(o d) + o s / gamma of sphere i at a pixel hands on to the sphere's parameters.
static void exponent_backward(const reference_spheres *set, const sphere_frame *view, int64_t i, int x, int y,
                              double by_exponent, const reference_spheres *gradient) {
    double origin[3], direction[3], across[3];
    ray_of(view, x, y, origin, direction);
    const double *center = set->center + 3 * i;
    const double square = distance_square(center, origin, direction);
    const double inverse = exp(-2 * set->log_radius[i]), closeness = 1 - square * inverse;
    const double opacity = 1 / (1 + exp(-set->opacity_logit[i]));
    const double span = view->blend.far_limit - view->blend.near_limit;
    const double nearness = (view->blend.far_limit - reference_depth(set, view, i)) / span;
    const double by_square = -by_exponent * inverse / closeness;
    const double by_depth = -by_exponent * opacity / (view->blend.softness * span);
    double along = 0;
    for (int axis = 0; axis < 3; axis++) along += (center[axis] - origin[axis]) * direction[axis];
    for (int axis = 0; axis < 3; axis++) {
        across[axis] = center[axis] - origin[axis] - along * direction[axis];
        gradient->center[3 * i + axis] +=
            2 * by_square * across[axis] + by_depth * view->camera.rotation[6 + axis];
    }
    gradient->log_radius[i] += -2 * by_square * square;
    gradient->opacity_logit[i] +=
        by_exponent * (1 / opacity + nearness / view->blend.softness) * opacity * (1 - opacity);
}

void reference_render_backward(const reference_spheres *set, const sphere_frame *view, const int *list,
                               const int *length, const double *color_gradient,
                               const reference_spheres *gradient) {
    const int64_t pixels = (int64_t)view->camera.width * view->camera.height;
    memset(gradient->center, 0, (size_t)(set->count * (5 + set->channels)) * sizeof(double));
    for (int y = 0; y < view->camera.height; y++)
        for (int x = 0; x < view->camera.width; x++) {
            const int64_t pixel = (int64_t)y * view->camera.width + x;
            const int n = length[pixel];
            double share[MAX_KEPT + 1], by_share[MAX_KEPT + 1], mean = 0;
            shares_of(set, view, list, n, pixels, x, y, share);
            for (int j = 0; j <= n; j++) {
                by_share[j] = 0;
                for (int k = 0; k < set->channels; k++)
                    by_share[j] += color_gradient[k * pixels + pixel] *
                                   feature_of(set, view, list, n, pixels, pixel, j, k);
                mean += share[j] * by_share[j];
            }
            for (int j = 0; j < n; j++) {
                const int64_t i = list[j * pixels + pixel];
                for (int k = 0; k < set->channels; k++)
                    gradient->feature[i * set->channels + k] += share[j] * color_gradient[k * pixels + pixel];
                exponent_backward(set, view, i, x, y, share[j] * (by_share[j] - mean), gradient);
            }
        }
}
