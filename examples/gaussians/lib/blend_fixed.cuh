// SPDX-License-Identifier: MIT
// The strategy fixed: moments with the same bits in every run. A warp sums floats in a fixed order. From
// warps on, the sums are 64-bit integers, so the order of the atomics does not matter.
//
// The scale of each moment is a power of two, chosen so that no sum can overflow. Let S be the sum of
// |d_color| over pixels and channels, A the sum of |d_alpha|, and K the largest absolute value among the
// colours of visible splats and the background. For a pixel with gradient g (docs/math.md, section 3):
// - |T alpha g_c| <= |g_c|, since T <= 1 and alpha < 1. So the sum of a colour's moment is at most S.
// - colour . g and B are both at most K |g|_1 + |d_alpha|: B is a convex combination of such products and of
//   background . g - d_alpha. Only B has the last term, so |h| = T alpha |colour . g - B| <= 2 K |g|_1 +
//   |d_alpha|, and the sum of |h| is at most H = 2 K S + A.
// - A splat counts where |e|^2 <= log2(255 opacity) < 8, with e in the kernels' scale. So sums with e0 or e1
//   are at most sqrt(8) H, with e0^2 or e1^2 8 H, with e0 e1 4 H.
// - A depth is a colour whose gradient is that of the depth, d_depth, and whose background is 0: with D the sum
//   of |d_depth| and Z the largest depth of a visible splat, its moment's sum is at most D, and H becomes
//   2 K S + 2 Z D + A. A normalised depth divides d_depth by alpha and adds to d_alpha; both are as the blend
//   has them. Of inverse depth, Z is the largest inverse, and the moment's sum at most Z^2 D.
// - The sums of |h e0| and |h n e|, |n| = 1, are at most sqrt(8) H.
// Several passes share the bounds: S is over all channels, and so bounds the sum of all passes.
// Rounding adds less than 1%: at most 2,344 splats count at a pixel, since each takes at least 1/255 of the
// light until 1e-4 is left. Each bound is scaled to below 2^56 units, which leaves a factor of 128 to the
// range of a 64-bit integer. A gradient that is not finite, or a value above 2^57 units, raises a flag. With
// the flag all moments become NaN; a wrong sum is never returned.
#pragma once

#include "blend_backward.cuh"
#include <distwar/fixed.cuh>

namespace gs {

namespace fixed {

constexpr int threads = 256, most_blocks = threads; // one block sums the parts of all blocks
constexpr int log2_adds = 6;                        // of to_fixed: a single value may have 2^57 units

// Over one block's part of the image and of the splats.
struct bounds {
    double d_color, d_depth, d_alpha; // sums of absolute values
    float largest_color, largest_depth;
};

// Follows the moments in their memory. The integer sums, [count][GS_MOMENTS_STRIDE], follow the header, then
// those of colours, [count][channels], unless these are in the moments.
struct header {
    float scale[GS_MOMENTS_STRIDE]; // units per 1.0, of each moment
    unsigned flag;                  // of distwar::fixed_flag
    bounds of_block[most_blocks];
};
constexpr size_t header_bytes = (sizeof(header) + 255) / 256 * 256;

inline size_t float_bytes(int64_t count) {
    return (size_t(count) * GS_MOMENTS_STRIDE * sizeof(float) + 255) / 256 * 256;
}

inline size_t sum_bytes(int64_t count, int channels) {
    const int values = GS_MOMENTS_STRIDE + (channels == GS_CHANNELS ? 0 : channels);
    return size_t(count) * size_t(values) * sizeof(long long);
}

inline header *header_of(gs_moments *moments, int64_t count) {
    return reinterpret_cast<header *>(reinterpret_cast<char *>(moments) + float_bytes(count));
}
inline long long *sums_of(gs_moments *moments, int64_t count) {
    return reinterpret_cast<long long *>(reinterpret_cast<char *>(moments) + float_bytes(count) +
                                         header_bytes);
}

// Queue what comes before the passes of a call, and after them. gradient->moments: as gs_moments_bytes says.
cudaError_t begin(const gs_view &view, const gs_gradient &gradient, gs_stream stream);
cudaError_t end(const gs_view &view, const gs_gradient &gradient, gs_stream stream);

} // namespace fixed

// warp_commit with the strategy tree and threshold 0, on integers.
template <typename Values>
struct fixed_commit {
    pass_sums<Values::channels, long long> sums;
    fixed::header *header;

    static constexpr bool whole_tile = false;
    struct memory {};

    __device__ __forceinline__ int farthest(int value, memory &) const { return largest_in_warp(value); }
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&value)[Values::count],
                                        memory &) const {
        if (!__any_sync(full_warp, active)) return;
        float total[distwar::tree_places(Values::count)];
        distwar::tree_total(active, value, total);
        DISTWAR_UNROLL
        for (int place = 0; place < distwar::tree_places(Values::count); place++) {
            const int k = 32 * place + int(threadIdx.x % 32);
            if (k >= Values::count) continue;
            unsigned flags = 0;
            const long long units =
                distwar::to_fixed<fixed::log2_adds>(total[place], header->scale[Values::moment_of(k)], flags);
            if (flags != 0) atomicOr(&header->flag, flags);
            sums.sink().add_one(index, k, units);
        }
    }
};

} // namespace gs
