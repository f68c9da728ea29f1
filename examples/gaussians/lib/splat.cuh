// SPDX-License-Identifier: MIT
// What kernels share of splats: their channels, their moments as gs_render_backward sums them, the pixels that they can
// reach, and the tiles. Reads gs_splat and gs_splat_grad. docs/developers/math.md, sections 2 and 3.
#pragma once

#include "context.h"
#include "device_code.h"
#include <cuda_runtime.h>
#include <math.h>
#include <stddef.h>
#include <utility>

namespace gs {

// ---- channels ----

#ifndef __SIMT__
template <typename Body, int... C>
GS_DEVICE void for_channels(const Body &body, std::integer_sequence<int, C...>) {
    (body(C), ...);
}
#endif

// Calls body(c) for every channel c. Unrolled in the source: nvcc does not unroll a loop by itself if it
// contains another loop, even one that it unrolls fully. Under simt it is a loop, which compiles in half the time.
template <int Channels = GS_CHANNELS, typename Body>
GS_DEVICE void for_channels(const Body &body) {
#ifdef __SIMT__
    for (int c = 0; c < Channels; c++) body(c);
#else
    for_channels(body, std::make_integer_sequence<int, Channels>{});
#endif
}

// ---- moments: gs_splat_grad as a struct, and as an array of GS_SPLAT_GRAD_SUMS floats where the library sums it ----

// Index of each field of gs_splat_grad in the array.
enum moment {
    MOMENT_COLOR = offsetof(gs_splat_grad, color) / sizeof(float), // and GS_CHANNELS - 1 more
    MOMENT_H = offsetof(gs_splat_grad, h) / sizeof(float),
    MOMENT_H_E0 = offsetof(gs_splat_grad, h_e0) / sizeof(float),
    MOMENT_H_E1 = offsetof(gs_splat_grad, h_e1) / sizeof(float),
    MOMENT_H_E0E0 = offsetof(gs_splat_grad, h_e0e0) / sizeof(float),
    MOMENT_H_E0E1 = offsetof(gs_splat_grad, h_e0e1) / sizeof(float),
    MOMENT_H_E1E1 = offsetof(gs_splat_grad, h_e1e1) / sizeof(float),
    MOMENT_DEPTH = offsetof(gs_splat_grad, depth) / sizeof(float),
    MOMENT_ABS_X = offsetof(gs_splat_grad, abs_x) / sizeof(float),
    MOMENT_ABS_Y = offsetof(gs_splat_grad, abs_y) / sizeof(float)
};
static_assert(MOMENT_H_E1E1 + 1 == GS_SPLAT_GRAD_SUMS, "the fields that are always summed come first");
static_assert(MOMENT_ABS_Y + 1 == GS_SPLAT_GRAD_STRIDE, "a gs_splat_grad has no other fields");

GS_DEVICE gs_splat_grad load_splat_grad(const float *splat_grad, int64_t i) {
    return reinterpret_cast<const gs_splat_grad *>(splat_grad)[i];
}

GS_DEVICE bool any_grad(const gs_splat_grad &m) {
    bool any = m.h != 0 || m.h_e0 != 0 || m.h_e1 != 0 || m.h_e0e0 != 0 || m.h_e0e1 != 0 || m.h_e1e1 != 0 ||
               m.depth != 0 || m.abs_x != 0 || m.abs_y != 0;
    for (int c = 0; c < GS_CHANNELS; c++) any = any || m.color[c] != 0;
    return any;
}

// ---- reach: the predicate by which gs_bin puts splats into tiles' lists and the blend's warps select from a list.
// Conservative: it may accept a splat that no pixel needs; it never rejects one that a pixel needs ----

// A closed rectangle, of pixel centres.
struct rectangle {
    float left, top, right, bottom;
};

// What the predicate needs of a splat. gs_bin counts by the predicate and later writes by it; both passes
// must agree to the last bit, so its arithmetic is written with intrinsics that the compiler cannot contract.
struct splat_reach {
    float mean[2], conic_sqrt[3];
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
    for (int k = 0; k < 3; k++) r.conic_sqrt[k] = splat.conic_sqrt[k];
    const float w0 = r.conic_sqrt[0], w1 = r.conic_sqrt[1], w2 = r.conic_sqrt[2];
    constexpr float log2_255 = 7.994353436858858f;
    r.limit = fmaf(fmaxf(__fadd_rn(splat.log2_opacity, log2_255), 0.0f), 1 + 1e-5f, 1e-5f);
    r.slope = -__fdividef(__fmul_rn(w0, w1), fmaf(w1, w1, __fmul_rn(w2, w2)));
    r.along_x = -__fdividef(w1, w0);
    return r;
}

// A lower bound of the exponent at offset (dx, dy): reduced by more than the blend's rounding error.
__device__ inline float least_exponent(const splat_reach &r, float dx, float dy) {
    const float a = __fmul_rn(r.conic_sqrt[0], dx), b = __fmul_rn(r.conic_sqrt[1], dy);
    const float slack = __fmul_rn(2e-6f, __fadd_rn(fabsf(a), fabsf(b)));
    const float e0 = fmaxf(__fsub_rn(fabsf(__fadd_rn(a, b)), slack), 0.0f);
    const float e1 = __fmul_rn(__fmul_rn(r.conic_sqrt[2], dy), 1 - 2e-6f);
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

// ---- tiles of a view's images, and those that a splat may reach ----

struct tile_grid {
    int width, height, tiles_x, tiles_y; // of one view
    int views;
    gs_rows rows;
};

__host__ __device__ inline int tiles_of(const tile_grid &grid) {
    return grid.tiles_x * grid.tiles_y * grid.views;
}

// Half-open ranges of tiles.
struct tile_box {
    int x_begin, x_end, y_begin, y_end;
};

__device__ inline int area_of(const tile_box &box) {
    return box.x_end > box.x_begin && box.y_end > box.y_begin
               ? (box.x_end - box.x_begin) * (box.y_end - box.y_begin)
               : 0;
}

__device__ inline int clamped_tile(float tile, int tiles) {
    return int(fminf(fmaxf(tile, 0.0f), float(tiles)));
}

// The tiles of grid.rows that the slightly enlarged bounding box of the splat's ellipse touches. Tile t has the pixel
// centres 16 t + 0.5 .. 16 t + 15.5.
__device__ inline tile_box box_of(const splat_reach &r, const tile_grid &grid) {
    const float root = sqrtf(r.limit), tilt = r.conic_sqrt[1] / r.conic_sqrt[2];
    const float half_x = root / r.conic_sqrt[0] * sqrtf(1 + tilt * tilt) * 1.001f + 0.01f;
    const float half_y = root / r.conic_sqrt[2] * 1.001f + 0.01f;
    constexpr float size = GS_TILE_SIZE;
    return {
        clamped_tile(ceilf((r.mean[0] - half_x - (size - 0.5f)) / size), grid.tiles_x),
        clamped_tile(floorf((r.mean[0] + half_x - 0.5f) / size) + 1, grid.tiles_x),
        max(clamped_tile(ceilf((r.mean[1] - half_y - (size - 0.5f)) / size), grid.tiles_y), grid.rows.begin),
        min(clamped_tile(floorf((r.mean[1] + half_y - 0.5f) / size) + 1, grid.tiles_y), grid.rows.end)};
}

inline tile_grid grid_of(const gs_view *view) {
    const int width = view->camera.width, height = view->camera.height, tiles_y = tiles_along(height);
    const bool all = view->rows.begin == 0 && view->rows.end == 0;
    return {width,   height,           tiles_along(width),
            tiles_y, view_count(view), all ? gs_rows{0, tiles_y} : view->rows};
}

} // namespace gs
