// SPDX-License-Identifier: MIT
// The Commits of libgs (see blend_backward.cuh): how a splat's moments go from the pixels of a tile to
// memory.
#ifndef GS_BLEND_COMMIT_CUH
#define GS_BLEND_COMMIT_CUH

#include "blend.cuh"
#include <distwar/block.cuh>
#include <distwar/reduce.cuh>

namespace gs {

// The strategy block clamps each pixel's part of a moment to [-GS_BLOCK_LIMIT, GS_BLOCK_LIMIT] before the sum, as some
// renderers do against outliers. Infinity makes all strategies agree. Set it by -D when compiling libgs.
#ifndef GS_BLOCK_LIMIT
#define GS_BLOCK_LIMIT INFINITY
#endif

// Each warp adds its own sums, by one of the library's strategies.
template <distwar::strategy Strategy>
struct warp_commit {
    float *moments; // [count][GS_MOMENTS_STRIDE]
    int balance_threshold;

    static constexpr bool whole_tile = false;
    struct memory {};

    __device__ __forceinline__ int farthest(int value, memory &) const { return largest_in_warp(value); }
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&value)[GS_MOMENTS],
                                        memory &) const {
        distwar::reduce<Strategy>(distwar::all_lanes, active, distwar::uniform_key{index}, value,
                                  distwar::record<float>{moments, GS_MOMENTS_STRIDE}, balance_threshold);
    }
};

// One sum over the whole tile in shared memory, then a compare-and-swap for each value.
struct tile_commit {
    float *moments; // [count][GS_MOMENTS_STRIDE]

    static constexpr bool whole_tile = true;
    struct memory {
        distwar::block_sum_memory<GS_MOMENTS, tile_pixels> sum;
        int farthest;
    };

    __device__ __forceinline__ int farthest(int value, memory &shared) const {
        if (threadIdx.x == 0) shared.farthest = 0;
        __syncthreads();
        if (value > 0) atomicMax(&shared.farthest, value);
        __syncthreads();
        return shared.farthest;
    }
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&value)[GS_MOMENTS],
                                        memory &shared) const {
        if (!__syncthreads_or(active)) return;
        float sum[GS_MOMENTS];
        distwar::block_sum(value, shared.sum, sum, float(GS_BLOCK_LIMIT));
        if (distwar::block_rank() != 0) return;
        for (int k = 0; k < GS_MOMENTS; k++)
            distwar::atomic_update(&moments[size_t(index) * GS_MOMENTS_STRIDE + k], sum[k], distwar::add{});
    }
};

} // namespace gs

#endif
