// SPDX-License-Identifier: MIT
// The Commits of libdistwar_gs (see blend_backward.cuh): how a splat's moments go from the pixels of a tile to
// memory.
#pragma once

#include "blend_pass.cuh"
#include <distwar/block.cuh>
#include <distwar/reduce.cuh>

namespace gs {

// Each warp sums; its sums are committed a batch at a time. Splats that fewer lanes than the threshold count at are
// added by each of these lanes.
struct tree_commit {
    pass_sums<float> sums;
    int balance_threshold; // at least 1

    static constexpr bool whole_tile = false, compared = false, by_batch = true;
    struct memory {};

    __device__ __forceinline__ int farthest(int value, memory &) const { return largest_in_warp(value); }
    __device__ __forceinline__ bool warp_sums(bool active) const {
        return __popc(__ballot_sync(full_warp, active)) >= balance_threshold;
    }
    template <int K>
    __device__ __forceinline__ void add(uint32_t index, const float (&field)[K]) const {
        distwar::aligned_record{sums.moments, GS_MOMENTS_STRIDE}.add(index, field);
    }
    __device__ __forceinline__ void add_color(uint32_t index, int channel, float value) const {
        sums.add_color(index, channel, value);
    }
};

// Each warp adds its own sums, by one of the library's strategies.
template <distwar::strategy Strategy>
struct warp_commit {
    pass_sums<float> sums;
    int balance_threshold;

    static constexpr bool whole_tile = false, compared = true, by_batch = false;
    struct memory {};

    __device__ __forceinline__ int farthest(int value, memory &) const { return largest_in_warp(value); }
    template <int K>
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&field)[K],
                                        memory &) const {
        distwar::reduce<Strategy>(distwar::all_lanes, active, distwar::uniform_key{index}, field,
                                  distwar::record{sums.moments, GS_MOMENTS_STRIDE}, balance_threshold);
    }
};

// One sum over the whole tile in shared memory, then a compare-and-swap for each value.
template <typename Values>
struct tile_commit {
    pass_sums<float> sums;
    float limit; // of the size of each thread's part of a sum; INFINITY: none

    static constexpr bool whole_tile = true, compared = true, by_batch = false;
    struct memory {
        distwar::block_sum_memory<Values::fields, Values::most_threads> sum;
        int farthest;
    };

    __device__ __forceinline__ int farthest(int value, memory &shared) const {
        if (threadIdx.x == 0) shared.farthest = 0;
        __syncthreads();
        if (value > 0) atomicMax(&shared.farthest, value);
        __syncthreads();
        return shared.farthest;
    }
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&field)[Values::fields],
                                        memory &shared) const {
        if (!__syncthreads_or(active)) return;
        float sum[Values::fields];
        distwar::block_sum(field, shared.sum, sum, limit);
        if (distwar::block_rank() != 0) return;
        for (int k = 0; k < Values::fields; k++)
            distwar::atomic_update(sums.place(index, k), sum[k], distwar::add{});
    }
};

} // namespace gs
