// SPDX-License-Identifier: MIT
#include "start/start.h"
#include "scene.h"
#include <math.h>
#include <stdlib.h>

bool gaussians_from_points(const float (*points)[3], const uint8_t (*colors)[3], size_t count,
                           const start_settings *settings, gs_gaussians *out, fault *why) {
    const int degree = settings->sh_degree;
    const double smallest = 1e-4 * settings->extent, opacity = settings->opacity;
    const size_t coefficients = GS_CHANNELS * (size_t)((degree + 1) * (degree + 1));
    if (count > INT32_MAX) return fail(why, "%zu points are more than libdistwar_gs takes", count);
    if (!scene_open(out, (int64_t)count, degree, why)) return false;
    double *distance = calloc(count + 1, sizeof *distance); // + 1, as calloc(0) may return NULL
    bool done = distance ? nearest_mean_distance(points, count, distance, why)
                         : fail(why, "no memory for %zu points", count);
    for (size_t i = 0; i < count && done; i++) {
        float log_scale = (float)log(fmax(settings->size * distance[i], smallest));
        for (int axis = 0; axis < 3; axis++) {
            out->mean[3 * i + axis] = points[i][axis];
            out->log_scale[3 * i + axis] = log_scale;
            out->sh[coefficients * i + axis] = (float)scene_sh_constant(colors[i][axis] / 255.0);
        }
        out->quaternion[4 * i] = 1;
        out->opacity_logit[i] = (float)log(opacity / (1 - opacity));
    }
    free(distance);
    if (!done) scene_close(out);
    return done;
}
