// SPDX-License-Identifier: MIT
// The measured kernel, for every method of axes.h. Each warp makes a number of calls one after another, each
// to another record. The values stay in registers and a target costs two instructions, so the adding takes
// most of the time. All K values differ, because a compiler would sum equal values once.
// HasThreshold: `threshold` is known at run time; else the call is made without one, as the rivals are.
#ifndef BENCHMARKS_AGGREGATE_CUH
#define BENCHMARKS_AGGREGATE_CUH

#include "axes.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/warp/warp_reduce.cuh>
#include <distwar/fixed.cuh>
#include <distwar/reduce.cuh>
#include <stdint.h>
#if CUB_VERSION >= 300400
#include <cub/warp/warp_reduce_batched.cuh>
#define HAS_WARP_REDUCE_BATCHED 1
#else
#define HAS_WARP_REDUCE_BATCHED 0
#endif

enum { WARPS = 1 << 15, SLOTS = 4, BLOCK = 256, NO_SLOT = 0xff };

// The calls of a thread, one byte each, the highest byte first; they repeat after SLOTS calls. NO_SLOT: the
// thread is not active. Other values: the number of its key among the warp's keys.
typedef uint32_t slots;

// The first key of each call comes from a Weyl sequence with a start of its own for each warp. The other keys
// of a call follow the first, cyclically.
__host__ __device__ inline uint32_t first_draw(uint32_t warp) {
    uint32_t mixed = warp * 0x9e3779b1u;
    mixed ^= mixed >> 15;
    mixed *= 0x85ebca77u;
    return mixed ^ mixed >> 13;
}
__host__ __device__ inline uint32_t next_draw(uint32_t draw) {
    return draw + 0x9e3779b1u;
}
__host__ __device__ inline uint32_t first_key(uint32_t draw, uint32_t targets) {
#ifdef __CUDA_ARCH__
    return __umulhi(draw, targets);
#else
    return uint32_t(uint64_t(draw) * targets >> 32);
#endif
}
// Small whole numbers: sums of 2^19 of them are exact.
__host__ __device__ inline float value_of(uint32_t thread, int k) {
    return float((thread + 3 * k) % 8 + k);
}
// For reduce_fixed: units per 1.0, and the type of the sums.
inline constexpr float FIXED_SCALE = 0x1p20f;
template <axes::method M>
struct sum_of {
    using type = float;
};
template <>
struct sum_of<axes::fixed> {
    using type = long long;
};

// The warp's active lanes add val to the records of their keys. All 32 lanes call it. shared_key: the key of
// all lanes, for methods that are told it. flag: of reduce_fixed.
template <axes::method M, int K>
__device__ __forceinline__ void add(bool active, int key, int shared_key, const float (&val)[K],
                                    typename sum_of<M>::type *table, int threshold, unsigned *flag) {
    constexpr int stride = axes::record_stride<K>;
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const distwar::record<typename sum_of<M>::type> sink = {table, stride};
    if constexpr (M == axes::tree_uniform) {
        distwar::reduce_tree(distwar::all_lanes, active, distwar::uniform_key<int>{shared_key}, val, sink);
    } else if constexpr (M == axes::fixed) {
        distwar::fixed_format<K> format;
#pragma unroll
        for (int k = 0; k < K; ++k) format.scale[k] = FIXED_SCALE;
        format.flag = flag;
        distwar::reduce_fixed(distwar::all_lanes, active, key, val, sink, format);
    } else if constexpr (M == axes::cub) {
        using reduction = cub::WarpReduce<float>;
        __shared__ typename reduction::TempStorage storage[BLOCK / 32];
        float total[K];
#pragma unroll
        for (int k = 0; k < K; ++k) total[k] = reduction(storage[warp]).Sum(active ? val[k] : 0);
        if (lane == 0)
#pragma unroll
            for (int k = 0; k < K; ++k) atomicAdd(table + size_t(shared_key) * stride + k, total[k]);
#if HAS_WARP_REDUCE_BATCHED
    } else if constexpr (M == axes::cub_batched || M == axes::cub_looking) {
        using reduction = cub::WarpReduceBatched<float, K>;
        if constexpr (M == axes::cub_looking) {
            const unsigned active_lanes = __ballot_sync(distwar::all_lanes, active);
            if (active_lanes == 0) return;
            if (!distwar::detail::share_one_key(distwar::all_lanes, active_lanes, active, key, shared_key)) {
                if (active) sink.add(key, val);
                return;
            }
        }
        __shared__ typename reduction::TempStorage storage[BLOCK / 32];
        float summand[K];
#pragma unroll
        for (int k = 0; k < K; ++k) summand[k] = active ? val[k] : 0;
        const float total = reduction(storage[warp]).Sum(summand);
        if (lane < K) atomicAdd(table + size_t(shared_key) * stride + lane, total);
#endif
    } else if constexpr (M == axes::cg) {
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
        distwar::reduce<axes::strategy_of<M>>(distwar::all_lanes, active, key, val, sink, threshold);
    }
}

template <axes::method M, int K, bool HasThreshold = true>
__global__ void __launch_bounds__(BLOCK)
    aggregate(const slots *given, int calls, uint32_t targets, int threshold, void *table, unsigned *flag) {
    const uint32_t thread = blockIdx.x * BLOCK + threadIdx.x;
    slots rest = given[thread];
    uint32_t draw = first_draw(thread / 32);
    float val[K];
#pragma unroll
    for (int k = 0; k < K; ++k) val[k] = value_of(thread, k);
#pragma unroll 1
    for (; calls > 0; --calls) {
        const bool active = rest < uint32_t(NO_SLOT) << 24;
        const uint32_t first = first_key(draw, targets);
        uint32_t key = first + (rest >> 24);
        if (key >= targets) key -= targets;
#pragma unroll
        for (int k = 0; k < K; ++k)
            asm volatile("" : "+f"(val[k])); // keeps the compiler from summing before the loop
        add<M, K>(active, int(key), int(first), val, static_cast<typename sum_of<M>::type *>(table),
                  HasThreshold ? threshold : 0, flag);
        draw = next_draw(draw);
        rest = __funnelshift_l(rest, rest, 8);
    }
}

#endif
