// SPDX-License-Identifier: MIT
#include "scenes.h"
#include "camera.h"
#include "formats/formats.h"
#include "scene.h"
#include "random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t sh_values(const gs_gaussians *of) {
    return 3 * (size_t)((of->sh_degree + 1) * (of->sh_degree + 1));
}

// `to` has room for SH of as high a degree.
static void copy_one(const gs_gaussians *to, int64_t i, const gs_gaussians *from, int64_t j) {
    memcpy(to->mean + 3 * i, from->mean + 3 * j, 3 * sizeof(float));
    memcpy(to->log_scale + 3 * i, from->log_scale + 3 * j, 3 * sizeof(float));
    memcpy(to->quaternion + 4 * i, from->quaternion + 4 * j, 4 * sizeof(float));
    to->opacity_logit[i] = from->opacity_logit[j];
    memcpy(to->sh + sh_values(to) * (size_t)i, from->sh + sh_values(from) * (size_t)j,
           sh_values(from) * sizeof(float));
}

// A random order of 0..count-1 (Fisher and Yates); NULL if there is no memory.
static int64_t *draw_order(int64_t count, random_stream *random) {
    int64_t *order = malloc((size_t)count * sizeof *order);
    for (int64_t i = 0; order && i < count; i++) {
        const int64_t j = (int64_t)random_below(random, (uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

bool scene_to_measure(scene_kind kind, const gs_gaussians *from, int64_t count, const gs_camera *camera,
                      uint64_t seed, gs_gaussians *out, fault *why) {
    if (!scene_open(out, count, kind == SCENE_SH3 ? GS_MAX_SH_DEGREE : from->sh_degree, why)) return false;
    random_stream random = {seed};
    int64_t *const order = kind == SCENE_MANY ? draw_order(from->count, &random) : NULL;
    if (kind == SCENE_MANY && !order) {
        scene_close(out);
        return fail(why, "no memory for the order of %lld Gaussians", (long long)from->count);
    }
    double eye[3] = {0};
    if (kind == SCENE_HUGE) camera_center(camera, eye);
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = kind == SCENE_SH3    ? i
                          : kind == SCENE_MANY ? order[i % from->count]
                                               : (int64_t)random_below(&random, (uint64_t)from->count);
        copy_one(out, i, from, j);
        if (kind == SCENE_MANY) {
            double unit[4], rotation[9];
            quaternion_unit(from->quaternion + 4 * j, unit);
            rotation_of_quaternion(unit, rotation);
            for (int k = 0; k < 3; k++) {
                const double along = exp(from->log_scale[3 * j + k]) * random_normal(&random);
                for (int row = 0; row < 3; row++) out->mean[3 * i + row] += (float)(rotation[3 * row + k] * along);
                out->log_scale[3 * i + k] -= logf(3);
            }
        } else if (kind == SCENE_HUGE) {
            double square = 0;
            for (int k = 0; k < 3; k++) square += pow(from->mean[3 * j + k] - eye[k], 2);
            for (int k = 0; k < 3; k++) out->log_scale[3 * i + k] = (float)log(0.4 * sqrt(square));
            out->opacity_logit[i] = -2;
        }
    }
    free(order);
    return true;
}
