// SPDX-License-Identifier: MIT
// The options --reduce and --threshold: how the backward blend adds a warp's gradients to memory.
#ifndef SPLAT_REDUCTION_OPTION_H
#define SPLAT_REDUCTION_OPTION_H

#include "gs.h"
#include <stdbool.h>

enum { DEFAULT_THRESHOLD = 16 }; // half a warp: plain, not tuned to a GPU or a scene

#define REDUCTION_HELP "how the backward blend adds gradients"
#define THRESHOLD_HELP "sum in the warp from this many active lanes on, else plain atomics; 33: never"

// The strategy of an index into the names below; DISTWAR_STRATEGY_COUNT for the last name. And back.
distwar_strategy reduction_at(int index);
int reduction_index(distwar_strategy strategy);
// NULL-ended: the strategies of gs_render_backward and "all".
const char *const *reduction_names_and_all(void);
// The same and "auto".
const char *const *reduction_names_and_auto(void);
// Whether a threshold changes what it does.
bool reduction_has_threshold(distwar_strategy strategy);

#endif
