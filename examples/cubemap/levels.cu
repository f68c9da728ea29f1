// SPDX-License-Identifier: MIT
// The levels of detail of a cubemap, and the adjoint. Formulas: docs/developers/math-examples.md, "Cubemap".
#include "cubemap.h"
#include "device.h"
#include "launch.cuh"

namespace {

enum { THREADS = 256 };

// One thread for each value of the level.
__global__ void __launch_bounds__(THREADS) reduce_level_kernel(float *texel, int size, int level) {
    const int s = size >> level;
    const int64_t k = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (k >= int64_t(18) * s * s) return;
    const int channel = int(k % 3), at = int(k / 3), i = at % s, j = at / s % s, face = at / (s * s);
    const float *finer = texel + 3 * int64_t(cubemap_level_begin(size, level - 1));
    float sum = 0;
    for (int n = 0; n < 4; ++n)
        sum += finer[3 * ((int64_t(face) * 2 * s + 2 * j + n / 2) * 2 * s + 2 * i + n % 2) + channel];
    texel[3 * (int64_t(cubemap_level_begin(size, level)) + at) + channel] = 0.25f * sum;
}

// One thread for each texel of level 0, which is a 4^-l part of the texel of level l that contains it.
__global__ void __launch_bounds__(THREADS) gather_levels_kernel(cubemap_frame f, float *gradient) {
    const int64_t at = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= int64_t(6) * f.size * f.size) return;
    const int i = int(at % f.size), j = int(at / f.size % f.size), face = int(at / f.size / f.size);
    float sum[3] = {}, share = 1;
    for (int level = 0; level < f.levels; ++level, share *= 0.25f) {
        const int s = f.size >> level;
        const int64_t texel =
            cubemap_level_begin(f.size, level) + (int64_t(face) * s + (j >> level)) * s + (i >> level);
        const float *from = f.sums.sums + texel * f.sums.stride;
        for (int channel = 0; channel < 3; ++channel) sum[channel] = fmaf(share, from[channel], sum[channel]);
    }
    for (int channel = 0; channel < 3; ++channel) gradient[3 * at + channel] = sum[channel];
}

} // namespace

void cubemap_reduce_levels(const cubemap_frame *frame) {
    for (int level = 1; level < frame->levels; ++level) {
        const int64_t s = frame->size >> level;
        DEVICE_CHECK(
            launch_for(NULL, 18 * s * s, THREADS, reduce_level_kernel, frame->texel, frame->size, level));
    }
}

void cubemap_gather_levels(const cubemap_frame *frame, float *gradient) {
    DEVICE_CHECK(launch_for(NULL, int64_t(6) * frame->size * frame->size, THREADS, gather_levels_kernel,
                            *frame, gradient));
}
