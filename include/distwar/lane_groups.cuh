// SPDX-License-Identifier: MIT
// tree_of_lanes: some steps of the tree alone, for sums within groups of lanes, and between two steps for arithmetic that
// all lanes of a group have in common.
//
// Example: lane l has the pixel x = l % 8, y = l / 8 and a value v, and the sums of v, x v, y v, x x v, x y v, y y v are
// wanted. As six values of each lane that is a tree of 8 shuffles. y is the same in the 8 lanes of a row and x in the 4
// lanes of a column: v, y v and y y v are summed over columns, tree_of_lanes<3, 5>, 3 shuffles. Then a lane has one sum s of
// its column, and s, x s and x x s are summed over the columns, tree_of_lanes<0, 3>, 4 shuffles.
#ifndef DISTWAR_LANE_GROUPS_CUH
#define DISTWAR_LANE_GROUPS_CUH

#include "push_macros.h"

#include "tree.cuh"

namespace distwar {

namespace detail {

template <int Step, int End, int count, int K, typename T>
__device__ __forceinline__ void steps_of_sums(T (&val)[K]) {
    detail::exchange_step<Step, count>(val, add{});
    if constexpr (Step + 1 < End) detail::steps_of_sums<Step + 1, End, (count + 1) / 2>(val);
}

} // namespace detail

// Sums within groups of lanes whose numbers differ in bits First..End - 1 alone: steps First..End - 1 of the tree.
//   who calls    all 32 lanes together; each lane's values count
//   First, End   0 <= First < End <= 5. A group has n = 2^(End - First) lanes; lane l is number l / 2^First mod n of its group
//   val          in: 1 <= K <= 64 values, float, double or integers of 4 or 8 bytes. Out: lane number b of a group
//                has the group's sum of value n i + b in val[i], undefined if there is no such value; the rest is undefined
// tree_of_lanes<0, 5> leaves sums where tree_total does. The order of additions depends on K and the steps alone.
// Cost: ceil(K / 2) + ceil(K / 4) + ... + ceil(K / n) shuffles.
// Example (one warp, `lane` its lane, arrays of zeros):
//     float val[2] = {1, float(lane)};
//     distwar::tree_of_lanes<3, 5>(val); // over lanes l, l + 8, l + 16 and l + 24
//     if (lane < 16) sums[lane] = val[0];
//     // sums: 4, 4, 4, 4, 4, 4, 4, 4, 48, 52, 56, 60, 64, 68, 72, 76
template <int First, int End, int K, typename T>
__device__ __forceinline__ void tree_of_lanes(T (&val)[K]) {
    static_assert(0 <= First && First < End && End <= 5, "distwar: a warp has bits 0 to 4");
    static_assert(detail::is_tree_value<T>,
                  "distwar: a tree takes float, double or integers of 4 or 8 bytes");
    static_assert(K <= detail::max_tree_values, "distwar: a tree takes at most 64 values");
    detail::steps_of_sums<First, End, K>(val);
}

} // namespace distwar

#include "pop_macros.h"

#endif
