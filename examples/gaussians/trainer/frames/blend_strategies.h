// SPDX-License-Identifier: MIT
// The strategies that `dsplat` offers, and what its tuner chooses from.
#pragma once

#include "strategies/strategy_options.h"

C_LINKAGE_BEGIN

// The default of --threshold of every command: groups of any size are summed in the warp, as the tuner mostly chooses.
enum { BLEND_THRESHOLD = 0 };

#define BLEND_REDUCE_HELP "strategy by which the backward blend adds gradients"

extern const offered_strategy blend_strategies[]; // of gs_render_backward
// What a tuner chooses from: the strategies of gs_render_backward at thresholds 0, 4, 8, ..., 28.
candidate_list blend_candidates(void);

C_LINKAGE_END
