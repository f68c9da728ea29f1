// SPDX-License-Identifier: MIT
// balance_auto: a threshold that follows from the number of values and the sink.
//
// The costs that it weighs, in tenths of a shuffle with its addition (0.0038 ns of a whole H200, measured by
// benchmarks/aggregate and benchmarks/threshold):
//     27         a request to the L2 cache: an atomic of one, two or four floats by one lane
//     14.5 n     a further group, summed by a tree of n shuffles, that of the key included
//     15 n       n shuffles, all groups side by side
//     70         the search for one key
#ifndef DISTWAR_THRESHOLD_CUH
#define DISTWAR_THRESHOLD_CUH

#include "push_macros.h"

#include "sink.cuh"
#include "strategy.h"

namespace distwar {

// As balance_threshold: the call chooses.
inline constexpr int balance_auto = DISTWAR_BALANCE_AUTO;

namespace detail {

// The atomics that sink.add sends for one lane: a sink may state how many values one atomic takes.
template <int K, typename Sink, typename = void>
inline constexpr int requests_of_a_lane = K;
template <int K, typename Sink>
inline constexpr int requests_of_a_lane<K, Sink, void_type<decltype(Sink::values_of_a_request)>> =
    (K + Sink::values_of_a_request - 1) / Sink::values_of_a_request;

struct group_costs {
    int lane;      // the atomics of one lane
    int tree;      // a further group by a tree
    int iteration; // of all groups side by side
    bool vectors;  // a lane sends several values by one atomic
};

struct chosen_threshold {
    int least_active; // of a warp's call that searches for groups
    int least_size;   // of a group that is summed
    int lane;         // the weight of a lane's atomics beside all groups side by side; 0: that is not weighed
};

__host__ __device__ constexpr int divide_up(int a, int b) {
    return (a + b - 1) / b;
}
__host__ __device__ constexpr int at_least(int least, int a) {
    return a < least ? least : a;
}

// CANDIDATES: number 0..4
__host__ __device__ constexpr chosen_threshold choose_threshold(group_costs c, int number) {
    if (!c.vectors) return {at_least(c.lane < 70 + c.tree ? 2 : 1, divide_up(c.tree, c.lane)), 2, 0};
    const int tenths = number == 2 ? 13 : number == 4 ? 30 : 20;
    const int least = at_least(2, divide_up(tenths * c.tree, 10 * c.lane));
    const int weight = number == 1 ? 0 : number == 3 ? c.lane : number == 4 ? c.lane / 2 : c.lane * 3 / 4;
    return {least, least, weight};
}

} // namespace detail
} // namespace distwar

#include "pop_macros.h"

#endif
