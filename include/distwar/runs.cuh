// SPDX-License-Identifier: MIT
// reduce_runs: sums for keys that are sorted, or at least come in runs of neighbouring lanes.
//
//     // edges sorted by row: y[row] += value * x[column]
//     const float val[1] = {active ? value[edge] * x[column[edge]] : 0};
//     distwar::reduce_runs(distwar::all_lanes, active, row[edge], val, distwar::record<float>{y, 1});
//
// A run is a sequence of active lanes with equal keys, such that no active lane with another key lies between
// them. Lanes that are inactive or not in `lanes` do not end a run. Example with lanes 0..9, - is inactive:
//
//     key   A A B B - B C - A A        runs: 0-1 (A), 2-5 (B), 6 (C), 8-9 (A)
//
// The keys of one lane and the one before it tell where runs begin, so no match is needed: one shuffle and
// one vote replace it. The keys may be in any order. If equal keys are not neighbours, as A above, their runs
// make a commit each.
#ifndef DISTWAR_RUNS_CUH
#define DISTWAR_RUNS_CUH

#include "push_macros.h"

#include "chunks.cuh"
#include "lanes.cuh"
#include "sink.cuh"
#include "tree.cuh"

namespace distwar {

namespace detail {

// Sums all runs of a whole warp side by side, each into its first lane. In each iteration a lane adds the sum
// of the lane `distance` further on, if that belongs to its run. Example of a run in lanes 2..6:
//
//     distance 1   2 + 3   3 + 4   4 + 5   5 + 6   6
//     distance 2   2..5    3..6    4..6    5 + 6   6
//     distance 4   2..6
//
//   run_end     the lane behind the last active lane of the caller's run; 0 if the run is not summed
//   continuing  the lanes of summed runs that are not the first of their run; the same in all lanes
//   sum         in: the lane's values, in inactive lanes what changes nothing. Out: the run's sums in its
//               first lane
// Cost: ceil(log2(n)) iterations of K shuffles, n the lanes from the first to the last of the longest run.
template <int K, typename T, typename Op>
__device__ __forceinline__ void sum_runs(unsigned run_end, unsigned continuing, T (&sum)[K], Op op) {
    // After the iteration with distance d, `continuing` has the lanes that lie 2d or more behind the first.
    for (unsigned distance = 1; continuing != 0; continuing &= continuing << distance, distance *= 2) {
        const bool adds = lane_id() + distance < run_end;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            const T other = detail::shuffle_down(sum[k], distance);
            if (adds) detail::combine(sum[k], other, op);
        }
    }
}

// The iterations that sum_runs makes.
__device__ __forceinline__ int run_iterations(unsigned continuing) {
    int iterations = 0;
    for (unsigned distance = 1; continuing != 0; continuing &= continuing << distance, distance *= 2)
        ++iterations;
    return iterations;
}

// Sums the runs of a call, run after run or side by side, and commits them. Active lanes of other runs send
// plain atomics.
template <typename Key>
struct runs_commit {
    unsigned lanes;
    bool active;
    Key key;
    unsigned run;                 // the active lanes of the run that the lane lies in
    unsigned head;                // the first lane of that run
    unsigned run_end, continuing; // as for sum_runs; whole warp only
    unsigned size_of_longest;     // of the runs that are summed, 1 if there is none; parts of a warp only
    bool summed;                  // whether the caller's run is summed; false in inactive lanes

    template <int K, typename T, typename Sink>
    __device__ __forceinline__ void operator()(const T (&val)[K], const Sink &sink) const {
        if (lanes == all_lanes) {
            const unsigned leaders = ~continuing & continuing >> 1;
            constexpr bool always = K >= min_values_by_group && is_addressed_by_key<Sink, Key, T>;
            if (always || count_lanes(leaders) * group_shuffles<K, Sink, Key, T>() <=
                              detail::run_iterations(continuing) * K) {
                if (active && !summed) sink.add(key, val);
                for (unsigned rest = leaders; rest != 0; rest &= rest - 1) {
                    const unsigned leader = lowest_lane(rest);
                    const Key run_key = __shfl_sync(all_lanes, key, int(leader));
                    tree_commit<Key>{summed && head == leader, leader, run_key}(val, sink);
                }
                return;
            }
        }
        const sink_operator<Sink> op{};
        T sum[K];
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) sum[k] = detail::operand(active, val[k], op);
        if (lanes == all_lanes)
            detail::sum_runs(run_end, continuing, sum, op);
        else
            detail::sum_by_doubling(lanes, summed ? run : 0, size_of_longest, sum, op);
        const bool leads = summed && head == lane_id();
        if (leads || (active && !summed)) sink.add(key, sum);
    }
};

// reduce_runs and reduce_runs_n.
template <typename Values, typename Key, typename Sink>
__device__ __forceinline__ void sum_by_runs(unsigned lanes, bool active, Key key, const Values &values,
                                            const Sink &sink, int balance_threshold) {
    detail::check_call(active, key, sink, values.count);
    using plain = decltype(detail::plain_key(key));
    const plain own_key = detail::plain_key(key);
    const unsigned active_lanes = __ballot_sync(lanes, active);
    const bool sums_all = balance_threshold <= 1;
    if (count_lanes(active_lanes) < (sums_all ? 1 : balance_threshold)) {
        if (!sums_all && active) values.each(true, sink, plain_commit<plain>{own_key});
        return;
    }

    const unsigned lane = lane_id(), before = lanes_below(active_lanes);
    const plain previous_key = __shfl_sync(lanes, own_key, int(before ? highest_lane(before) : lane));
    const unsigned heads = __ballot_sync(lanes, active && (before == 0 || own_key != previous_key));
    if (lanes == all_lanes && count_lanes(heads) == 1) {
        const unsigned leader = lowest_lane(heads);
        const plain run_key = __shfl_sync(all_lanes, own_key, int(leader));
        values.each(active, sink, tree_commit<plain>{active, leader, run_key});
        return;
    }

    // The run that the lane lies in: an inactive lane belongs to the run before it.
    const unsigned up_to_lane = ~0u >> (31 - lane);
    const unsigned heads_behind = heads & ~up_to_lane;
    const unsigned heads_so_far = heads & up_to_lane;
    const unsigned head = heads_so_far ? highest_lane(heads_so_far) : lane;
    const unsigned run =
        active_lanes & ~((1u << head) - 1) & (heads_behind ? (1u << lowest_lane(heads_behind)) - 1 : ~0u);
    const int size = count_lanes(run);
    const bool run_is_summed = size >= 2 && size >= balance_threshold;
    const bool summed = active && run_is_summed;

    const unsigned run_end = run_is_summed ? highest_lane(run) + 1 : 0;
    const unsigned continuing =
        lanes == all_lanes ? __ballot_sync(all_lanes, lane > head && lane < run_end) : 0;
    const unsigned size_of_longest = lanes == all_lanes ? 1 : largest(lanes, summed ? unsigned(size) : 1);
    values.each(
        active, sink,
        runs_commit<plain>{lanes, active, own_key, run, head, run_end, continuing, size_of_longest, summed});
}

} // namespace detail

// Adds the values of all active lanes to the sink, summed by runs. The contract is in reduce.cuh, with runs
// in place of groups; T, K and the rules for the sink are those of reduce_tree. With the same active lanes
// and runs, the order of additions in the warp is the same in every run of the program.
//
// Cost (shuffles of 8-byte values and keys count twice; a whole warp means lanes = all_lanes):
//   always                1 vote; nothing else if fewer lanes than balance_threshold are active, or none
//   to find the runs      1 shuffle, 1 vote
//   whole warp, one run   1 shuffle for the key, tree_shuffles(K) shuffles, ceil(K / 32) atomic instructions
//   whole warp, several   1 vote. Then one of the two ways below sums the runs of at least max(2,
//                         balance_threshold) active lanes. The other lanes send K atomic instructions.
//     run after run       for each run 1 + tree_shuffles(K) shuffles, ceil(K / 32) atomic instructions
//                         (pointers: K more shuffles, K atomic instructions)
//     side by side        K ceil(log2(n)) shuffles, n the lanes from the first to the last of the longest
//                         run; K atomic instructions, by the first lane of each run and the other lanes
//   part of a warp        1 redux (6 votes before compute capability 8.0), (K + 1) ceil(log2(n)) - 1
//                         shuffles, n the active lanes of the longest run; K atomic instructions as above
//   A whole warp sums run after run if K >= 5 and the sink is addressed by key, or if that needs no more
//   shuffles.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const float val[2] = {1, float(lane)};
//     distwar::reduce_runs(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
//     // sums: 16, 120, 8, 156
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_runs(lane_mask lanes, bool active, Key key, const T (&val)[K],
                                            const Sink &sink, int balance_threshold = 0) {
    detail::check_tree<K, T, Key, Sink>();
    detail::sum_by_runs(lanes, active, key, detail::all_of(val), sink, balance_threshold);
}

// reduce_runs for a number of values known at run time (chunks.cuh).
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto value_of = [&](int k) { return k * lane; };
//     distwar::reduce_runs_n(distwar::all_lanes, true, lane / 16, 3, value_of, distwar::record<int>{sums, 3});
//     // sums: 0, 120, 240, 0, 376, 752
template <int Chunk = 16, typename Values, typename Key, typename Sink>
__device__ __forceinline__ void reduce_runs_n(lane_mask lanes, bool active, Key key, int count,
                                              const Values &values, const Sink &sink,
                                              int balance_threshold = 0) {
    const auto counted = detail::counted<Chunk>(count, values);
    detail::check_counted<Chunk, decltype(counted), Key, Sink>();
    detail::check_tree<typename decltype(counted)::type>();
    detail::sum_by_runs(lanes, active, key, counted, sink, balance_threshold);
}

} // namespace distwar

#include "pop_macros.h"

#endif
