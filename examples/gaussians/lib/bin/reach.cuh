// SPDX-License-Identifier: MIT
// Which pixels a splat can reach: the predicate by which gs_bin puts splats into tiles' lists and the blend's
// warps select from a list. Conservative: it may accept a splat that no pixel needs; it never rejects one
// that a pixel needs.
#pragma once

#include "distwar_gs.h"
#include <cuda_runtime.h>
#include <math.h>

namespace gs {

// A closed rectangle, of pixel centres.
struct rectangle {
    float left, top, right, bottom;
};

// What the predicate needs of a splat. gs_bin counts by the predicate and later writes by it; both passes
// must agree to the last bit, so its arithmetic is written with intrinsics that the compiler cannot contract.
struct splat_reach {
    float mean[2], whiten[3];
    float limit;   // the exponent can decrease by this much before alpha is below 1/255
    float slope;   // on a vertical line at dx the exponent is least at dy = slope * dx
    float along_x; // on a horizontal line at dy it is least at dx = along_x * dy
};

// The two quotients choose the point on an edge where the exponent is evaluated. Their relative error is 3e-7
// (2 ulp of __fdividef, and rounding); the slack in least_exponent covers seven times that.
// The limit's slack covers five times the rounding of the parabola by which splats count (blend.cuh).
__device__ inline splat_reach reach_of(const gs_splat &splat) {
    splat_reach r;
    for (int k = 0; k < 2; k++) r.mean[k] = splat.mean[k];
    for (int k = 0; k < 3; k++) r.whiten[k] = splat.whiten[k];
    const float w0 = r.whiten[0], w1 = r.whiten[1], w2 = r.whiten[2];
    constexpr float log2_255 = 7.994353436858858f;
    r.limit = fmaf(fmaxf(__fadd_rn(splat.log2_opacity, log2_255), 0.0f), 1 + 1e-5f, 1e-5f);
    r.slope = -__fdividef(__fmul_rn(w0, w1), fmaf(w1, w1, __fmul_rn(w2, w2)));
    r.along_x = -__fdividef(w1, w0);
    return r;
}

// A lower bound of the exponent at offset (dx, dy): reduced by more than the blend's rounding error.
__device__ inline float least_exponent(const splat_reach &r, float dx, float dy) {
    const float a = __fmul_rn(r.whiten[0], dx), b = __fmul_rn(r.whiten[1], dy);
    const float slack = __fmul_rn(2e-6f, __fadd_rn(fabsf(a), fabsf(b)));
    const float e0 = fmaxf(__fsub_rn(fabsf(__fadd_rn(a, b)), slack), 0.0f);
    const float e1 = __fmul_rn(__fmul_rn(r.whiten[2], dy), 1 - 2e-6f);
    return fmaf(e0, e0, __fmul_rn(e1, e1));
}

// Whether alpha can be >= 1/255 somewhere in the rectangle. The exponent is convex: unless the mean is
// inside, its minimum over the rectangle is on one of the at most two edges that face the mean.
__device__ inline bool reaches(const splat_reach &r, const rectangle &area) {
    // Offsets from the mean of the rectangle's sides, and of its point nearest to the mean.
    const float x0 = __fsub_rn(area.left, r.mean[0]), x1 = __fsub_rn(area.right, r.mean[0]);
    const float y0 = __fsub_rn(area.top, r.mean[1]), y1 = __fsub_rn(area.bottom, r.mean[1]);
    const float x = fminf(fmaxf(0.0f, x0), x1), y = fminf(fmaxf(0.0f, y0), y1);
    if (x == 0 && y == 0) return true;
    const float on_x_edge = least_exponent(r, x, fminf(fmaxf(__fmul_rn(r.slope, x), y0), y1));
    const float on_y_edge = least_exponent(r, fminf(fmaxf(__fmul_rn(r.along_x, y), x0), x1), y);
    return (x != 0 && on_x_edge <= r.limit) || (y != 0 && on_y_edge <= r.limit);
}

} // namespace gs
