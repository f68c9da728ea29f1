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

int64_t gaussians_keep_finite(gs_gaussians *gaussians) {
    const gs_arrays arrays = gs_arrays_of(gaussians);
    int64_t kept = 0;
    for (int64_t i = 0; i < gaussians->count; i++) {
        bool finite = true;
        for (int a = 0; a < GS_ARRAYS; a++) {
            const int width = arrays.width[a];
            const float *row = arrays.of[a] + i * width;
            for (int k = 0; k < width; k++) finite = finite && isfinite(row[k]);
            if (kept < i) memcpy(arrays.of[a] + kept * width, row, (size_t)width * sizeof *row);
        }
        kept += finite; // otherwise the next one overwrites it
    }
    int64_t dropped = gaussians->count - kept;
    gaussians->count = kept;
    return dropped;
}

double scene_sh_constant(double color) {
    return (color - 0.5) / 0.28209479177387814;
}
