// SPDX-License-Identifier: MIT
// reduce_serial: the first lane of each group reads the others one by one (SW-S of DISTWAR, Durvasula et al.
// 2023).
#ifndef DISTWAR_SERIAL_CUH
#define DISTWAR_SERIAL_CUH

#include "push_macros.h"

#include "chunks.cuh"
#include "lanes.cuh"
#include "sink.cuh"

namespace distwar {

namespace detail {

// Sums the groups of a call side by side and commits them.
template <typename Key>
struct serial_commit {
    unsigned lanes;
    Key key;
    unsigned others;          // the lanes that this lane reads, if it leads a group; else 0
    unsigned size_of_largest; // of the groups that are summed, 1 if there is none; the same in all lanes
    bool commits;             // whether this lane leads a group, or sends its own values

    template <int K, typename T, typename Sink>
    __device__ __forceinline__ void operator()(const T (&val)[K], const Sink &sink) const {
        // Only leaders change their sums, and no lane reads a leader, so each lane that is read still holds
        // its own value.
        const sink_operator<Sink> op{};
        T sum[K];
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) sum[k] = detail::operand(true, val[k], op);
        unsigned rest = others; // lanes that this leader has not read yet
        for (unsigned read = 1; read < size_of_largest; ++read) {
            const bool more = rest != 0;
            const int source = int(more ? lowest_lane(rest) : lane_id());
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k) {
                const T read_value = detail::shuffle(lanes, sum[k], source);
                if (more) detail::combine(sum[k], read_value, op);
            }
            rest &= rest - 1;
        }
        if (commits) sink.add(key, sum);
    }
};

// reduce_serial and reduce_serial_n.
template <typename Values, typename Key, typename Sink>
__device__ __forceinline__ void sum_serially(unsigned lanes, bool active, Key key, const Values &values,
                                             const Sink &sink, int balance_threshold) {
    detail::check_call(active, key, sink, values.count);
    using plain = decltype(detail::plain_key(key));
    const unsigned active_lanes = __ballot_sync(lanes, active);
    if (active_lanes == 0) return;
    if (count_lanes(active_lanes) < balance_threshold) {
        if (active) values.each(true, sink, plain_commit<plain>{detail::plain_key(key)});
        return;
    }

    const unsigned group = lanes_with_key(lanes, key) & active_lanes; // not used in inactive lanes
    const int size = count_lanes(group);
    const bool summed = active && size >= balance_threshold;
    const bool leads = summed && lowest_lane(group) == lane_id();
    const unsigned size_of_largest = largest(lanes, summed ? unsigned(size) : 1);
    values.each(active, sink,
                serial_commit<plain>{lanes, detail::plain_key(key), leads ? group & (group - 1) : 0,
                                     size_of_largest, leads || (active && !summed)});
}

} // namespace detail

// Adds the values of all active lanes to the sink, for any keys and any `lanes`. The contract is in
// reduce.cuh. A group is summed in the order of its lanes, so its sum is the same in every run.
//
// Groups are summed side by side. In each iteration the leader of every group, its lowest lane, reads the
// next lane of its group. Example with keys A B A B A in lanes 0..4: lane 0 reads lane 2, then lane 4, while
// lane 1 reads lane 3.
//
// Cost: 1 vote. If at least balance_threshold lanes are active, also
//   1 match         none with a uniform_key
//   1 redux         6 votes before compute capability 8.0
//   K (n - 1)       shuffles, n the size of the largest group that is summed; double counts twice
//   K               atomic instructions
// Example (one warp, `lane` its lane, arrays of zeros):
//     const float val[2] = {1, float(lane)};
//     distwar::reduce_serial(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
//     // sums: 16, 120, 8, 156
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_serial(lane_mask lanes, bool active, Key key, const T (&val)[K],
                                              const Sink &sink, int balance_threshold = 0) {
    detail::sum_serially(lanes, active, key, detail::all_of(val), sink, balance_threshold);
}

// reduce_serial for a number of values known at run time (chunks.cuh).
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto value_of = [&](int k) { return k * lane; };
//     distwar::reduce_serial_n(distwar::all_lanes, true, lane / 16, 3, value_of, distwar::record<int>{sums, 3});
//     // sums: 0, 120, 240, 0, 376, 752
template <int Chunk = 16, typename Values, typename Key, typename Sink>
__device__ __forceinline__ void reduce_serial_n(lane_mask lanes, bool active, Key key, int count,
                                                const Values &values, const Sink &sink,
                                                int balance_threshold = 0) {
    const auto counted = detail::counted<Chunk>(count, values);
    detail::check_counted<Chunk, decltype(counted), Key, Sink>();
    detail::sum_serially(lanes, active, key, counted, sink, balance_threshold);
}

} // namespace distwar

#include "pop_macros.h"

#endif
