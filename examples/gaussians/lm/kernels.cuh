// SPDX-License-Identifier: MIT
// What several kernels share: the records of a splat, and a sum over a grid. docs/developers/math.md, section 8.
#pragma once

#include "context.h"
#include "device_code.h"
#include "gs_lm.h"
#include <cuda_runtime.h>
#include <distwar/block.cuh>
#include <distwar/reduce.cuh>
#include <stddef.h>

namespace gs {

// ---- a splat's derivative along a direction ----

struct alignas(16) splat_tangent {
    float color[GS_CHANNELS];
    float log_alpha[6]; // coefficients of 1, e0, e1, e0^2, e0 e1, e1^2
    float reserved[3];
};
static_assert(sizeof(splat_tangent) == GS_LM_TANGENT_STRIDE * sizeof(float), "one record");

__device__ inline float log_alpha_change(const splat_tangent &t, float e0, float e1) {
    const float *k = t.log_alpha;
    return k[0] + e0 * (k[1] + k[3] * e0 + k[4] * e1) + e1 * (k[2] + k[5] * e1);
}

// ---- sums of products of derivatives over pixels, from which diag(J^T J) and its blocks follow ----

// A splat's record. share = T alpha, the derivative of a pixel by the splat's colour. difference: the splat's
// colour minus the colour behind it, 0 where alpha was clamped. share difference is the derivative by log
// alpha; times 1, e0, e1, e0^2, e0 e1, e1^2 it is the derivative by the six coefficients of a splat_tangent.
// H = sum over channels of weight (share difference)^2.
struct alignas(16) splat_squares {
    float color[GS_CHANNELS];    // weight share^2
    float h;                     // H
    float h_e2[3];               // H e0^2, H e0 e1, H e1^2
    float h_e3[4];               // H e0^3, H e0^2 e1, H e0 e1^2, H e1^3
    float h_e4[5];               // H e0^4, H e0^3 e1, H e0^2 e1^2, H e0 e1^3, H e1^4
    float cross[GS_CHANNELS][5]; // weight share^2 difference times e0, e1, e0^2, e0 e1, e1^2
};
static_assert(sizeof(splat_squares) == GS_LM_SQUARES_STRIDE * sizeof(float), "one record");

// Index of each field in the array of GS_LM_SQUARES floats that the library sums. H has no moments of
// degree 1: only products of the opacity with other parameters need them.
enum square {
    SQUARE_COLOR = offsetof(splat_squares, color) / sizeof(float),
    SQUARE_H = offsetof(splat_squares, h) / sizeof(float),
    SQUARE_H_E2 = offsetof(splat_squares, h_e2) / sizeof(float),
    SQUARE_H_E3 = offsetof(splat_squares, h_e3) / sizeof(float),
    SQUARE_H_E4 = offsetof(splat_squares, h_e4) / sizeof(float),
    SQUARE_CROSS = offsetof(splat_squares, cross) / sizeof(float)
};
static_assert(offsetof(splat_squares, cross) + 5 * GS_CHANNELS * sizeof(float) ==
                  GS_LM_SQUARES * sizeof(float),
              "all fields are summed");

// Adds one pixel. weight: of its channels.
GS_DEVICE void add_squares(const float weight[GS_CHANNELS], float share, const float difference[GS_CHANNELS],
                           float e0, float e1, float (&sums)[GS_LM_SQUARES]) {
    const float e00 = e0 * e0, e01 = e0 * e1, e11 = e1 * e1, share2 = share * share;
    float h = 0;
    DISTWAR_UNROLL
    for (int c = 0; c < GS_CHANNELS; c++) {
        const float own = weight[c] * share2, cross = own * difference[c];
        float *const to = sums + SQUARE_CROSS + 5 * c;
        sums[SQUARE_COLOR + c] += own;
        h = fmaf(cross, difference[c], h);
        to[0] = fmaf(cross, e0, to[0]);
        to[1] = fmaf(cross, e1, to[1]);
        to[2] = fmaf(cross, e00, to[2]);
        to[3] = fmaf(cross, e01, to[3]);
        to[4] = fmaf(cross, e11, to[4]);
    }
    const float h00 = h * e00, h01 = h * e01, h11 = h * e11;
    float *const e2 = sums + SQUARE_H_E2, *const e3 = sums + SQUARE_H_E3, *const e4 = sums + SQUARE_H_E4;
    sums[SQUARE_H] += h;
    e2[0] += h00;
    e2[1] += h01;
    e2[2] += h11;
    e3[0] = fmaf(h00, e0, e3[0]);
    e3[1] = fmaf(h00, e1, e3[1]);
    e3[2] = fmaf(h11, e0, e3[2]);
    e3[3] = fmaf(h11, e1, e3[3]);
    e4[0] = fmaf(h00, e00, e4[0]);
    e4[1] = fmaf(h00, e01, e4[1]);
    e4[2] = fmaf(h00, e11, e4[2]);
    e4[3] = fmaf(h01, e11, e4[3]);
    e4[4] = fmaf(h11, e11, e4[4]);
}

// ---- sums over a grid ----

// Adds the parts of all threads to *sum, with one atomic per block. By all Threads threads of the block.
template <int Threads>
__device__ void add_of_block(double part, double *sum) {
    __shared__ distwar::block_sum_memory<1, Threads, double> memory;
    const double parts[1] = {part};
    double total[1];
    distwar::block_sum(parts, memory, total);
    if (distwar::block_rank() == 0) atomicAdd(sum, total[0]);
}

// What kernels read of a scene: a scale_modifier of 0 stands for 1.
inline gs_gaussians scaled(gs_gaussians gaussians) {
    if (gaussians.scale_modifier == 0) gaussians.scale_modifier = 1;
    return gaussians;
}

} // namespace gs
