// SPDX-License-Identifier: MIT
// What a group costs to sum and what it costs to send: for thresholds that a call chooses itself.
//
// Times in tenths of a shuffle with its addition, 0.0038 ns of a whole H200 (docs/notes/library.md):
//     a request of one float         28   atomic of one lane, 1M targets: 0.0104 to 0.0117 ns
//     a request of 2 or 4 floats     18   one sector: 0.0067 ns
//     a further group, n shuffles    14.5 n, the shuffle of the key included: 0.071 ns at K = 9
//     the search for one key         70   0.022 to 0.027 ns
//     the search for groups          200  both: 0.07 ns
//     n shuffles, groups side by side 15 n
#ifndef DISTWAR_THRESHOLD_CUH
#define DISTWAR_THRESHOLD_CUH

#include "push_macros.h"

#include "sink.cuh"

namespace distwar {
namespace detail {

inline constexpr int scalar_request_cost = 28, vector_request_cost = 18, one_key_cost = 70, groups_cost = 200;

// The cost of sink.add by one lane.
template <int K, typename Sink>
__host__ __device__ constexpr int plain_cost() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    if (is_same<Sink, aligned_record>)
        return (K / 4 + (K % 4 >= 2)) * vector_request_cost + (K % 4 == 1) * scalar_request_cost;
#endif
    return K * scalar_request_cost;
}

__host__ __device__ constexpr int divide_up(int a, int b) {
    return (a + b - 1) / b;
}

// CANDIDATES, to be measured by benchmarks/threshold: balance_threshold = first_rule + number.
inline constexpr int first_rule = 64, rules = 7;

struct threshold_rule {
    int least_active; // fewer active lanes send plain atomics, without a search
    int least_size;   // of a group that is summed
    bool balances;    // sums every group of two lanes and more if the atomics of the others take longer
    bool compares;    // sums side by side where that costs least
    bool looks;       // sends plain atomics if no lane has the key of the active lane before it
};

// Tree: the cost of a further group. Plain: the cost of one lane's atomics.
template <int Tree, int Plain>
__host__ __device__ constexpr threshold_rule rule_of(int number) {
    constexpr int searched = divide_up(one_key_cost + Tree, Plain);
    constexpr int even = divide_up(Tree, Plain) < 2 ? 2 : divide_up(Tree, Plain);
    constexpr int higher = divide_up(16 * Tree, 10 * Plain) < 2 ? 2 : divide_up(16 * Tree, 10 * Plain);
    constexpr int some = Plain >= 9 * scalar_request_cost ? 1 : 2;
    switch (number) {
    case 0:
        return {searched, 2, false, false, false};
    case 1:
        return {searched, higher, false, false, false};
    case 2:
        return {searched, even, false, false, false};
    case 3:
        return {searched, higher, true, false, false};
    case 4:
        return {searched, higher, true, true, false};
    case 5:
        return {searched, 2, false, false, true};
    default:
        return {some, 2, false, false, false};
    }
}

} // namespace detail
} // namespace distwar

#include "pop_macros.h"

#endif
