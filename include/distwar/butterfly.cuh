// SPDX-License-Identifier: MIT
// reduce_bfly: a butterfly of shuffles for each value (DISTWAR's SW-B, Durvasula et al. 2023).
#ifndef DISTWAR_BUTTERFLY_CUH
#define DISTWAR_BUTTERFLY_CUH

#include "lanes.cuh"

namespace distwar {

// For a whole warp whose active lanes share one key; the contract is in reduce.cuh. With several keys, or
// with fewer lanes than 32 in `lanes`, every active lane sends plain atomics.
//
// The K atomics are made by the lowest active lane, not by lane 0: lane 0 may be inactive, and then its key
// and its addresses mean nothing. Cost: 1 vote, and if any lane is active and the threshold is met 1 shuffle
// of the key (of 8 bytes: two) and 1 vote, both saved by a uniform_key; with one key 5K shuffles (of double:
// twice) and K atomic instructions, each of one lane. With a partial mask no votes.
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_bfly(unsigned lanes, bool active, Key key, const T (&val)[K],
                                            const Sink &sink, int balance_threshold = 0) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    if (lanes != all_lanes) {
        if (active) sink.add(plain_key(key), val);
        return;
    }
    const unsigned active_lanes = __ballot_sync(all_lanes, active);
    if (active_lanes == 0) return;
    decltype(plain_key(key)) shared;
    if (count_lanes(active_lanes) < balance_threshold ||
        !share_one_key(all_lanes, active_lanes, active, key, shared)) {
        if (active) sink.add(plain_key(key), val);
        return;
    }

    T sum[K];
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) {
        sum[k] = active ? val[k] : T(0);
        DISTWAR_UNROLL
        for (int distance = 16; distance > 0; distance /= 2)
            sum[k] += __shfl_xor_sync(all_lanes, sum[k], distance);
    }
    if (lane_id() == lowest_lane(active_lanes)) sink.add(plain_key(key), sum);
}

} // namespace distwar

#endif
