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

// The rows of four pixels a thread that a splat can reach: bit p for pixel p of any lane.
__device__ inline unsigned reached_rows(const gs_splat &splat, const rectangle &centres) {
    const splat_reach reach = reach_of(splat);
    unsigned rows = 0;
    DISTWAR_UNROLL
    for (int p = 0; p < 4; p++) {
        const float top = centres.top + float(row_step * p);
        const bool reached =
            reaches(reach, {centres.left, top, centres.right, fminf(top + (row_step - 1), centres.bottom)});
        rows |= unsigned(reached && top <= centres.bottom) << p;
    }
    return rows;
}

// Each lane with has_entry brings the splat `index`. Stores those that reach the patch in the batch, at the
// place of their lane; returns the mask of these lanes. By all lanes of a warp. Rows: for four pixels a thread; tilt
// becomes the bits of reached_rows, and of `index`.
template <bool Rows = false>
__device__ inline unsigned fill_batch(const gs_splat *splats, uint32_t index, bool has_entry,
                                      const rectangle &centres, splat_batch &batch) {
    const int lane = int(threadIdx.x) % 32;
    __syncwarp(); // all lanes are done with the previous batch
    bool wanted = false;
    if (has_entry) {
        gs_splat splat = splats[index];
        if constexpr (Rows) {
            const unsigned rows = reached_rows(splat, centres);
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
                                      const rectangle &centres, splat_batch &batch) {
    return fill_batch<Rows>(splats, has_entry ? list[entry] : 0, has_entry, centres, batch);
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

// Whether the splat counts at the pixel (x, y), and its alpha there. Forward and backward blend both call
// this function, and the compiler cannot contract its arithmetic, so they decide alike. It has no branch, so
// the latencies of several pixels overlap. MayClamp = false is for splats with log2_opacity < never_clamped.
template <bool MayClamp = true>
__device__ inline bool covers(const gs_splat &splat, int x, int y, coverage *out) {
    const float dx = __fsub_rn(float(x) + 0.5f, splat.mean[0]),
                dy = __fsub_rn(float(y) + 0.5f, splat.mean[1]);
    out->e0 = fmaf(splat.whiten[1], dy,
                   __fmul_rn(splat.whiten[0], dx)); // the product is common to a column of pixels
    out->e1 = __fmul_rn(splat.whiten[2], dy);
    const float exponent = __fsub_rn(splat.log2_opacity, fmaf(out->e0, out->e0, __fmul_rn(out->e1, out->e1)));
    const float alpha = exp2f(exponent);
    out->clamped = MayClamp && alpha > max_alpha;
    out->alpha = MayClamp ? fminf(alpha, max_alpha) : alpha;
    return exponent >= min_exponent; // false for NaN, from a far offset
}

} // namespace gs

#endif
