// SPDX-License-Identifier: MIT
#include "training/density_control.h"
#include "device.h"
#include "view/device_gaussians.h"
#include "view/gs_check.h"
#include <math.h>

static bool is_due(const density_settings *settings, int64_t step) {
    return step > settings->from && step < settings->until && step % settings->every == 0;
}

void density_before_adam(const density_settings *settings, training_state *state) {
    if (settings->kind == DENSITY_MCMC && state->iteration + 1 < settings->until)
        GS_CHECK(gs_density_penalty(&state->gaussians, settings->opacity_weight, settings->scale_weight,
                                    &state->gradients, NULL));
}

// Each array moves into the memory that the one before it left; the last leaves its own as the new scratch.
static void move_all(training_state *state, const gs_density_plan *plan, const gs_density_rules *rules) {
    const bool grows = plan->count_after > state->capacity;
    const int degree = state->gaussians.sh_degree;
    if (grows)
        state->capacity = plan->count_after > 2 * state->capacity ? plan->count_after : 2 * state->capacity;
    gs_gaussians *const sets[] = {&state->gaussians, &state->first_moment, &state->second_moment};
    gs_gaussians spare = state->gradients;
    for (int i = 0; i < 3; i++) {
        if (grows) {
            device_gaussians_close(&spare);
            spare = device_gaussians_open(state->capacity, degree);
        }
        spare.count = plan->count_after;
        spare.antialias = sets[i]->antialias;
        GS_CHECK(gs_density_move(plan, rules, i > 0, sets[i], &spare, NULL));
        gs_gaussians left = *sets[i];
        *sets[i] = spare;
        spare = left;
    }
    if (grows) {
        device_gaussians_close(&spare);
        spare = device_gaussians_open(state->capacity, degree);
        device_free(state->density);
        state->density = device_allocate(training_state_density_bytes(state->capacity));
    }
    state->gradients = spare;
    training_state_set_count(state, plan->count_after);
    DEVICE_CHECK(cudaMemsetAsync(state->density, 0, training_state_density_bytes(plan->count_after), NULL));
}

static void adapt(density_control *control, const density_settings *settings, uint64_t seed,
                  training_state *state) {
    const bool was_reset = settings->reset_every > 0 && state->iteration > settings->reset_every;
    const gs_density_rules rules = {.gradient_threshold = settings->gradient_threshold,
                                    .split_size = (float)(settings->split_size * settings->extent),
                                    .split_factor = settings->split_factor,
                                    .least_opacity = settings->least_opacity,
                                    .most_size =
                                        was_reset ? (float)(settings->most_size * settings->extent) : 0,
                                    .most_gaussians = settings->most_gaussians,
                                    .seed = seed,
                                    .iteration = (uint64_t)state->iteration};
    size_t bytes;
    gs_density_plan plan;
    GS_CHECK(gs_density_bytes(state->gaussians.count, &bytes));
    void *workspace = device_buffer_reserve(&control->workspace, bytes);
    GS_CHECK(gs_density_plan_step(&state->gaussians, state->density, &rules, workspace, bytes, &plan, NULL));
    move_all(state, &plan, &rules);
}

// Grows by the share that is set, or faster where that would not reach the limit half-way: what starts from
// few points has time for detail too.
static int64_t grown_count(const density_settings *settings, int64_t existing, int64_t step) {
    const double most = (double)settings->most_gaussians, now = (double)existing;
    if (existing == 0 || existing >= settings->most_gaussians) return existing;
    const int64_t half_way = (settings->from + settings->until) / 2;
    const double times = step < half_way ? (double)((half_way - step) / settings->every + 1) : 1;
    const double wanted =
        fmax(now * (1 + (double)settings->growth), step < half_way ? now * pow(most / now, 1 / times) : 0);
    return (int64_t)fmin(wanted, most);
}

static void relocate(density_control *control, const density_settings *settings, uint64_t seed,
                     training_state *state) {
    const int64_t existing = state->gaussians.count;
    const int64_t wanted = grown_count(settings, existing, state->iteration);
    training_state_reserve(state, wanted);
    training_state_set_count(state, wanted);
    size_t bytes;
    GS_CHECK(gs_relocate_bytes(wanted, &bytes));
    const gs_relocation relocation = {.existing = existing,
                                      .least_opacity = settings->least_opacity,
                                      .seed = seed,
                                      .iteration = (uint64_t)state->iteration};
    GS_CHECK(gs_relocate(&state->gaussians, &state->first_moment, &state->second_moment, &relocation,
                         device_buffer_reserve(&control->workspace, bytes), bytes, NULL));
}

void density_after_adam(density_control *control, const density_settings *settings, uint64_t seed,
                        float mean_rate, const frame *f, training_state *state) {
    const int64_t step = state->iteration;
    if (settings->kind == DENSITY_ADAPTIVE && step < settings->until) {
        GS_CHECK(gs_density_accumulate(&f->view, f->gradient.mean2d, state->density, NULL));
        if (is_due(settings, step)) adapt(control, settings, seed, state);
        if (settings->reset_every > 0 && step % settings->reset_every == 0)
            GS_CHECK(gs_opacity_reset(&state->gaussians, &state->first_moment, &state->second_moment,
                                      settings->reset_opacity, NULL));
    }
    if (settings->kind == DENSITY_MCMC) {
        if (is_due(settings, step)) relocate(control, settings, seed, state);
        GS_CHECK(
            gs_density_noise(&state->gaussians, settings->noise * mean_rate, seed, (uint64_t)step, NULL));
    }
}

void density_control_close(density_control *control) {
    device_buffer_close(&control->workspace);
}
