// SPDX-License-Identifier: MIT
// The cost of one call by a whole warp, as the headers of the calls state it. A test compares it with simt.
#ifndef BENCHMARKS_COSTS_H
#define BENCHMARKS_COSTS_H

#include "axes.h"

struct call_cost {
    int shuffles, atomic_instructions, atomic_requests; // a shuffle of 8 bytes counts once
};

// True if a header states the method's cost. With active = mixed there is no stated cost.
constexpr bool has_stated_cost(axes::method m) {
    return m <= axes::fixed;
}

// `active` lanes add K floats each to a record. They hold `keys` distinct keys, active / keys lanes each.
constexpr call_cost cost_of(axes::method m, int active, int keys, int K, int threshold) {
    const int size = active / keys;
    const call_cost plain = {0, K, active * K};
    const int for_the_key = m == axes::tree_uniform ? 0 : 1;
    if (m == axes::atomic || active < threshold) return plain;
    if (m == axes::serial) return size >= threshold ? call_cost{K * (size - 1), K, keys * K} : plain;
    if (m == axes::bfly)
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
