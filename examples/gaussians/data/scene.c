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

void scene_sh_basis(const double r[3], double out[SCENE_SH_COEFFICIENTS]) {
    const double x = r[0], y = r[1], z = r[2], xx = x * x, yy = y * y, zz = z * z;
    const double values[SCENE_SH_COEFFICIENTS] = {0.28209479177387814,
                                                  -0.4886025119029199 * y,
                                                  0.4886025119029199 * z,
                                                  -0.4886025119029199 * x,
                                                  1.0925484305920792 * x * y,
                                                  -1.0925484305920792 * y * z,
                                                  0.31539156525252005 * (2 * zz - xx - yy),
                                                  -1.0925484305920792 * x * z,
                                                  0.5462742152960396 * (xx - yy),
                                                  -0.5900435899266435 * y * (3 * xx - yy),
                                                  2.890611442640554 * x * y * z,
                                                  -0.4570457994644658 * y * (4 * zz - xx - yy),
                                                  0.3731763325901154 * z * (2 * zz - 3 * xx - 3 * yy),
                                                  -0.4570457994644658 * x * (4 * zz - xx - yy),
                                                  1.445305721320277 * z * (xx - yy),
                                                  -0.5900435899266435 * x * (xx - 3 * yy)};
    memcpy(out, values, sizeof values);
}
