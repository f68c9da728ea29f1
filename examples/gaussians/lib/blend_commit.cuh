// SPDX-License-Identifier: MIT
// How the moments of a splat get from the pixels of a tile to memory: the part of the backward blend that is
// not the same for every gs_reduction.
#ifndef GS_BLEND_COMMIT_CUH
#define GS_BLEND_COMMIT_CUH

#include "blend.cuh"
#include <distwar/block.cuh>
#include <distwar/reduce.cuh>

// With GS_BLOCK each pixel's share of a moment is clamped to [-GS_BLOCK_LIMIT, GS_BLOCK_LIMIT] before the
// sum, as some renderers do against outliers. Infinite, so that all reductions agree; set it by -D when
// compiling libgs.
#ifndef GS_BLOCK_LIMIT
#define GS_BLOCK_LIMIT INFINITY
#endif

template <gs_reduction Reduction>
constexpr distwar::strategy strategy_of = Reduction == GS_ATOMIC   ? distwar::strategy::atomic
                                          : Reduction == GS_SERIAL ? distwar::strategy::serial
                                          : Reduction == GS_BFLY   ? distwar::strategy::bfly
                                                                   : distwar::strategy::tree;

// Whether a commit is made by all threads of the tile; else by those of a warp.
template <gs_reduction Reduction>
constexpr bool needs_whole_tile = Reduction == GS_BLOCK;

// The shared memory that a tile needs for it.
template <gs_reduction Reduction>
struct commit_memory {};
template <>
struct commit_memory<GS_BLOCK> {
    distwar::block_sum_memory<GS_MOMENTS, tile_pixels> sum;
    int farthest;
};

// A rectangle that every splat reaches.
__device__ constexpr rectangle everywhere = {-INFINITY, -INFINITY, INFINITY, INFINITY};

// The largest value among the threads that commit together.
template <gs_reduction Reduction>
__device__ __forceinline__ int farthest_together(int value, commit_memory<Reduction> &memory) {
    if constexpr (needs_whole_tile<Reduction>) {
        if (threadIdx.x == 0) memory.farthest = 0;
        __syncthreads();
        if (value > 0) atomicMax(&memory.farthest, value);
        __syncthreads();
        return memory.farthest;
    } else {
        (void)memory;
        return __reduce_max_sync(full_warp, value);
    }
}

// Adds the values of all active threads to the moments of splat `index`. All threads of the tile make the
// call together, with the same index.
template <gs_reduction Reduction>
__device__ __forceinline__ void commit(bool active, uint32_t index, const float (&value)[GS_MOMENTS],
                                       float *moments, int balance_threshold,
                                       commit_memory<Reduction> &memory) {
    if constexpr (Reduction == GS_BLOCK) {
        (void)balance_threshold;
        if (!__syncthreads_or(active)) return;
        float sum[GS_MOMENTS];
        distwar::block_sum(value, memory.sum, sum, float(GS_BLOCK_LIMIT));
        if (distwar::block_rank() != 0) return;
        for (int k = 0; k < GS_MOMENTS; k++)
            distwar::atomic_update(&moments[size_t(index) * GS_MOMENTS_STRIDE + k], sum[k], distwar::add{});
    } else {
        (void)memory;
        distwar::reduce<strategy_of<Reduction>>(distwar::all_lanes, active, distwar::uniform_key{index},
                                                value, distwar::record<float>{moments, GS_MOMENTS_STRIDE},
                                                balance_threshold);
    }
}

#endif
