/* SPDX-License-Identifier: MIT */
/* The list of strategies: how the lanes of a warp add their values to memory. C11 or C++, hosts and NVRTC.
 * A program that lets its user choose a strategy takes names and properties from here. CONTRIBUTING.md says how to add
 * one. */
#ifndef DISTWAR_STRATEGY_H
#define DISTWAR_STRATEGY_H

#ifndef __CUDACC_RTC__
#include <stddef.h>
#endif

/* X(name, NAME, has_threshold, has_call)
 * has_threshold  1 if a balance_threshold changes what the strategy does, else 0
 * has_call       1 if reduce<> has the strategy (reduce.cuh), else 0
 *
 * name    what it does                                                            library call
 * ------  ----------------------------------------------------------------------  --------------------
 * atomic  one atomic for each value of each lane; the baseline                    reduce_atomic
 * vector  the same with vector atomics of up to 4 values, where the GPU has them  aligned_record
 * serial  the first lane of each group reads the other lanes one by one           reduce_serial
 * bfly    one butterfly of shuffles for each value; one key and a full warp       reduce_bfly
 * tree    one tree of shuffles for all values                                     reduce_tree
 * block   one tree over a thread block, in shared memory                          block_sum
 * hot     one tree; frequent keys to sums of the block, the others to memory      hot_slots
 * fixed   64-bit integers: the same bits in every run                             reduce_fixed
 * cub     cub::WarpReduce, for comparison                                         none
 */
#define DISTWAR_STRATEGIES(X)                                                                                \
    X(atomic, ATOMIC, 0, 1)                                                                                  \
    X(vector, VECTOR, 0, 0)                                                                                  \
    X(serial, SERIAL, 1, 1)                                                                                  \
    X(bfly, BFLY, 1, 1)                                                                                      \
    X(tree, TREE, 1, 1)                                                                                      \
    X(block, BLOCK, 0, 0)                                                                                    \
    X(fixed, FIXED, 1, 0)                                                                                    \
    X(cub, CUB, 0, 0)                                                                                        \
    X(hot, HOT, 1, 0)

/* For rows of the list: DISTWAR_IF_1(code) is the code, DISTWAR_IF_0(code) is nothing. */
#define DISTWAR_IF_0(...)
#define DISTWAR_IF_1(...) __VA_ARGS__

/* DISTWAR_ATOMIC, DISTWAR_VECTOR, ... in the order of the list. An int in C++ too, so that checking a value
 * that a caller got wrong is defined. */
#ifdef __cplusplus
enum distwar_strategy : int {
#else
typedef enum distwar_strategy {
#endif
#define DISTWAR_ENUMERATOR(name, NAME, has_threshold, has_call) DISTWAR_##NAME,
    DISTWAR_STRATEGIES(DISTWAR_ENUMERATOR)
#undef DISTWAR_ENUMERATOR
        DISTWAR_STRATEGY_COUNT
#ifdef __cplusplus
};
#else
} distwar_strategy;
#endif

/* A strategy and its threshold. Groups of at least balance_threshold (0..33) active lanes are summed in the
 * warp; the lanes of a smaller group send plain atomics. See reduce.cuh. */
typedef struct distwar_policy {
    distwar_strategy strategy;
    int balance_threshold;
} distwar_policy;

#ifndef __CUDACC_RTC__
/* "atomic", "vector", ...; NULL if out of range. */
static inline const char *distwar_strategy_name(distwar_strategy strategy) {
#define DISTWAR_NAME_OF(name, NAME, has_threshold, has_call) #name,
    static const char *const names[] = {DISTWAR_STRATEGIES(DISTWAR_NAME_OF)};
#undef DISTWAR_NAME_OF
    return (unsigned)strategy < DISTWAR_STRATEGY_COUNT ? names[strategy] : NULL;
}

/* 1 if a balance_threshold changes what the strategy does, else 0; 0 if out of range. */
static inline int distwar_strategy_has_threshold(distwar_strategy strategy) {
#define DISTWAR_THRESHOLD_OF(name, NAME, has_threshold, has_call) has_threshold,
    static const char has[] = {DISTWAR_STRATEGIES(DISTWAR_THRESHOLD_OF)};
#undef DISTWAR_THRESHOLD_OF
    return (unsigned)strategy < DISTWAR_STRATEGY_COUNT ? has[strategy] : 0;
}
#endif

#if defined(__cplusplus) && (__cplusplus >= 201703L || (defined(_MSVC_LANG) && _MSVC_LANG >= 201703L))
// with_strategy chooses at run time the strategy that a kernel takes as a template argument.
extern "C++" namespace distwar { // a C interface that includes this may itself be included as C

// The strategies of strategy.h, with the same values as distwar_strategy.
enum class strategy {
#define DISTWAR_ENUMERATOR(name, NAME, has_threshold, has_call) name,
    DISTWAR_STRATEGIES(DISTWAR_ENUMERATOR)
#undef DISTWAR_ENUMERATOR
};

namespace detail {
#define DISTWAR_CALL_BIT(name, NAME, has_threshold, has_call) | has_call##u << DISTWAR_##NAME
inline constexpr unsigned reduce_strategies = 0 DISTWAR_STRATEGIES(DISTWAR_CALL_BIT); // 1 << strategy
#undef DISTWAR_CALL_BIT
} // namespace detail

#ifndef __CUDACC_RTC__
namespace detail {

// A strategy known at compile time. Converts to a strategy, also as a template argument.
template <strategy S>
struct strategy_constant {
    constexpr operator strategy() const { return S; }
};

template <strategy First, strategy... Rest, typename Body>
auto call_with_strategy(strategy chosen, Body &&body) {
    if constexpr (sizeof...(Rest) > 0)
        if (chosen != First) return detail::call_with_strategy<Rest...>(chosen, body);
    return body(detail::strategy_constant<First>{});
}

} // namespace detail

// Host. Returns body(strategy_constant<chosen>{}), of one type for every strategy.
// Offered: the strategies to compile the body for. Default: those that reduce<> has, tree last.
// chosen:  one of Offered; any other value counts as the last of them.
// Example (host):
//     const auto number = [](auto known) { return int(distwar::strategy(known)); };
//     const int found = distwar::with_strategy(distwar::strategy::serial, number);
//     // found: 2, DISTWAR_SERIAL
template <strategy... Offered, typename Body>
auto with_strategy(strategy chosen, Body &&body) {
#define DISTWAR_OFFER(name, NAME, has_threshold, has_call) DISTWAR_IF_##has_call(strategy::name, )
    if constexpr (sizeof...(Offered) > 0)
        return detail::call_with_strategy<Offered...>(chosen, body);
    else
        return detail::call_with_strategy<DISTWAR_STRATEGIES(DISTWAR_OFFER) strategy::tree>(chosen, body);
#undef DISTWAR_OFFER
}
#endif

} // namespace distwar

#endif

#endif
