// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name.
#pragma once

#include "../cooperative_groups.h"
#include "operators.h"

namespace cooperative_groups {

// op over the values of the ranks up to and including the caller's. Shuffles over distances 1, 2, 4, ...
template <typename Group, typename T, typename Op = plus<T>>
T inclusive_scan(const Group &group, const T &value, Op op = {}, SIMT_HERE) {
    T sum = value;
    for (unsigned distance = 1; distance < group.size(); distance *= 2) {
        const T other = group.shfl_up(sum, distance, place);
        if (group.thread_rank() >= distance) sum = op(other, sum);
    }
    return sum;
}

// op over the values of the ranks before the caller's; T() for rank 0. One shuffle more.
template <typename Group, typename T, typename Op = plus<T>>
T exclusive_scan(const Group &group, const T &value, Op op = {}, SIMT_HERE) {
    const T before = group.shfl_up(inclusive_scan(group, value, op, place), 1, place);
    return group.thread_rank() == 0 ? T() : before;
}

} // namespace cooperative_groups
