// SPDX-License-Identifier: MIT
// How the blend divides an image among threads, and how a splat covers a pixel. The forward and the backward
// blend, and the tests that replay their decisions, share these definitions.
//
// A block has a tile, and each of its warps a patch of it, 8 pixels wide and 4 * Pixels high: thread l of the
// warp has the pixels (l % 8, l / 8 + 4 p) of the patch, p < Pixels. Warps go through the tile's list on
// their own, 32 splats at a time, and leave out those that do not reach their patch.
#ifndef GS_BLEND_CUH
#define GS_BLEND_CUH

#include "gs.h"
#include "reach.cuh"
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

constexpr int tile_pixels = GS_TILE_SIZE * GS_TILE_SIZE;
constexpr float max_alpha = 0.99f;
constexpr float never_cut = -0.0146f; // log2(max_alpha) and a little: a splat below it is cut nowhere
constexpr float min_transmittance = 1e-4f;
constexpr float min_exponent = -7.994353436858858f; // log2(1/255): below it a splat does not count
constexpr unsigned full_warp = 0xffffffffu;

// The largest of the values of all 32 lanes, in each of them; int or unsigned.
template <typename T>
__device__ __forceinline__ T largest_in_warp(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800 // which brought the one instruction
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
    rectangle centres; // of the warp's pixels inside the image; empty if there are none
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
// The same with tiles as they stand, a block a tile.
template <int Pixels>
__device__ patch<Pixels> patch_of_warp(int tiles_x, int width, int height) {
    return patch_of_warp<Pixels>(int(blockIdx.x), tiles_x, width, height);
}

// The tile whose turn it is. Blocks begin in their order, so long lists begin first and do not trail behind.
__device__ inline int tile_in_turn(const gs_lists &lists, int turn) {
    return lists.tile_order ? int(lists.tile_order[turn]) : turn;
}

// 32 splats of a tile's list, for one warp.
struct splat_batch {
    gs_splat splat[32];
    uint32_t index[32];
};

// Fills the batch with those of the warp's splats, `index` in each lane with has_entry, that reach the patch;
// returns their lanes, which are their places in the batch. By the whole warp.
__device__ inline unsigned fill_batch(const gs_splat *splats, uint32_t index, bool has_entry,
                                      const rectangle &centres, splat_batch &batch) {
    const int lane = int(threadIdx.x) % 32;
    __syncwarp(); // nobody reads the last batch any more
    bool wanted = false;
    if (has_entry) {
        const gs_splat splat = splats[index];
        wanted = reaches(reach_of(splat), centres);
        if (wanted) {
            batch.splat[lane] = splat;
            batch.index[lane] = index;
        }
    }
    const unsigned filled = __ballot_sync(full_warp, wanted);
    __syncwarp();
    return filled;
}
// The same from a list, list[entry] in each lane with has_entry.
__device__ inline unsigned fill_batch(const gs_splat *splats, const uint32_t *list, int entry, bool has_entry,
                                      const rectangle &centres, splat_batch &batch) {
    return fill_batch(splats, has_entry ? list[entry] : 0, has_entry, centres, batch);
}

struct color3 {
    float r, g, b;
};

struct coverage {
    float e0, e1; // whitened offset
    float alpha;
    bool cut; // alpha was cut at max_alpha
};

// Whether the splat counts at the pixel (x, y), and how much. Forward and backward call this one function,
// and its arithmetic cannot be contracted differently, so their decisions are the same. Without a branch, so
// that the latencies of several pixels overlap. MayCut false: for splats whose log2_opacity is under
// never_cut.
template <bool MayCut = true>
__device__ inline bool covers(const gs_splat &splat, int x, int y, coverage *out) {
    const float dx = __fsub_rn(float(x) + 0.5f, splat.mean[0]),
                dy = __fsub_rn(float(y) + 0.5f, splat.mean[1]);
    out->e0 = fmaf(splat.whiten[1], dy, __fmul_rn(splat.whiten[0], dx)); // the product is that of all rows
    out->e1 = __fmul_rn(splat.whiten[2], dy);
    const float exponent = __fsub_rn(splat.log2_opacity, fmaf(out->e0, out->e0, __fmul_rn(out->e1, out->e1)));
    const float alpha = exp2f(exponent);
    out->cut = MayCut && alpha > max_alpha;
    out->alpha = MayCut ? fminf(alpha, max_alpha) : alpha;
    return exponent >= min_exponent; // false also when a far offset made it NaN
}

#endif
