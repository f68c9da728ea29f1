// SPDX-License-Identifier: MIT
// The choice of a reduction as a value: a kernel takes its strategy as a template argument, the host chooses
// it while the program runs.
//
//     distwar::policy chosen = {distwar::strategy::tree, 8};
//     distwar::with_strategy(chosen.reduction, [&](auto strategy) {
//         backward<strategy><<<grid, block>>>(..., chosen.balance_threshold);
//     });
#ifndef DISTWAR_POLICY_CUH
#define DISTWAR_POLICY_CUH

#include "strategy.h"

namespace distwar {

// The strategies of strategy.h, with the same values as distwar_strategy.
enum class strategy {
#define DISTWAR_ENUMERATOR(name, NAME, has_threshold) name,
    DISTWAR_STRATEGIES(DISTWAR_ENUMERATOR)
#undef DISTWAR_ENUMERATOR
};

struct policy {
    strategy reduction;
    int balance_threshold; // see reduce.cuh
};

#ifndef __CUDACC_RTC__
// A strategy known at compile time: converts to it, also as a template argument.
template <strategy S>
struct strategy_constant {
    constexpr operator strategy() const { return S; }
};

// Host: returns body(strategy_constant<chosen>). Body returns one type for all; it is compiled for each. A
// value that names no strategy counts as tree.
template <typename Body>
auto with_strategy(strategy chosen, Body &&body) {
    switch (chosen) {
    case strategy::atomic:
        return body(strategy_constant<strategy::atomic>{});
    case strategy::serial:
        return body(strategy_constant<strategy::serial>{});
    case strategy::bfly:
        return body(strategy_constant<strategy::bfly>{});
    default:
        return body(strategy_constant<strategy::tree>{});
    }
}
#endif

} // namespace distwar

#endif
