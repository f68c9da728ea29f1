// SPDX-License-Identifier: MIT
// cub::WarpReduce as a commit (commit.cuh), for comparison on a GPU. It sums a whole warp and knows no keys.
// So votes find the groups of lanes with equal keys, and each group has a sum of its own for each value, to
// which all other lanes give zeros. Lane 0 adds the sums to memory.
#pragma once

#include <cub/warp/warp_reduce.cuh>
#include <distwar/warp.cuh>
#include <distwar/sink.cuh>

struct commit_cub {
    distwar::aligned_record<> sums;

    template <int K>
    __device__ __forceinline__ void operator()(bool active, int key, const float (&value)[K]) const {
        using reduction = cub::WarpReduce<float>;
        typename reduction::TempStorage storage; // empty: a whole warp shuffles
        for (unsigned left = __ballot_sync(distwar::all_lanes, active); left != 0;) {
            const int its_key = __shfl_sync(distwar::all_lanes, key, int(distwar::lowest_lane(left)));
            const bool member = active && key == its_key;
            float sum[K];
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k) sum[k] = reduction(storage).Sum(member ? value[k] : 0.0f);
            if (distwar::lane_id() == 0) sums.add(its_key, sum);
            left &= ~__ballot_sync(distwar::all_lanes, member);
        }
    }
};
