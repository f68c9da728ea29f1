// SPDX-License-Identifier: MIT
// Calls of distillation.c for tests in C++, which cannot read trainer_parts.h.
#pragma once

#include "trainer.h"

C_LINKAGE_BEGIN

// A trainer of which distillation_choose and distillation_render read enough. NULL: no memory.
trainer *distillation_probe_open(training_state *state, const training_settings *settings,
                                 const target_view *views, size_t count);
void distillation_probe_close(trainer *t);
// As if a second of a budget were left, and each step took so long.
void distillation_probe_time(trainer *t, double seconds_of_a_step);
// Chooses a step on the views 0 .. count - 1 after `first` views: their cameras, and which are taught.
void distillation_probe_choose(trainer *t, int64_t first, int32_t count, gs_camera *cameras, bool *taught);
// The views that the step then shows.
void distillation_probe_paint(trainer *t, int32_t count, const gs_camera *cameras, const bool *taught,
                              const float background[3], const target_view **shown);

C_LINKAGE_END
