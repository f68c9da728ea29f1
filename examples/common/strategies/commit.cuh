// SPDX-License-Identifier: MIT
// How the K values of each lane get from a kernel to a sum_memory. A kernel takes a commit as its last
// argument and calls it with whole warps,
//
//     commit(active, key, value); // float value[K]; the contract of distwar/reduce.cuh
//
// so that one kernel body serves every strategy. sum_values launches it with the strategy that the host
// chose.
#pragma once

#include "launch.cuh"
#include "strategies.h"
#include <distwar/fixed.cuh>
#include <distwar/reduce.cuh>
#ifndef DISTWAR_SIMT
#include <cub/warp/warp_reduce.cuh>
#endif

template <distwar::strategy Strategy, typename Sink>
struct commit_floats {
    Sink sums;
    int balance_threshold;

    template <int K>
    __device__ __forceinline__ void operator()(bool active, int key, const float (&value)[K]) const {
        distwar::reduce<Strategy>(distwar::all_lanes, active, key, value, sums, balance_threshold);
    }
};

template <int K>
struct commit_fixed {
    distwar::record<long long> sums;
    int balance_threshold;
    distwar::fixed_format<K> format;

    __device__ __forceinline__ void operator()(bool active, int key, const float (&value)[K]) const {
        distwar::reduce_fixed(distwar::all_lanes, active, key, value, sums, format, balance_threshold);
    }
};

#ifndef DISTWAR_SIMT
// cub::WarpReduce, for comparison on a GPU. It sums a whole warp and knows no keys. So votes find the groups of lanes
// with equal keys, and each group has a sum of its own for each value, to which all other lanes give zeros. Lane 0 adds
// the sums to memory.
struct commit_cub {
    distwar::aligned_record<> sums;

    template <int K>
    __device__ __forceinline__ void operator()(bool active, int key, const float (&value)[K]) const {
        using reduction = cub::WarpReduce<float>;
        typename reduction::TempStorage storage; // empty: a whole warp shuffles
        for (unsigned left = __ballot_sync(distwar::all_lanes, active); left != 0;) {
            const int its_key = __shfl_sync(distwar::all_lanes, key, __ffs(int(left)) - 1);
            const bool member = active && key == its_key;
            float sum[K];
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k) sum[k] = reduction(storage).Sum(member ? value[k] : 0.0f);
            if (distwar::lane_id() == 0) sums.add(its_key, sum);
            left &= ~__ballot_sync(distwar::all_lanes, member);
        }
    }
};
#endif

// The fixed-point sums of all keys as floats.
template <int K>
__global__ void fixed_sums_as_floats(sum_memory memory, distwar::fixed_format<K> format) {
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < size_t(memory.keys); i += step) {
        const size_t first = i * size_t(memory.stride);
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k)
            memory.sums[first + size_t(k)] =
                distwar::fixed_to_float(memory.fixed[first + size_t(k)], format.scale[k]);
    }
}

// Adds nothing; counts active lanes and keys.
struct commit_lane_counts {
    lane_histogram *counts;

    template <int K>
    __device__ __forceinline__ void operator()(bool active, int key, const float (&)[K]) const {
        const unsigned active_lanes = __ballot_sync(distwar::all_lanes, active);
        const unsigned group = distwar::lanes_with_key(distwar::all_lanes, key) & active_lanes;
        const bool leads = active && (group & ((1u << distwar::lane_id()) - 1)) == 0;
        const unsigned leaders = __ballot_sync(distwar::all_lanes, leads);
        if (distwar::lane_id() != 0) return;
        atomicAdd(&counts->active_lanes[__popc(active_lanes)], 1ull);
        atomicAdd(&counts->distinct_keys[__popc(leaders)], 1ull);
    }
};

// Zeroes the sums, calls launch_kernel(commit), which launches the kernel on `stream`, and leaves the sums of
// K values as floats.
// policy:   one of sum_strategies, threshold 0..MAX_THRESHOLD. vector, serial, bfly and tree commit with vector
//           atomics of up to four values, where the GPU has them.
// scale[k]: for fixed, units per 1.0 of value k, a power of two. A value may be up to 2^39 units.
// lanes:    NULL; else the commits are counted in place of all this, device memory.
// Returns the first error of a launch.
template <int K, typename Launch>
cudaError_t sum_values(distwar_policy policy, const float (&scale)[K], const sum_memory &memory,
                       lane_histogram *lanes, cudaStream_t stream, Launch &&launch_kernel) {
    using distwar::strategy;
    if (lanes) return launch_kernel(commit_lane_counts{lanes});
    const int threshold = policy.balance_threshold;
    const size_t stride = size_t(memory.stride), count = size_t(memory.keys) * stride;
    if (policy.strategy == DISTWAR_FIXED) {
        commit_fixed<K> commit = {{memory.fixed, stride}, threshold, {{}, memory.flag}};
        for (int k = 0; k < K; ++k) commit.format.scale[k] = scale[k];
        cudaError_t status = cudaMemsetAsync(memory.fixed, 0, count * sizeof *memory.fixed, stream);
        if (status == cudaSuccess) status = launch_kernel(commit);
        if (status != cudaSuccess) return status;
        return launch_for(stream, memory.keys, 256, fixed_sums_as_floats<K>, memory, commit.format);
    }
    const cudaError_t status = cudaMemsetAsync(memory.sums, 0, count * sizeof *memory.sums, stream);
    if (status != cudaSuccess) return status;
    if (policy.strategy == DISTWAR_ATOMIC)
        return launch_kernel(
            commit_floats<strategy::atomic, distwar::record<float>>{{memory.sums, stride}, threshold});
#ifndef DISTWAR_SIMT
    if (policy.strategy == DISTWAR_CUB) return launch_kernel(commit_cub{{memory.sums, stride}});
#endif
    const strategy call = policy.strategy == DISTWAR_VECTOR ? strategy::atomic : strategy(policy.strategy);
    return distwar::with_strategy(call, [&](auto chosen) {
        return launch_kernel(
            commit_floats<chosen, distwar::aligned_record<>>{{memory.sums, stride}, threshold});
    });
}
