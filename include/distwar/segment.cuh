// SPDX-License-Identifier: MIT
// The segmented sum: the sums of all groups of a warp side by side. tree.cuh and reduce.cuh sum groups with it, queue.cuh
// numbers their lanes.
#ifndef DISTWAR_SEGMENT_CUH
#define DISTWAR_SEGMENT_CUH

#include "sink.cuh"

namespace distwar::detail {

// In each iteration a lane adds the sum of the lane that follows its own sum in its group, so the sums double in length.
// Example with one group in lanes 1, 4, 6, 7:
//
//     iteration 1   1 adds 4, 4 adds 6, 6 adds 7    lane 1 holds 1 + 4, lane 6 holds 6 + 7
//     iteration 2   1 adds 6                        lane 1 holds 1 + 4 + 6 + 7
//
//   next     the lane that follows in the group, < 0 if there is none: the next one above if the lowest lane is to have
//            the sum of the group; the next one below if each lane is to have the sum up to its own
//   size     the size of the largest group, the same in all of `lanes`; 0: not known, a vote ends the loop, and at least
//            one lane has a next one
//   sum      in: the lane's values. Out: the sums from the lane's own value on, in the order of `next`
// Cost: ceil(log2(size)) iterations of K shuffles, and one shuffle between two iterations; with a vote one after each.
template <bool Votes, int K, typename T, typename Op>
__device__ __forceinline__ void segmented_sum(unsigned lanes, int next, unsigned size, T (&sum)[K], Op op) {
    const int lane = int(lane_id());
    for (unsigned length = 1; Votes || length < size; length *= 2) {
        if (!Votes && length > 1) next = __shfl_sync(lanes, next, next < 0 ? lane : next);
        const int source = next < 0 ? lane : next;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            const T other = detail::shuffle(lanes, sum[k], source);
            if (next >= 0) sum[k] = op(sum[k], other);
        }
        if constexpr (Votes) {
            next = __shfl_sync(lanes, next, source);
            if (!__any_sync(lanes, next >= 0)) break;
        }
    }
}
// The lane of the caller's group that follows above or below the caller; -1: none.
__device__ __forceinline__ int next_above(unsigned group) {
    const unsigned higher = group & ~((2u << lane_id()) - 1);
    return higher ? int(lowest_lane(higher)) : -1;
}
__device__ __forceinline__ int next_below(unsigned group) {
    const unsigned lower = lanes_below(group);
    return lower ? int(detail::highest_lane(lower)) : -1;
}

} // namespace distwar::detail

#endif
