// SPDX-License-Identifier: MIT
// How far a splat reaches: the one predicate by which bins take splats into tiles and warps take them from a
// tile's list. It may take a splat that no pixel needs, never miss one that some pixel needs.
#ifndef GS_REACH_CUH
#define GS_REACH_CUH

#include "gs.h"
#include <cuda_runtime.h>
#include <math.h>

// Of pixel centres, the edges included.
struct rectangle {
    float left, top, right, bottom;
};

// A splat as the predicate sees it. Bins count by it and then write by it, and the two must agree to the last
// bit, so its arithmetic leaves the compiler nothing to contract.
struct reach {
    float mean[2], whiten[3];
    float limit;   // the exponent may fall by this much before alpha is under 1/255
    float slope;   // on a vertical line at dx the least exponent is at dy = slope * dx
    float along_x; // on a horizontal line at dy it is at dx = along_x * dy
};

// The quotients choose the point of an edge to look at. Being approximate, they are off by 3e-7 of themselves
// (the division by 2 ulp), rounding included; what least_exponent takes off covers seven times that.
__device__ inline reach reach_of(const gs_splat &splat) {
    reach r;
    for (int k = 0; k < 2; k++) r.mean[k] = splat.mean[k];
    for (int k = 0; k < 3; k++) r.whiten[k] = splat.whiten[k];
    const float w0 = r.whiten[0], w1 = r.whiten[1], w2 = r.whiten[2];
    constexpr float log2_255 = 7.994353436858858f;
    r.limit = fmaf(fmaxf(__fadd_rn(splat.log2_opacity, log2_255), 0.0f), 1 + 1e-5f, 1e-5f);
    r.slope = -__fdividef(__fmul_rn(w0, w1), fmaf(w1, w1, __fmul_rn(w2, w2)));
    r.along_x = -__fdividef(w1, w0);
    return r;
}

// The exponent at offset (dx, dy), made smaller by more than the blend's rounding can be.
__device__ inline float least_exponent(const reach &r, float dx, float dy) {
    const float a = __fmul_rn(r.whiten[0], dx), b = __fmul_rn(r.whiten[1], dy);
    const float doubt = __fmul_rn(2e-6f, __fadd_rn(fabsf(a), fabsf(b)));
    const float e0 = fmaxf(__fsub_rn(fabsf(__fadd_rn(a, b)), doubt), 0.0f);
    const float e1 = __fmul_rn(__fmul_rn(r.whiten[2], dy), 1 - 2e-6f);
    return fmaf(e0, e0, __fmul_rn(e1, e1));
}

// Whether some point in the rectangle can reach alpha >= 1/255. The exponent is convex: unless the mean is
// inside, its least value is on one of the (at most two) edges that face the mean.
__device__ inline bool reaches(const reach &r, const rectangle &area) {
    // Offsets of the rectangle's sides from the mean, and of its point nearest to the mean.
    const float x0 = __fsub_rn(area.left, r.mean[0]), x1 = __fsub_rn(area.right, r.mean[0]);
    const float y0 = __fsub_rn(area.top, r.mean[1]), y1 = __fsub_rn(area.bottom, r.mean[1]);
    const float x = fminf(fmaxf(0.0f, x0), x1), y = fminf(fmaxf(0.0f, y0), y1);
    if (x == 0 && y == 0) return true;
    const float on_x_edge = least_exponent(r, x, fminf(fmaxf(__fmul_rn(r.slope, x), y0), y1));
    const float on_y_edge = least_exponent(r, fminf(fmaxf(__fmul_rn(r.along_x, y), x0), x1), y);
    return (x != 0 && on_x_edge <= r.limit) || (y != 0 && on_y_edge <= r.limit);
}

#endif
