// SPDX-License-Identifier: MIT
// Density control by splits: up to a limit, Gaussians that are drawn by their absolute screen-space gradient are split
// along the longest axis; the halves also take the rows of those that became transparent.
#include "device.h"
#include "distwar_gs_split.h"
#include "density_control.h"
#include "frames/gs_check.h"

static void split(const density_step *step) {
    training_state *state = step->state;
    const int64_t existing = state->gaussians.count;
    const int64_t limited = density_grown_count(step->settings, existing, state->schedule.at);
    const int64_t wanted = limited < 2 * existing ? limited : 2 * existing; // each is split once
    training_state_reserve(state, wanted);
    training_state_set_count(state, wanted);
    const gs_split_rules rules = {.existing = existing,
                                  .least_opacity = (float)step->settings->least_opacity,
                                  .density = state->density,
                                  .seed = step->seed,
                                  .iteration = (uint64_t)state->iteration};
    size_t bytes;
    GS_CHECK(gs_split_bytes(wanted, &bytes));
    GS_CHECK(gs_split(&state->gaussians, &state->first_moment, &state->second_moment, &rules,
                      device_buffer_reserve(step->workspace, bytes), bytes, NULL));
    DEVICE_CHECK(cudaMemsetAsync(state->density, 0, training_state_density_bytes(wanted), NULL));
}

static void after_adam(const density_step *step) {
    if (step->state->schedule.at >= step->settings->until) return;
    density_accumulate(step);
    if (step->due) split(step);
}

const density_method density_split = {.name = "split",
                                      .until_share = {5, 6},
                                      .starts_small = true,
                                      .has_limit = true,
                                      .after_adam = after_adam};
