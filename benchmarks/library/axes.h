// SPDX-License-Identifier: MIT
// The axes of the benchmark `aggregate`. A run's name is its value on every axis:
//
//     aggregate/tree/active:32/keys:1/K:9/targets:1024/threshold:0
#ifndef BENCHMARKS_AXES_H
#define BENCHMARKS_AXES_H

#include <distwar/strategy.h>

namespace axes {

// How values reach memory: the strategies of reduce<>, other calls of distwar, and rivals.
//
// method        what it does                                                 told that the warp has one key
// ------------  -----------------------------------------------------------  ------------------------------
// atomic..tree  reduce<strategy>                                             no
// tree_uniform  reduce_tree with uniform_key                                 yes
// fixed         reduce_fixed                                                 no
// cub           cub::WarpReduce for each value, then atomics by one lane     yes
// cub_batched   cub::WarpReduceBatched, then one atomic instruction          yes
// cub_looking   one key, found as reduce_tree does: cub_batched;             no
//               else atomics
// cg            cooperative_groups: labeled_partition, then reduce           no
// tuned         tree at the threshold that tune.h chooses                    no
enum method {
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
    methods
};
inline constexpr const char *method_name[methods] = {"atomic",       "serial", "bfly", "tree",
                                                     "tree_uniform", "fixed",  "cub",  "cub_batched",
                                                     "cub_looking",  "cg",     "tuned"};

enum { mixed = 0 }; // a value of `active`: the number differs from call to call, 1..32 equally often
inline constexpr int active[] = {mixed, 1, 2, 4, 8, 16, 32}; // lanes of a warp that add, at random places
inline constexpr int keys[] = {1, 2, 4, 8, 16, 32};      // distinct keys among them, with equally many lanes
inline constexpr int values[] = {1, 4, 9, 16};           // K, floats an add
inline constexpr int targets[] = {1, 32, 1024, 1 << 20}; // records that all warps add to
inline constexpr int thresholds[] = {0, 2, 3, 4, 6, 8, 12, 16, 24, 33}; // balance_threshold

// Floats from one record to the next: records begin at multiples of 16 bytes where K > 1.
constexpr int stride_of(int K) {
    return K == 1 ? 1 : (K + 3) / 4 * 4;
}
template <int K>
inline constexpr int record_stride = stride_of(K); // usable in device code

// The strategy of method M, one of atomic, serial, bfly and tree; usable in device code.
template <method M>
inline constexpr distwar::strategy strategy_of = M == atomic   ? distwar::strategy::atomic
                                                 : M == serial ? distwar::strategy::serial
                                                 : M == bfly   ? distwar::strategy::bfly
                                                               : distwar::strategy::tree;
constexpr bool is_told_the_key(method m) {
    return m == tree_uniform || m == cub || m == cub_batched;
}
constexpr bool has_threshold(method m) {
    return m == serial || m == bfly || m == tree;
}

// True if the run exists.
constexpr bool exists(method m, int active, int keys, int targets, int threshold) {
    if (m == tuned && active != mixed) return false;
    return keys <= (active == mixed ? 1 : active) && keys <= targets && (keys == 1 || !is_told_the_key(m)) &&
           (threshold == 0 || has_threshold(m));
}

// The runs without --benchmark_filter: threshold 0 at all values of the other axes; other thresholds.
inline constexpr const char *default_filter =
    "threshold:0/|"
    "tree/active:[0-9]+/keys:1/K:(1|4|9)/targets:(1024|1048576)/|"
    "tree/active:(16|32)/keys:[0-9]+/K:(4|9)/targets:(1024|1048576)/threshold:(2|4|8|16)/|"
    "(serial|bfly|tree)/active:0/keys:1/K:[0-9]+/";

} // namespace axes

#endif
