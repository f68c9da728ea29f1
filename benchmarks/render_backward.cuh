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
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&value)[GS_MOMENTS],
                                        memory &shared) const {
        if (!__any_sync(full_warp, active)) return;
        DISTWAR_UNROLL
        for (int k = 0; k < GS_MOMENTS; k++) {
            const float total = reduction(shared.storage[threadIdx.x / 32]).Sum(value[k]);
            if (threadIdx.x % 32 == 0) atomicAdd(sums.place(index, k), total);
        }
    }
};

// Bits that no value of the blend has; the compiler does not know. Comparing with them keeps a value alive.
constexpr unsigned never = 0x7fedcba9; // a NaN that arithmetic does not make

// Stores nothing.
struct dropped_record {
    float *base;
    template <typename Key>
    __device__ __forceinline__ void add_one(Key key, int k, float value) const {
        if (__float_as_uint(value) == never) base[size_t(key) * GS_MOMENTS_STRIDE + k] = value;
    }
    template <typename Key>
    __device__ __forceinline__ void add(Key key, const float (&value)[GS_MOMENTS]) const {
        unsigned all = 0;
        DISTWAR_UNROLL
        for (int k = 0; k < GS_MOMENTS; k++) all ^= __float_as_uint(value[k]);
        if (all == never) base[size_t(key) * GS_MOMENTS_STRIDE] = value[0];
    }
};

// Floor A: the tree as it is, its commit dropped.
struct floor_a_commit : warp_commit<distwar::strategy::tree> {
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&value)[GS_MOMENTS],
                                        memory &) const {
        distwar::reduce_tree(distwar::all_lanes, active, distwar::uniform_key{index}, value,
                             dropped_record{sums.moments}, balance_threshold);
    }
};

// Floor B: no tree, no commit.
struct floor_b_commit : warp_commit<distwar::strategy::atomic> {
    __device__ __forceinline__ void add(bool, uint32_t index, const float (&value)[GS_MOMENTS],
                                        memory &) const {
        dropped_record{sums.moments}.add(index, value);
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
