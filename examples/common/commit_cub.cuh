// SPDX-License-Identifier: MIT
// cub::WarpReduce as a commit (commit.cuh), for comparison on a GPU. It sums a warp, not groups of lanes with
// equal keys; so these are found by votes, and each is summed by itself, once a value, with zeros from all
// other lanes. Lane 0 adds the sums.
#ifndef COMMON_COMMIT_CUB_CUH
#define COMMON_COMMIT_CUB_CUH

#include <cub/warp/warp_reduce.cuh>
#include <distwar/lanes.cuh>
#include <distwar/sink.cuh>

struct commit_cub {
    distwar::aligned_record sums;

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

#endif
