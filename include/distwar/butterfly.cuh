// SPDX-License-Identifier: MIT
// reduce_bfly: a butterfly of shuffles for each value (SW-B of DISTWAR, Durvasula et al. 2023).
#ifndef DISTWAR_BUTTERFLY_CUH
#define DISTWAR_BUTTERFLY_CUH

#include "push_macros.h"

#include "chunks.cuh"
#include "lanes.cuh"
#include "sink.cuh"

namespace distwar {

namespace detail {

// Sums the values of the active lanes of a whole warp and commits them to `key`.
template <typename Key>
struct butterfly_commit {
    bool active, leads;
    Key key;

    template <int K, typename T, typename Sink>
    __device__ __forceinline__ void operator()(const T (&val)[K], const Sink &sink) const {
        const sink_operator<Sink> op{};
        T sum[K]; // in the end the total, in every lane
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            sum[k] = detail::operand(active, val[k], op);
            DISTWAR_UNROLL
            for (int distance = 16; distance > 0; distance /= 2)
                detail::combine(sum[k], detail::shuffle_xor(sum[k], distance), op);
        }
        if (leads) sink.add(key, sum);
    }
};

// reduce_bfly and reduce_bfly_n.
template <typename Values, typename Key, typename Sink>
__device__ __forceinline__ void sum_by_butterfly(unsigned lanes, bool active, Key key, const Values &values,
                                                 const Sink &sink, int balance_threshold) {
    detail::check_call(active, key, sink, values.count);
    using plain = decltype(detail::plain_key(key));
    const plain_commit<plain> plainly = {detail::plain_key(key)};
    if (lanes != all_lanes) {
        if (active) values.each(true, sink, plainly);
        return;
    }
    const unsigned active_lanes = __ballot_sync(all_lanes, active);
    if (active_lanes == 0) return;
    plain shared;
    if (count_lanes(active_lanes) < balance_threshold ||
        !share_one_key(all_lanes, active_lanes, active, key, shared)) {
        if (active) values.each(true, sink, plainly);
        return;
    }
    values.each(
        active, sink,
        butterfly_commit<plain>{active, lane_id() == lowest_lane(active_lanes), detail::plain_key(key)});
}

} // namespace detail

// Adds the values of all active lanes to the sink. The contract is in reduce.cuh. Sums in the warp if `lanes`
// is all_lanes and the active lanes share one key; otherwise every active lane sends K plain atomics.
//
// The lowest active lane commits, not lane 0, because lane 0 may be inactive and its key and addresses
// invalid.
//
// Cost with all 32 lanes:
//   1 vote
//   1 shuffle, 1 vote  to compare the keys, if any lane is active and the threshold is met; an 8-byte key
//                      counts twice; none with a uniform_key
//   5K shuffles        if there is one key; double counts twice
//   K                  atomic instructions, each by one lane
// With a partial mask: K atomic instructions, no votes and no shuffles.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const float val[2] = {1, float(lane)};
//     distwar::reduce_bfly(distwar::all_lanes, lane < 24, 1, val, distwar::record<float>{sums, 2});
//     // sums: 0, 0, 24, 276
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_bfly(lane_mask lanes, bool active, Key key, const T (&val)[K],
                                            const Sink &sink, int balance_threshold = 0) {
    detail::sum_by_butterfly(lanes, active, key, detail::all_of(val), sink, balance_threshold);
}

// reduce_bfly for a number of values known at run time (chunks.cuh).
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto value_of = [&](int k) { return k * lane; };
//     distwar::reduce_bfly_n(distwar::all_lanes, true, lane / 16, 3, value_of, distwar::record<int>{sums, 3});
//     // sums: 0, 120, 240, 0, 376, 752
template <int Chunk = 16, typename Values, typename Key, typename Sink>
__device__ __forceinline__ void reduce_bfly_n(lane_mask lanes, bool active, Key key, int count,
                                              const Values &values, const Sink &sink,
                                              int balance_threshold = 0) {
    const auto counted = detail::counted<Chunk>(count, values);
    detail::check_counted<Chunk, decltype(counted), Key, Sink>();
    detail::sum_by_butterfly(lanes, active, key, counted, sink, balance_threshold);
}

} // namespace distwar

#include "pop_macros.h"

#endif
