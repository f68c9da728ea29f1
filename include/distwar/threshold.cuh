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

inline constexpr int request_cost = 27, one_key_cost = 70; // see above

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
};

struct chosen_threshold {
    int least_active; // fewer active lanes send plain atomics, without a search for groups
    int least_size;   // of a group that is summed
};

__host__ __device__ constexpr int at_least(int least, int a) {
    return a < least ? least : a;
}

// Every group of two lanes and more is summed. A single lane sends plain atomics if they cost less than the
// search and the tree. Higher least sizes gain up to 18% where the atomic units are idle, and lose a factor of
// two where many warps add to few targets; a call cannot tell these apart (docs/notes/library.md).
__host__ __device__ constexpr chosen_threshold choose_threshold(group_costs costs) {
    return {costs.lane < one_key_cost + costs.tree ? 2 : 1, 2};
}

} // namespace detail
} // namespace distwar

#include "pop_macros.h"

#endif
