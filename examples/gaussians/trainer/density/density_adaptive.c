// SPDX-License-Identifier: MIT
// Density control by the screen-space gradient: clones, splits, prunes, resets opacities (Kerbl et al. 2023).
#include "device.h"
#include "density_control.h"
#include "frames/device_gaussians.h"
#include "frames/gs_check.h"
#include <math.h>

static void defaults(density_settings *settings) {
    settings->adaptive = (density_adaptive_settings){.gradient_threshold = 2e-4,
                                                     .split_size = 0.01,
                                                     .most_size = 0.1,
                                                     .reset_every = 3000,
                                                     .reset_opacity = 0.01,
                                                     .split_factor = 1.6};
}

static void list_options(density_settings *settings, option_table *table) {
    density_adaptive_settings *s = &settings->adaptive;
    const option_spec rows[] = {
        OPTION("grow-gradient", &s->gradient_threshold, .maximum = INFINITY,
               .help = "adaptive: clone or split Gaussians whose mean screen-space gradient reaches this"),
        OPTIONS_END};
    option_table_add(table, rows);
}

// Each array moves into the memory that the array before it left. The last array's memory becomes the new
// scratch.
static bool move_all(training_state *state, const gs_density_plan *plan, const gs_density_rules *rules) {
    const bool grows = plan->count_after > state->capacity;
    const int degree = state->gaussians.sh_degree;
    const int64_t room = 2 * state->capacity;
    if (grows) state->capacity = plan->count_after > room ? plan->count_after : room;
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
    DEVICE_CHECK(
        cudaMemsetAsync(state->density, 0, training_state_density_bytes(state->gaussians.count), NULL));
    return true;
}

static bool adapt(const density_step *step) {
    const density_settings *settings = step->settings;
    const density_adaptive_settings *s = &settings->adaptive;
    training_state *state = step->state;
    const bool was_reset = s->reset_every > 0 && state->schedule.at > s->reset_every;
    // Single precision times double, as the thresholds are single and the extent is double.
    const gs_density_rules rules = {.gradient_threshold = (float)s->gradient_threshold,
                                    .split_size = (float)((float)s->split_size * settings->extent),
                                    .split_factor = (float)s->split_factor,
                                    .least_opacity = (float)settings->least_opacity,
                                    .most_size =
                                        was_reset ? (float)((float)s->most_size * settings->extent) : 0,
                                    .most_gaussians = settings->most_gaussians,
                                    .seed = step->seed,
                                    .iteration = (uint64_t)state->iteration};
    size_t bytes;
    gs_density_plan plan;
    GS_CHECK(gs_density_bytes(state->gaussians.count, &bytes));
    void *workspace = device_buffer_reserve(&step->control->workspace, bytes);
    GS_CHECK(gs_density_plan_step(&state->gaussians, state->density, &rules, workspace, bytes, &plan, NULL));
    return move_all(state, &plan, &rules);
}

static bool act(const density_step *step) {
    const density_adaptive_settings *s = &step->settings->adaptive;
    training_state *state = step->state;
    const schedule_place *place = &state->schedule;
    const int64_t every = s->reset_every;
    if (place->at >= step->settings->until) return true;
    if (step->due && !adapt(step)) return false;
    if (every > 0 && place->at / every > place->before / every)
        GS_CHECK(gs_opacity_reset(&state->gaussians, &state->first_moment, &state->second_moment,
                                  (float)s->reset_opacity, NULL));
    return true;
}

const density_method density_adaptive = {.name = "adaptive",
                                         .act = act,
                                         .until_share = {1, 2},
                                         .sums = SCREEN_SIGNED,
                                         .defaults = defaults,
                                         .list_options = list_options};
