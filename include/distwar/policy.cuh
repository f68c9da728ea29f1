// SPDX-License-Identifier: MIT
// Chooses the strategy at run time. A kernel takes its strategy as a template argument; with_strategy calls a
// body that is compiled once for each strategy in a list:
//
//     using distwar::strategy;
//     distwar::policy chosen = {strategy::tree, 8};
//     distwar::with_strategy<strategy::atomic, strategy::tree>(chosen.reduction, [&](auto known) {
//         backward<known><<<grid, block>>>(..., chosen.balance_threshold);
//     });
#ifndef DISTWAR_POLICY_CUH
#define DISTWAR_POLICY_CUH

#include "push_macros.h"

#include "strategy.h"

namespace distwar {

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

struct policy {
    strategy reduction;
    int balance_threshold; // see reduce.cuh
};

#ifndef __CUDACC_RTC__
// A strategy known at compile time. Converts to a strategy, also as a template argument.
template <strategy S>
struct strategy_constant {
    constexpr operator strategy() const { return S; }
};

namespace detail {

template <strategy First, strategy... Rest, typename Body>
auto call_with_strategy(strategy chosen, Body &&body) {
    if constexpr (sizeof...(Rest) > 0)
        if (chosen != First) return detail::call_with_strategy<Rest...>(chosen, body);
    return body(strategy_constant<First>{});
}

} // namespace detail

// Host. Returns body(strategy_constant<chosen>{}).
// Offered: the strategies to compile the body for. Default: those that reduce<> has a call for (strategy.h).
// chosen:  one of Offered; any other value counts as the last of them, of the default as tree.
// body:    returns the same type for every strategy.
// Example (host):
//     const auto number = [](auto known) { return int(distwar::strategy(known)); };
//     const int found = distwar::with_strategy(distwar::strategy::serial, number);
//     // found: 1, DISTWAR_SERIAL
template <strategy... Offered, typename Body>
auto with_strategy(strategy chosen, Body &&body) {
    if constexpr (sizeof...(Offered) > 0) {
        return detail::call_with_strategy<Offered...>(chosen, body);
    } else {
        switch (chosen) {
#define DISTWAR_CASE(name, NAME, has_threshold, has_call)                                                    \
    DISTWAR_IF_##has_call(case strategy::name : return body(strategy_constant<strategy::name>{});)
            DISTWAR_STRATEGIES(DISTWAR_CASE)
#undef DISTWAR_CASE
        default:
            return body(strategy_constant<strategy::tree>{});
        }
    }
}
#endif

} // namespace distwar

#include "pop_macros.h"

#endif
