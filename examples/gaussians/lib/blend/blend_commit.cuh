// SPDX-License-Identifier: MIT
// The Commits of libdistwar_gs (see blend_backward.cuh): how a splat's moments go from the pixels of a tile to
// memory.
#pragma once

#include "blend_pass.cuh"
#include <distwar/block.cuh>
#include <distwar/reduce.cuh>

namespace gs {

// Each warp adds its own sums, by one of the library's strategies.
template <distwar::strategy Strategy, int Channels = GS_CHANNELS>
struct warp_commit {
    pass_sums<Channels> sums;
    int balance_threshold; // at least 1

    static constexpr bool whole_tile = false;
    static constexpr bool compared = Strategy != distwar::strategy::tree;
    struct memory {};

    __device__ __forceinline__ int farthest(int value, memory &) const { return largest_in_warp(value); }
    template <int K>
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&value)[K],
                                        memory &) const {
        if constexpr (Strategy == distwar::strategy::tree) {
            // As reduce_tree, but that values of inactive lanes are 0 and need not be left out.
            if (__popc(__ballot_sync(full_warp, active)) >= balance_threshold) {
                float total[distwar::tree_places(K)];
                distwar::tree_total(true, value, total);
                DISTWAR_UNROLL
                for (int place = 0; place < distwar::tree_places(K); place++) {
                    const int k = 32 * place + int(distwar::lane_id());
                    if (k < K) sums.sink().add_one(index, k, total[place]);
                }
                return;
            }
            if (active) sums.sink().add(index, value);
            return;
        }
        distwar::reduce<Strategy>(distwar::all_lanes, active, distwar::uniform_key{index}, value, sums.sink(),
                                  balance_threshold);
    }
};

// One sum over the whole tile in shared memory, then a compare-and-swap for each value.
template <typename Values>
struct tile_commit {
    pass_sums<Values::channels> sums;

    static constexpr bool whole_tile = true;
    static constexpr bool compared = true;
    struct memory {
        distwar::block_sum_memory<Values::count, Values::most_threads> sum;
        int farthest;
    };

    __device__ __forceinline__ int farthest(int value, memory &shared) const {
        if (threadIdx.x == 0) shared.farthest = 0;
        __syncthreads();
        if (value > 0) atomicMax(&shared.farthest, value);
        __syncthreads();
        return shared.farthest;
    }
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&value)[Values::count],
                                        memory &shared) const {
        if (!__syncthreads_or(active)) return;
        float sum[Values::count];
        distwar::block_sum(value, shared.sum, sum);
        if (distwar::block_rank() != 0) return;
        for (int k = 0; k < Values::count; k++)
            if (sums.stores(k)) distwar::atomic_update(sums.place(index, k), sum[k], distwar::add{});
    }
};

} // namespace gs
