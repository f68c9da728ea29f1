// SPDX-License-Identifier: MIT
// The strategy fixed: moments with the same bits in every run. A warp sums floats in a fixed order. From
// warps on, the sums are 64-bit integers, so the order of the atomics does not matter.
//
// The scale of each moment is a power of two, chosen so that no sum can overflow: math.md, section 3, has
// the bounds of the sums. Each bound is scaled to below 2^56 units, which leaves a factor of 128 to the range
// of a 64-bit integer. A gradient that is not finite, or a value above 2^57 units, raises a flag. With the flag
// all moments become NaN; a wrong sum is never returned.
#pragma once

#include "blend_backward.cuh"
#include "gpu/block_layout.h"
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

// The memory behind the moments.
struct sums_memory {
    header *head;
    long long *sums;
    size_t head_bytes, bytes; // from the header on; with the moments
};

// moments NULL: only counts.
inline sums_memory memory_of(gs_moments *moments, int64_t count, int channels) {
    block_layout layout = {reinterpret_cast<char *>(moments), 0};
    const size_t values = size_t(GS_MOMENTS_STRIDE + (channels == GS_CHANNELS ? 0 : channels));
    sums_memory out;
    layout_add(&layout, size_t(count) * sizeof(gs_moments));
    const size_t before = layout.bytes;
    layout_add(&layout, 1, &out.head);
    layout_add(&layout, size_t(count) * values, &out.sums);
    out.head_bytes = layout.bytes - before, out.bytes = layout.bytes;
    return out;
}

// The least float that is not below a sum.
__device__ inline float at_least(double sum) {
    const float bound = float(sum);
    return double(bound) < sum ? nextafterf(bound, INFINITY) : bound;
}

// Fields of gs_moments that are summed; the first ones.
inline int summed_moments(const gs_gradient &gradient) {
    return gradient.abs_mean2d ? GS_MOMENTS_STRIDE : gradient.depth ? int(MOMENT_DEPTH) + 1 : GS_MOMENTS;
}

// Queue what comes before the passes of a call, and after them. gradient->moments: as gs_moments_bytes says.
cudaError_t begin(const gs_view &view, const gs_gradient &gradient, gs_stream stream);
cudaError_t end(const gs_view &view, const gs_gradient &gradient, gs_stream stream);

} // namespace fixed

// tree_commit with threshold 1, on integers.
struct fixed_commit {
    pass_sums<long long> sums;
    fixed::header *header;

    static constexpr bool whole_tile = false, compared = false, by_batch = true;
    struct memory {};

    __device__ __forceinline__ int farthest(int value, memory &) const { return largest_in_warp(value); }
    __device__ __forceinline__ bool warp_sums(bool active) const { return __any_sync(full_warp, active); }
    __device__ __forceinline__ long long units(float value, int field) const {
        unsigned flags = 0;
        const long long units = distwar::to_fixed<fixed::log2_adds>(value, header->scale[field], flags);
        if (flags != 0) atomicOr(&header->flag, flags);
        return units;
    }
    template <int K>
    __device__ __forceinline__ void add(uint32_t index, const float (&field)[K]) const {
        DISTWAR_UNROLL
        for (int k = 0; k < K; k++) distwar::atomic_add(sums.place(index, k), units(field[k], k));
    }
    __device__ __forceinline__ void add_color(uint32_t index, int channel, float value) const {
        sums.add_color(index, channel, units(value, MOMENT_COLOR));
    }
};

} // namespace gs
