// SPDX-License-Identifier: MIT
// Density control by splits: up to a limit, Gaussians that are drawn by their absolute screen-space gradient are split
// along the longest axis; the halves also take the rows of those that became transparent.
#include "device.h"
#include "density_control.h"

static bool split(const density_step *step) {
    training_state *state = step->state;
    const int64_t existing = training_state_count(state);
    const int64_t limited = density_grown_count(step->settings, existing, state->schedule.at);
    const int64_t most = step->settings->most_gaussians;
    if (!training_state_grow(state, limited < 2 * existing ? limited : 2 * existing,
                             most)) // each is split once
        return false;
    const gs_split_rules rules = {.existing = existing,
                                  .least_opacity = (float)step->settings->least_opacity,
                                  .density = state->density,
                                  .seed = step->seed,
                                  .iteration = (uint64_t)state->iteration};
    size_t bytes;
    if (state->way->split) {
        if (!state->way->split(state, &rules)) return false;
    } else {
        GS_OR_FAIL(state->group, gs_split_bytes(state->gaussians.count, &bytes));
        GS_OR_FAIL(state->group,
                   gs_split(&state->gaussians, &state->first_moment, &state->second_moment, &rules,
                            device_buffer_reserve(&step->control->workspace, bytes), bytes, NULL));
    }
    DEVICE_CHECK(
        cudaMemsetAsync(state->density, 0, training_state_density_bytes(state->gaussians.count), NULL));
    return true;
}

static bool act(const density_step *step) {
    return !step->due || split(step);
}

const density_method density_split = {.name = "split",
                                      .act = act,
                                      .until_share = {5, 6},
                                      .starts_small = true,
                                      .has_limit = true,
                                      .sums = SCREEN_ABSOLUTE};
