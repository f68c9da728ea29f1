// SPDX-License-Identifier: MIT
// How the blend maps pixels to threads, and how a splat covers a pixel. Shared by the forward and the
// backward blend and by the tests that replay their decisions.
//
// A block handles a tile. Each of its warps handles a patch of the tile, 8 pixels wide and 4 * Pixels high:
// lane l has the pixels (l % 8, l / 8 + 4 p) of the patch, p < Pixels. Each warp reads the tile's list by
// itself, 32 splats at a time, and skips splats that do not reach its patch.
#ifndef GS_BLEND_CUH
#define GS_BLEND_CUH

#include "channels.cuh"
#include "distwar_gs.h"
#include "bin/reach.cuh"
#include <cuda_runtime.h>
#include <distwar/lanes.cuh>
#include <math.h>
#include <stdint.h>

#if __has_include("blend/blend_variant.h")
#include "blend/blend_variant.h" // of the measured binaries alone
#endif
#ifndef GS_BLEND_ROWS
#define GS_BLEND_ROWS 1
#endif
#ifndef GS_BLEND_FORWARD
#define GS_BLEND_FORWARD 1
#endif
#ifndef GS_BLEND_PRODUCTS
#define GS_BLEND_PRODUCTS 1
#endif
#ifndef GS_BLEND_SLOTS
#define GS_BLEND_SLOTS 8 // or 4
#endif

namespace gs {

constexpr int tile_pixels = GS_TILE_SIZE * GS_TILE_SIZE;
constexpr float max_alpha = 0.99f;
constexpr float never_clamped = -0.0146f; // just below log2(max_alpha): no pixel of such a splat is clamped
constexpr float min_transmittance = 1e-4f;
constexpr float min_exponent = -7.994353436858858f; // log2(1/255): below it a splat is skipped
constexpr unsigned full_warp = 0xffffffffu;

// The maximum over all 32 lanes, in every lane. T: int or unsigned.
template <typename T>
__device__ __forceinline__ T largest_in_warp(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800 // redux is there from 8.0 on
    for (int distance = 16; distance > 0; distance /= 2) {
        const T other = __shfl_xor_sync(full_warp, value, distance);
        value = other > value ? other : value;
    }
    return value;
#else
    return __reduce_max_sync(full_warp, value);
#endif
}

template <int Pixels>
constexpr int tile_threads = tile_pixels / Pixels;
template <int Pixels>
constexpr int tile_warps = tile_threads<Pixels> / 32;
constexpr int patch_width = 8, row_step = 4;

template <int Pixels>
struct patch {
    int tile;
    int x, y;          // the thread's first pixel
    rectangle centres; // the warp's pixel centres inside the image; empty (right < left) if there are none
};

template <int Pixels>
__device__ patch<Pixels> patch_of_warp(int tile, int tiles_x, int width, int height) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int left = tile % tiles_x * GS_TILE_SIZE + warp % 2 * patch_width;
    const int top = tile / tiles_x * GS_TILE_SIZE + warp / 2 * row_step * Pixels;
    const int right = min(left + patch_width, width), bottom = min(top + row_step * Pixels, height);
    return {tile,
            left + lane % patch_width,
            top + lane / patch_width,
            {float(left) + 0.5f, float(top) + 0.5f, float(right) - 0.5f, float(bottom) - 0.5f}};
}

// Of all views.
inline int tiles_in(const gs_lists &lists) {
    return lists.tiles_x * lists.tiles_y * (lists.views > 1 ? lists.views : 1);
}

// The view of a tile, if there are several.
__device__ __forceinline__ int view_of_tile(const gs_lists &lists, int tile) {
    return tile / (lists.tiles_x * lists.tiles_y);
}

// The warp's patch of a tile. Batch: among the tiles of several views.
template <int Pixels, bool Batch>
__device__ patch<Pixels> patch_of_tile(const gs_lists &lists, int tile, int width, int height) {
    const int before = Batch ? view_of_tile(lists, tile) * lists.tiles_x * lists.tiles_y : 0;
    patch<Pixels> mine = patch_of_warp<Pixels>(tile - before, lists.tiles_x, width, height);
    mine.tile = tile;
    return mine;
}

// The image of one view.
__device__ __forceinline__ gs_image image_of_view(gs_image image, int view, int64_t plane) {
    const int64_t first = view * plane;
    if (image.color) image.color += GS_CHANNELS * first;
    image.transmittance += first;
    image.n_contrib += first;
    if (image.depth) image.depth += first;
    if (image.median_depth) image.median_depth += first;
    return image;
}

// The n-th tile to work on. The GPU starts blocks in order, so the longest lists start first.
__device__ inline int ordered_tile(const gs_lists &lists, int n) {
    return lists.tile_order ? int(lists.tile_order[n]) : n;
}

// Up to 32 splats of a tile's list, for one warp.
struct splat_batch {
    gs_splat splat[32];
    uint32_t index[32];
};

// The rows of four pixels a thread that a splat can reach: bit p for pixel p of any lane. Conservative, as `reaches`.
// Between two vertical lines the points with exponent <= limit are highest where the ellipse is, or on the line nearest
// to that point, and likewise lowest.
__device__ inline unsigned reached_rows(const gs_splat &splat, const rectangle &centres) {
    const splat_reach r = reach_of(splat);
    const float w0 = r.whiten[0], w1 = r.whiten[1], w2 = r.whiten[2];
    const float left = centres.left - r.mean[0], right = centres.right - r.mean[0];
    const float inv_a = __fdividef(1, fmaf(w1, w1, w2 * w2));  // on a line the exponent is least + dy^2 / inv_a
    const float of_least = (w0 * w2) * (w0 * w2) * inv_a;      // least: of_least dx^2
    const float highest = r.along_x * __fdividef(r.limit * rsqrtf(r.limit), w2); // dx of the highest point
    const float dx_of_bottom = fminf(fmaxf(highest, left), right), dx_of_top = fminf(fmaxf(-highest, left), right);
    const float bottom_rest = fmaf(-of_least * dx_of_bottom, dx_of_bottom, r.limit),
                top_rest = fmaf(-of_least * dx_of_top, dx_of_top, r.limit);
    if (bottom_rest < 0 || top_rest < 0) return 0;
    const float bottom_root = bottom_rest * inv_a * rsqrtf(bottom_rest * inv_a),
                top_root = top_rest * inv_a * rsqrtf(top_rest * inv_a);
    const float bottom_middle = r.slope * dx_of_bottom, top_middle = r.slope * dx_of_top;
    constexpr float slack = 4e-6f;
    const float bottom = fmaf(slack, fabsf(bottom_middle), bottom_middle + bottom_root * (1 + slack)),
                top = fmaf(-slack, fabsf(top_middle), top_middle - top_root * (1 + slack));
    unsigned rows = 0;
    DISTWAR_UNROLL
    for (int p = 0; p < 4; p++) {
        const float first = centres.top + float(row_step * p), last = fminf(first + (row_step - 1), centres.bottom);
        const bool apart = __fsub_rn(first, r.mean[1]) > bottom || __fsub_rn(last, r.mean[1]) < top;
        rows |= unsigned(!apart && first <= last) << p;
    }
    return rows;
}

// Each lane with has_entry brings the splat `index`. Stores those that reach the patch in the batch, at the
// place of their lane; returns the mask of these lanes. By all lanes of a warp. Rows: for four pixels a thread; tilt
// becomes the bits of reached_rows that are in `live`, and of `index`; without any the splat is not stored.
template <bool Rows = false>
__device__ inline unsigned fill_batch(const gs_splat *splats, uint32_t index, bool has_entry,
                                      const rectangle &centres, splat_batch &batch, unsigned live = 15) {
    const int lane = int(threadIdx.x) % 32;
    __syncwarp(); // all lanes are done with the previous batch
    bool wanted = false;
    if (has_entry) {
        gs_splat splat = splats[index];
        if constexpr (Rows) {
            const unsigned rows = reached_rows(splat, centres) & live;
            wanted = rows != 0;
            splat.tilt[0] = __uint_as_float(rows), splat.tilt[1] = __uint_as_float(index);
        } else {
            wanted = reaches(reach_of(splat), centres);
        }
        if (wanted) {
            batch.splat[lane] = splat;
            batch.index[lane] = index;
        }
    }
    const unsigned filled = __ballot_sync(full_warp, wanted);
    __syncwarp();
    return filled;
}
// The same for list[entry].
template <bool Rows = false>
__device__ inline unsigned fill_batch(const gs_splat *splats, const uint32_t *list, int entry, bool has_entry,
                                      const rectangle &centres, splat_batch &batch, unsigned live = 15) {
    return fill_batch<Rows>(splats, has_entry ? list[entry] : 0, has_entry, centres, batch, live);
}

template <int Channels>
struct channel_values {
    float at[Channels];
};
using color3 = channel_values<GS_CHANNELS>;

template <int Channels>
__device__ __forceinline__ float dot(const float *a, const channel_values<Channels> &b) {
    float sum = 0;
    for_channels<Channels>([&](int c) { sum = c == 0 ? a[0] * b.at[0] : sum + a[c] * b.at[c]; });
    return sum;
}

// Pixel i of an image of planes, [GS_CHANNELS][plane].
__device__ __forceinline__ color3 pixel_of(const float *image, int64_t plane, int64_t i) {
    color3 out;
    for_channels([&](int c) { out.at[c] = image[i + c * plane]; });
    return out;
}

struct coverage {
    float e0, e1; // whitened offset
    float alpha;
    bool clamped; // alpha was clamped at max_alpha
};

// The exponent of alpha at the pixel (x, y), and e there. The compiler cannot contract its arithmetic.
__device__ __forceinline__ float exponent_at(const gs_splat &splat, int x, int y, float *e0, float *e1) {
    const float dx = __fsub_rn(float(x) + 0.5f, splat.mean[0]),
                dy = __fsub_rn(float(y) + 0.5f, splat.mean[1]);
    *e0 = fmaf(splat.whiten[1], dy, __fmul_rn(splat.whiten[0], dx)); // the product is common to a column of pixels
    *e1 = __fmul_rn(splat.whiten[2], dy);
    return __fsub_rn(splat.log2_opacity, fmaf(*e0, *e0, __fmul_rn(*e1, *e1)));
}

// Whether the splat counts at the pixel (x, y), and its alpha there. Forward and backward blend both call
// this function or exponent_at, so they decide alike. It has no branch, so
// the latencies of several pixels overlap. MayClamp = false is for splats with log2_opacity < never_clamped.
template <bool MayClamp = true>
__device__ inline bool covers(const gs_splat &splat, int x, int y, coverage *out) {
    const float exponent = exponent_at(splat, x, y, &out->e0, &out->e1);
    const float alpha = exp2f(exponent);
    out->clamped = MayClamp && alpha > max_alpha;
    out->alpha = MayClamp ? fminf(alpha, max_alpha) : alpha;
    return exponent >= min_exponent; // false for NaN, from a far offset
}

} // namespace gs

#endif
