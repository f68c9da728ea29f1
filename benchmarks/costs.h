// SPDX-License-Identifier: MIT
// What one call by a whole warp costs, as the headers of the calls state it; simt counts the same (tests).
#ifndef BENCHMARKS_COSTS_H
#define BENCHMARKS_COSTS_H

#include "axes.h"

struct call_cost {
    int shuffles, atomic_instructions, atomic_requests; // a shuffle of 8 bytes counts once
};

// Whether a way's cost is stated. Of a mixed number of lanes none is.
constexpr bool has_stated_cost(axes::way w) {
    return w <= axes::fixed;
}

// `active` lanes add K floats each to a record; they have `keys` distinct keys, of active / keys lanes each.
constexpr call_cost cost_of(axes::way w, int active, int keys, int K, int threshold) {
    const int size = active / keys;
    const call_cost plain = {0, K, active * K};
    const int for_the_key = w == axes::tree_uniform ? 0 : 1;
    if (w == axes::atomic || active < threshold) return plain;
    if (w == axes::serial) return size >= threshold ? call_cost{K * (size - 1), K, keys * K} : plain;
    if (w == axes::bfly)
        return keys == 1 ? call_cost{for_the_key + 5 * K, K, K} : call_cost{for_the_key, K, active * K};

    int one_tree = 0, turns = 0;
    for (int lanes = 2; lanes <= 32; lanes *= 2) one_tree += (K + lanes - 1) / lanes;
    for (int lanes = 1; lanes < size; lanes *= 2) ++turns;
    if (keys == 1) return {for_the_key + one_tree, (K + 31) / 32, K};
    if (size < 2 || size < threshold) return {for_the_key, K, active * K};
    if (K >= 5 || keys * (1 + one_tree) <= turns * (K + 1))
        return {for_the_key + keys * (1 + one_tree), keys * ((K + 31) / 32), keys * K};
    return {for_the_key + turns * K + turns - 1, K, keys * K};
}

#endif
