// SPDX-License-Identifier: MIT
// reduce_serial: the leader of each group reads its lanes one by one (DISTWAR's SW-S, Durvasula et al. 2023).
#ifndef DISTWAR_SERIAL_CUH
#define DISTWAR_SERIAL_CUH

#include "lanes.cuh"

namespace distwar {

// For any keys and any `lanes`; the contract is in reduce.cuh. A group is summed in the order of its lanes,
// so its sum is the same in every run.
//
// Groups are summed side by side: at each turn every leader, the lowest lane of its group, reads its next
// lane, and all of `lanes` take part. Cost: 1 vote; if enough lanes are active 1 match, 1 redux (before
// compute capability 8.0: 6 votes) and K (n - 1) shuffles (of double: twice), n the size of the largest group
// that is summed; then K atomic instructions. A uniform_key saves the match.
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_serial(unsigned lanes, bool active, Key key, const T (&val)[K],
                                              const Sink &sink, int balance_threshold = 0) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    const unsigned active_lanes = __ballot_sync(lanes, active);
    if (active_lanes == 0) return;
    if (count_lanes(active_lanes) < balance_threshold) {
        if (active) sink.add(plain_key(key), val);
        return;
    }

    const unsigned group = lanes_with_key(lanes, key) & active_lanes; // of an active lane
    const int size = count_lanes(group);
    const bool summed = active && size >= balance_threshold;
    const bool leads = summed && lowest_lane(group) == lane_id();
    const unsigned turns = largest(lanes, summed ? unsigned(size) : 1);

    // Only leaders add, and no leader is read by another lane: what is read is still the lane's own value.
    T sum[K];
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) sum[k] = val[k];
    unsigned rest = leads ? group & (group - 1) : 0; // lanes this leader has yet to read
    for (unsigned turn = 1; turn < turns; ++turn) {
        const bool more = rest != 0;
        const int source = int(more ? lowest_lane(rest) : lane_id());
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            const T other = __shfl_sync(lanes, sum[k], source);
            if (more) sum[k] += other;
        }
        rest &= rest - 1;
    }
    if (leads || (active && !summed)) sink.add(plain_key(key), sum);
}

} // namespace distwar

#endif
