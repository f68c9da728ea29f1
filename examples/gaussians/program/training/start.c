// SPDX-License-Identifier: MIT
#include "training/start.h"
#include "view/camera.h"
#include "training/nearest.h"
#include "ply.h"
#include <math.h>
#include <stdlib.h>

double scene_extent(const target_view *views, size_t count) {
    double mean[3] = {0}, center[3], largest = 0;
    for (size_t i = 0; i < count; i++) {
        camera_center(&views[i].camera, center);
        for (int axis = 0; axis < 3; axis++) mean[axis] += center[axis] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        camera_center(&views[i].camera, center);
        double square = 0;
        for (int axis = 0; axis < 3; axis++)
            square += (center[axis] - mean[axis]) * (center[axis] - mean[axis]);
        largest = fmax(largest, sqrt(square));
    }
    return largest > 0 ? 1.1 * largest : 1;
}

double sh_constant_from_color(double color) {
    return (color - 0.5) / 0.28209479177387814;
}

bool gaussians_from_points(const float (*points)[3], const uint8_t (*colors)[3], size_t count,
                           const start_settings *settings, gs_gaussians *out, fault *why) {
    const int degree = settings->sh_degree;
    const double smallest = 1e-4 * settings->extent, opacity = settings->opacity;
    const size_t coefficients = 3 * (size_t)((degree + 1) * (degree + 1));
    if (count > INT32_MAX) return fail(why, "%zu points are more than libgs takes", count);
    if (!gaussians_allocate(out, (int64_t)count, degree, why)) return false;
    double *distance = calloc(count + 1, sizeof *distance); // + 1, as calloc(0) may return NULL
    bool done = distance ? nearest_mean_distance(points, count, distance, why)
                         : fail(why, "no memory for %zu points", count);
    for (size_t i = 0; i < count && done; i++) {
        float log_scale = (float)log(fmax(settings->size * distance[i], smallest));
        for (int axis = 0; axis < 3; axis++) {
            out->mean[3 * i + axis] = points[i][axis];
            out->log_scale[3 * i + axis] = log_scale;
            out->sh[coefficients * i + axis] = (float)sh_constant_from_color(colors[i][axis] / 255.0);
        }
        out->quaternion[4 * i] = 1;
        out->opacity_logit[i] = (float)log(opacity / (1 - opacity));
    }
    free(distance);
    if (!done) gaussians_free(out);
    return done;
}
