// SPDX-License-Identifier: MIT
// Which pixel a thread of the blend has, and how a splat covers it. The forward and the backward blend, and
// the tests that replay their decisions, share this one definition.
#ifndef GS_BLEND_CUH
#define GS_BLEND_CUH

#include "gs.h"
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

constexpr int tile_pixels = GS_TILE_SIZE * GS_TILE_SIZE;
constexpr float max_alpha = 0.99f;
constexpr float min_transmittance = 1e-4f;
constexpr float min_exponent = -7.994353436858858f; // log2(1/255): below it a splat does not count

struct pixel {
    int tile, x, y;
    bool inside; // the image
    int64_t index;
};

// Warp w of the block has patch (w % 2, w / 2) of the tile, lane l pixel (l % 8, l / 8) of the patch.
__device__ inline pixel pixel_of_thread(int tiles_x, int width, int height) {
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    pixel p;
    p.tile = int(blockIdx.x);
    p.x = p.tile % tiles_x * GS_TILE_SIZE + warp % 2 * 8 + lane % 8;
    p.y = p.tile / tiles_x * GS_TILE_SIZE + warp / 2 * 4 + lane / 8;
    p.inside = p.x < width && p.y < height;
    p.index = int64_t(p.y) * width + p.x;
    return p;
}

struct coverage {
    float e0, e1; // whitened offset
    float alpha;
    bool cut; // alpha was cut at max_alpha
};

// Whether the splat counts at this pixel, and how much. Forward and backward call this one function, and its
// arithmetic cannot be contracted differently, so their decisions are the same.
__device__ inline bool covers(const gs_splat &splat, const pixel &p, coverage *out) {
    const float dx = __fsub_rn(float(p.x) + 0.5f, splat.mean[0]),
                dy = __fsub_rn(float(p.y) + 0.5f, splat.mean[1]);
    out->e0 = fmaf(splat.whiten[0], dx, __fmul_rn(splat.whiten[1], dy));
    out->e1 = __fmul_rn(splat.whiten[2], dy);
    const float exponent = __fsub_rn(splat.log2_opacity, fmaf(out->e0, out->e0, __fmul_rn(out->e1, out->e1)));
    if (!(exponent >= min_exponent)) return false; // also when a far offset made it NaN
    const float alpha = exp2f(exponent);
    out->cut = alpha > max_alpha;
    out->alpha = fminf(alpha, max_alpha);
    return true;
}

#endif
