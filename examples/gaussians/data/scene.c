// SPDX-License-Identifier: MIT
#include "scene.h"
#include "arrays.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t gaussians_place(gs_gaussians *gaussians, void *memory, size_t alignment) {
    float **const arrays[GS_ARRAYS] = {&gaussians->mean, &gaussians->log_scale, &gaussians->quaternion,
                                       &gaussians->opacity_logit, &gaussians->sh};
    const gs_arrays list = gs_arrays_of(gaussians);
    size_t end = 0;
    for (int i = 0; i < GS_ARRAYS; i++) {
        const size_t bytes = (size_t)gaussians->count * (size_t)list.width[i] * sizeof(float);
        if (memory) *arrays[i] = (float *)(void *)((char *)memory + end);
        end += (bytes + alignment - 1) / alignment * alignment;
    }
    return end;
}

bool scene_open(gs_gaussians *out, int64_t count, int sh_degree, fault *why) {
    *out = (gs_gaussians){0};
    if (count < 0 || count > INT32_MAX || sh_degree < 0 || sh_degree > GS_MAX_SH_DEGREE)
        return fail(why, "%" PRId64 " Gaussians of SH degree %d are out of range", count, sh_degree);
    gs_gaussians shape = {.count = count, .sh_degree = sh_degree};
    const size_t bytes = gaussians_place(&shape, NULL, 16);
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) return fail(why, "no memory for %" PRId64 " Gaussians", count);
    gaussians_place(&shape, memory, 16); // distwar_gs.h wants this alignment
    *out = shape;
    return true;
}

void scene_close(gs_gaussians *scene) {
    free(scene->mean);
    *scene = (gs_gaussians){0};
}

int64_t gaussians_keep(gs_gaussians *gaussians, gaussian_filter keeps, const void *context) {
    const gs_arrays arrays = gs_arrays_of(gaussians);
    int64_t kept = 0;
    for (int64_t i = 0; i < gaussians->count; i++) {
        if (!keeps(gaussians, i, context)) continue;
        for (int a = 0; a < GS_ARRAYS && kept < i; a++) {
            const int width = arrays.width[a];
            memcpy(arrays.of[a] + kept * width, arrays.of[a] + i * width, (size_t)width * sizeof(float));
        }
        kept++;
    }
    const int64_t dropped = gaussians->count - kept;
    gaussians->count = kept;
    return dropped;
}

static bool is_finite(const gs_gaussians *gaussians, int64_t i, const void *context) {
    (void)context;
    const gs_arrays arrays = gs_arrays_of(gaussians);
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int k = 0; k < arrays.width[a]; k++)
            if (!isfinite(arrays.of[a][i * arrays.width[a] + k])) return false;
    return true;
}

int64_t gaussians_keep_finite(gs_gaussians *gaussians) {
    return gaussians_keep(gaussians, is_finite, NULL);
}

double scene_sh_constant(double color) {
    return (color - 0.5) / 0.28209479177387814;
}
