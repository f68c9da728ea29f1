// SPDX-License-Identifier: MIT
#include "blend_strategies.h"

const offered_strategy blend_strategies[] = {DISTWAR_STRATEGIES(OFFERED_ROW) // of reduce<>
                                             {.strategy = DISTWAR_BLOCK},
                                             {.strategy = DISTWAR_FIXED, .ignores_threshold = true},
                                             {.strategy = DISTWAR_STRATEGY_COUNT}};

candidate_list blend_candidates(void) {
    static const int thresholds[] = {0, 4, 8, 12, 16, 20, 24, 28};
    return tuner_candidates(blend_strategies, thresholds, sizeof thresholds / sizeof *thresholds);
}
