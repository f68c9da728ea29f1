// SPDX-License-Identifier: MIT
// The kernel that is measured, over every way of adding: each warp makes TURNS calls, one after another, each
// with another record as its target. Values come from registers, so that the adding is what takes the time.
#ifndef BENCHMARKS_AGGREGATE_CUH
#define BENCHMARKS_AGGREGATE_CUH

#include "axes.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/warp/warp_reduce.cuh>
#include <distwar/reduce.cuh>
#include <stdint.h>
#if CUB_VERSION >= 300400
#include <cub/warp/warp_reduce_batched.cuh>
#define HAS_WARP_REDUCE_BATCHED 1
#else
#define HAS_WARP_REDUCE_BATCHED 0
#endif

enum { WARPS = 1 << 16, TURNS = 8, BLOCK = 256, NO_SLOT = 0xff };

// What a thread does in its TURNS calls, a byte each, the first the lowest: NO_SLOT if it is not active, else
// the number of its key among the warp's keys.
typedef uint2 slots;

// The first of the keys of a warp's call; the others follow it, cyclically.
__host__ __device__ inline uint32_t first_key(uint32_t warp, uint32_t turn, uint32_t targets) {
    uint32_t mixed = (warp * TURNS + turn) * 0x9e3779b1u;
    mixed ^= mixed >> 15;
    mixed *= 0x85ebca77u;
    return uint32_t(uint64_t(mixed) * targets >> 32);
}
// Small whole numbers: sums of 2^21 of them are exact.
__host__ __device__ inline float value_of(uint32_t thread, uint32_t turn, int k) {
    const float even = float(thread % 4);
    return (turn % 2 ? 3 - even : even) + float(k % 4);
}

// add<W, K>: the warp's active lanes add val to the record of their key. All 32 lanes call it. shared_key is
// the key of all lanes, active or not, if the way is to be told.
template <axes::way W, int K>
__device__ __forceinline__ void add(bool active, int key, int shared_key, const float (&val)[K], float *table,
                                    int threshold) {
    constexpr int stride = axes::record_stride<K>;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const distwar::record<float> sink = {table, stride};
    if constexpr (W == axes::tree_uniform) {
        distwar::reduce_tree(distwar::all_lanes, active, distwar::uniform_key<int>{shared_key}, val, sink,
                             threshold);
    } else if constexpr (W == axes::cub) {
        using reduction = cub::WarpReduce<float>;
        __shared__ typename reduction::TempStorage storage[BLOCK / 32];
        float total[K];
#pragma unroll
        for (int k = 0; k < K; ++k) total[k] = reduction(storage[warp]).Sum(active ? val[k] : 0);
        if (lane == 0)
#pragma unroll
            for (int k = 0; k < K; ++k) atomicAdd(table + size_t(shared_key) * stride + k, total[k]);
#if HAS_WARP_REDUCE_BATCHED
    } else if constexpr (W == axes::cub_batched) {
        using reduction = cub::WarpReduceBatched<float, K>;
        __shared__ typename reduction::TempStorage storage[BLOCK / 32];
        float summand[K];
#pragma unroll
        for (int k = 0; k < K; ++k) summand[k] = active ? val[k] : 0;
        const float total = reduction(storage[warp]).Sum(summand);
        if (lane < K) atomicAdd(table + size_t(shared_key) * stride + lane, total);
#endif
    } else if constexpr (W == axes::cg) {
        namespace groups = cooperative_groups;
        if (active) {
            const auto group = groups::labeled_partition(groups::coalesced_threads(), key);
#pragma unroll
            for (int k = 0; k < K; ++k) {
                const float total = groups::reduce(group, val[k], groups::plus<float>());
                if (group.thread_rank() == 0) atomicAdd(table + size_t(key) * stride + k, total);
            }
        }
    } else {
        distwar::reduce<static_cast<distwar::strategy>(W)>(distwar::all_lanes, active, key, val, sink,
                                                           threshold);
    }
}

template <axes::way W, int K>
__global__ void __launch_bounds__(BLOCK)
    aggregate(const slots *given, uint32_t targets, int threshold, float *table) {
    const uint32_t thread = blockIdx.x * BLOCK + threadIdx.x, warp = thread / 32;
    slots rest = given[thread];
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; ++turn) {
        const uint32_t slot = rest.x & 0xff, first = first_key(warp, turn, targets);
        rest.x = __funnelshift_r(rest.x, rest.y, 8);
        rest.y >>= 8;
        uint32_t key = first + slot;
        if (key >= targets) key -= targets;
        float val[K];
#pragma unroll
        for (int k = 0; k < K; ++k) val[k] = value_of(thread, turn, k);
        add<W, K>(slot != NO_SLOT, int(key), int(first), val, table, threshold);
    }
}

#endif
