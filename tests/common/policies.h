// SPDX-License-Identifier: MIT
// Every strategy of sum_values, at each of the thresholds if it has one.
#ifndef TESTS_POLICIES_H
#define TESTS_POLICIES_H

#include "strategies/strategies.h"
#include <vector>

inline std::vector<distwar_policy> policies(const std::vector<int> &thresholds) {
    const candidate_list list =
        candidates_of(sum_strategies, DISTWAR_STRATEGY_COUNT, thresholds.data(), thresholds.size());
    std::vector<distwar_policy> out;
    for (int i = 0; i < list.count; i++) out.push_back(list.rows[i].policy);
    return out;
}

#endif
