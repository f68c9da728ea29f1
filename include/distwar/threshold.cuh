// SPDX-License-Identifier: MIT
// balance_auto: the threshold that never loses much.
//
// Costs, in tenths of a shuffle with its addition (0.0038 ns of a whole H200; docs/notes/library.md):
//     27      a request to the L2 cache: an atomic of one, two or four floats by one lane
//     14.5 n  a tree of n shuffles, that of the key included
//     15 n    n shuffles, all groups side by side
//     70      the search for one key
#ifndef DISTWAR_THRESHOLD_CUH
#define DISTWAR_THRESHOLD_CUH

#include "push_macros.h"

#include "sink.cuh"
#include "strategy.h"

namespace distwar {

// As balance_threshold: every group of two lanes and more is summed; a single active lane sends plain atomics
// where they cost less than the search and the tree. Higher thresholds gain up to 18% where the atomic units
// are idle, and lose a factor of two and more where many warps add to few targets. A call cannot tell these
// apart (docs/notes/library.md).
inline constexpr int balance_auto = DISTWAR_BALANCE_AUTO;

namespace detail {

inline constexpr int request_cost = 27, one_key_cost = 70;

// The atomics that sink.add sends for one lane: a sink may state how many values one atomic takes.
template <int K, typename Sink, typename = void>
inline constexpr int requests_of_a_lane = K;
template <int K, typename Sink>
inline constexpr int requests_of_a_lane<K, Sink, void_type<decltype(Sink::values_of_a_request)>> =
    (K + Sink::values_of_a_request - 1) / Sink::values_of_a_request;

__host__ __device__ constexpr int tree_cost(int shuffles) {
    return 29 * shuffles / 2;
}

} // namespace detail
} // namespace distwar

#include "pop_macros.h"

#endif
