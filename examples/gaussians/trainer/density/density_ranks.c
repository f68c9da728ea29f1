// SPDX-License-Identifier: MIT
#include "density_ranks.h"
#include "device.h"

bool density_ranks_has(int kind) {
    return kind != DENSITY_ADAPTIVE;
}

float *density_ranks_mean2d(density_ranks *d, const density_settings *settings, int64_t views,
                            const sharded_state *state) {
    if (settings->kind != DENSITY_SPLIT) return NULL;
    return device_buffer_reserve(&d->mean2d,
                                 (size_t)views * 2 * (size_t)state->own.gaussians.count * sizeof(float));
}

bool density_ranks_before_adam(const density_settings *settings, ranks *group, int64_t views,
                               const sharded_state *state) {
    const density_mcmc_settings *const s = &settings->mcmc;
    if (settings->kind != DENSITY_MCMC || state->iteration + 1 >= settings->until) return true;
    // The gradient is a sum over the views.
    GS_OR_FAIL(group, gs_share_penalty(&state->own.gaussians, sharded_state_count(state, group),
                                       (float)((double)views * s->opacity_weight),
                                       (float)((double)views * s->scale_weight), &state->gradients, NULL));
    return true;
}

// Whether the method acts after one of the step's views.
static bool is_due(const density_ranks_step *step) {
    const int64_t at = step->state->iteration;
    return density_is_due(step->settings, at - step->views, at);
}

static bool relocate(density_ranks *d, ranks *group, const density_ranks_step *step) {
    sharded_state *const state = step->state;
    const int64_t existing = sharded_state_count(state, group);
    if (!sharded_state_rebalance(state, group,
                                 density_grown_count(step->settings, existing, state->iteration)))
        return false;
    const shard_relocation what = {.vectors = state->own,
                                   .first = sharded_state_first(state, group),
                                   .relocation = {.existing = existing,
                                                  .least_opacity = (float)step->settings->least_opacity,
                                                  .seed = step->seed,
                                                  .iteration = (uint64_t)state->iteration}};
    return shard_relocate(group, &what, &d->workspace, NULL);
}

static bool relocate_and_move(density_ranks *d, ranks *group, const density_ranks_step *step) {
    const sharded_state *const state = step->state;
    if (is_due(step) && !relocate(d, group, step)) return false;
    GS_OR_FAIL(group, gs_share_noise(&state->own.gaussians, sharded_state_first(state, group),
                                     (float)step->settings->mcmc.noise * step->mean_rate, step->seed,
                                     (uint64_t)state->iteration, NULL));
    return true;
}

static bool split(density_ranks *d, ranks *group, const density_ranks_step *step) {
    sharded_state *const state = step->state;
    const int64_t existing = sharded_state_count(state, group);
    const int64_t limited = density_grown_count(step->settings, existing, state->iteration);
    if (!sharded_state_rebalance(state, group, limited < 2 * existing ? limited : 2 * existing)) return false;
    const shard_split_rules what = {.vectors = state->own,
                                    .first = sharded_state_first(state, group),
                                    .rules = {.existing = existing,
                                              .least_opacity = (float)step->settings->least_opacity,
                                              .density = state->density,
                                              .seed = step->seed,
                                              .iteration = (uint64_t)state->iteration}};
    if (!shard_split(group, &what, &d->workspace, NULL)) return false;
    DEVICE_CHECK(
        cudaMemsetAsync(state->density, 0, training_state_density_bytes(state->own.gaussians.count), NULL));
    return true;
}

static bool accumulate_and_split(density_ranks *d, ranks *group, const density_ranks_step *step) {
    sharded_state *const state = step->state;
    const float *const mean2d = d->mean2d.memory;
    if (state->iteration >= step->settings->until) return true;
    const gs_view views = sharded_home(step->shared);
    GS_OR_FAIL(group, gs_density_accumulate(&views, mean2d, state->density, NULL));
    return !is_due(step) || split(d, group, step);
}

bool density_ranks_after_adam(density_ranks *d, ranks *group, const density_ranks_step *step) {
    const int kind = step->settings->kind;
    return kind == DENSITY_MCMC    ? relocate_and_move(d, group, step)
           : kind == DENSITY_SPLIT ? accumulate_and_split(d, group, step)
                                   : true;
}

void density_ranks_close(density_ranks *d) {
    shard_workspace_close(&d->workspace);
    device_buffer_close(&d->mean2d);
}
