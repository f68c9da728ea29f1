// SPDX-License-Identifier: MIT
// What the benchmarks vary, named once. A run is named by its place on every axis:
//
//     aggregate/tree/active:32/keys:1/K:9/targets:1024/threshold:0
#ifndef BENCHMARKS_AXES_H
#define BENCHMARKS_AXES_H

#include <distwar/policy.cuh>

namespace axes {

// distwar's calls, then their rivals; last, tuned: tree with the threshold that tune.h chooses. tree_uniform
// is told that the warp has one key; so are cub and cub_batched. cub_looking looks for it as tree does, then
// calls what cub_batched calls; with several keys it sends plain atomics.
// And floors, which leave something out: `totals` and `cub_totals` commit nothing, `commit` sums nothing, and
// `nothing` does neither.
enum way {
    atomic,
    serial,
    bfly,
    tree,
    tree_uniform,
    fixed,
    cub,
    cub_batched,
    cub_looking,
    cg,
    tuned,
    totals,
    cub_totals,
    commit,
    nothing,
    ways
};
inline constexpr const char *way_name[ways] = {
    "atomic",      "serial", "bfly",  "tree",   "tree_uniform", "fixed",  "cub",    "cub_batched",
    "cub_looking", "cg",     "tuned", "totals", "cub_totals",   "commit", "nothing"};

enum { mixed = 0 }; // as active lanes: each call of a warp has another number of them, 1 to 32 equally often
inline constexpr int active[] = {mixed, 1, 2, 4, 8, 16, 32}; // lanes of a warp that add, anywhere in it
inline constexpr int keys[] = {1, 2, 4, 8, 16, 32};          // distinct keys among them, evenly shared
inline constexpr int values[] = {1, 4, 9, 16};               // K, floats an add
inline constexpr int targets[] = {1, 32, 1024, 1 << 20};     // records that all warps add to
inline constexpr int thresholds[] = {0, 2, 3, 4, 6, 8, 12, 16, 24, 33}; // balance_threshold

// Floats from one record to the next: records begin at multiples of 16 bytes where K > 1.
constexpr int stride_of(int K) {
    return K == 1 ? 1 : (K + 3) / 4 * 4;
}
template <int K>
inline constexpr int record_stride = stride_of(K); // a constant on the GPU too

// The strategy of the first four.
constexpr distwar::strategy strategy_of(way w) {
    return w == atomic   ? distwar::strategy::atomic
           : w == serial ? distwar::strategy::serial
           : w == bfly   ? distwar::strategy::bfly
                         : distwar::strategy::tree;
}
constexpr bool is_floor(way w) {
    return w >= totals;
}
constexpr bool is_told_the_key(way w) {
    return w == tree_uniform || w == cub || w == cub_batched || is_floor(w);
}
constexpr bool has_threshold(way w) {
    return w == serial || w == bfly || w == tree;
}

// Whether there is such a run.
constexpr bool exists(way w, int active, int keys, int targets, int threshold) {
    if ((w == tuned && active != mixed) || (is_floor(w) && active != 32)) return false;
    return keys <= (active == mixed ? 1 : active) && keys <= targets && (keys == 1 || !is_told_the_key(w)) &&
           (threshold == 0 || has_threshold(w));
}

// What runs unless --benchmark_filter says otherwise: one key, over everything else; several keys with K = 9;
// thresholds.
inline constexpr const char *default_filter = "keys:1/K:[0-9]+/targets:[0-9]+/threshold:0/|"
                                              "active:(16|32)/keys:[0-9]+/K:9/targets:1024/threshold:0/|"
                                              "tree/active:[0-9]+/keys:1/K:(1|4|9)/targets:(1024|1048576)/|"
                                              "(serial|bfly|tree)/active:0/keys:1/K:[0-9]+/";

} // namespace axes

#endif
