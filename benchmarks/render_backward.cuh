// SPDX-License-Identifier: MIT
// Ways for a splat's moments to get from the warp to memory that are for comparison only, as Commits of the
// flagship's backward blend (blend_backward.cuh).
#ifndef BENCHMARKS_RENDER_BACKWARD_CUH
#define BENCHMARKS_RENDER_BACKWARD_CUH

#include "blend/blend_backward.cuh"
#include "blend/blend_commit.cuh"
#include <cub/warp/warp_reduce.cuh>
#include <distwar/reduce.cuh>

using namespace gs;

// cub::WarpReduce once per value, then one atomic per value by lane 0. Who adds nothing is left out by a vote, as
// the library's strategies do it.
struct cub_commit : warp_commit<distwar::strategy::atomic> {
    using reduction = cub::WarpReduce<float>;
    struct memory {
        typename reduction::TempStorage storage[tile_pixels / 32];
    };
    __device__ __forceinline__ int farthest(int value, memory &) const { return largest_in_warp(value); }
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&field)[GS_MOMENTS],
                                        memory &shared) const {
        if (!__any_sync(full_warp, active)) return;
        DISTWAR_UNROLL
        for (int k = 0; k < GS_MOMENTS; k++) {
            const float total = reduction(shared.storage[threadIdx.x / 32]).Sum(field[k]);
            if (threadIdx.x % 32 == 0) atomicAdd(sums.place(index, k), total);
        }
    }
};

// Bits that no value of the blend has; the compiler does not know. Comparing with them keeps a value alive.
constexpr unsigned never = 0x7fedcba9; // a NaN that arithmetic does not make

// Floor: the sums over the warp as they are, their commit dropped.
struct floor_commit : tree_commit {
    __device__ __forceinline__ void add(uint32_t index, const float (&field)[GS_MOMENTS]) const {
        unsigned all = 0;
        DISTWAR_UNROLL
        for (int k = 0; k < GS_MOMENTS; k++) all ^= __float_as_uint(field[k]);
        if (all == never) *sums.place(index, 0) = field[0];
    }
};

// Adds nothing and counts how many lanes of a warp have something to add.
struct lane_count_commit : warp_commit<distwar::strategy::atomic> {
    unsigned long long *commits; // [33]: by the number of lanes

    __device__ __forceinline__ void add(bool active, uint32_t, const float (&)[GS_MOMENTS], memory &) const {
        const int lanes = __popc(__ballot_sync(full_warp, active));
        if (threadIdx.x % 32 == 0) atomicAdd(&commits[lanes], 1ull);
    }
};

#endif
