// SPDX-License-Identifier: MIT
// Density control by relocation and noise: 3DGS as Markov chain Monte Carlo (Kheradmand et al. 2024).
#include "density_control.h"
#include "device.h"

static void defaults(density_settings *settings) {
    settings->mcmc = (density_mcmc_settings){.noise = 5e5, .opacity_weight = 0.01, .scale_weight = 0.01};
}

static void list_options(density_settings *settings, option_table *table) {
    density_mcmc_settings *s = &settings->mcmc;
    const option_spec rows[] = {
        OPTION("mcmc-noise", &s->noise, .maximum = 1e12,
               .help = "mcmc: scale of the noise, as a multiple of the learning rate of means, in a scene of "
                       "extent 5"),
        OPTION("opacity-penalty", &s->opacity_weight, .maximum = 1e12,
               .help = "mcmc: weight of the mean opacity in the loss until density control ends"),
        OPTION(
            "scale-penalty", &s->scale_weight, .maximum = 1e12,
            .help =
                "mcmc: weight of the mean axis, in fifths of the scene's extent, in the loss until density "
                "control ends"),
        OPTIONS_END};
    option_table_add(table, rows);
}

static bool before_adam(const density_settings *settings, training_state *state, int views) {
    const density_mcmc_settings *s = &settings->mcmc;
    GS_OR_FAIL(state->group, gs_density_penalty(&state->gaussians, training_state_count(state),
                                                (float)(views * s->opacity_weight),
                                                (float)(views * s->scale_weight), &state->gradients, NULL));
    return true;
}

static bool relocate(const density_step *step) {
    training_state *state = step->state;
    const int64_t existing = training_state_count(state);
    density_control *const control = step->control;
    if (!control->dead) {
        control->dead = device_allocate(sizeof *control->dead);
        device_clear(control->dead, sizeof *control->dead);
    }
    const int64_t grown = density_grown_count(step->settings, existing, state->schedule.at);
    if (!training_state_grow(state, grown, step->settings->most_gaussians)) return false;
    const gs_relocation what = {.existing = existing,
                                .least_opacity = (float)step->settings->least_opacity,
                                .seed = step->seed,
                                .iteration = (uint64_t)state->iteration,
                                .dead = control->dead};
    if (state->way->relocate) return state->way->relocate(state, &what);
    size_t bytes;
    GS_OR_FAIL(state->group, gs_relocate_bytes(state->gaussians.count, &bytes));
    GS_OR_FAIL(state->group,
               gs_relocate(&state->gaussians, &state->first_moment, &state->second_moment, &what,
                           device_buffer_reserve(&control->workspace, bytes), bytes, NULL));
    return true;
}

static bool act(const density_step *step) {
    const training_state *state = step->state;
    if (step->due && !relocate(step)) return false;
    GS_OR_FAIL(state->group, gs_density_noise(&state->gaussians, state->first,
                                              (float)step->settings->mcmc.noise * step->mean_rate, step->seed,
                                              (uint64_t)state->iteration, NULL));
    return true;
}

const density_method density_mcmc = {.name = "mcmc",
                                     .act = act,
                                     .until_share = {5, 6},
                                     .starts_small = true,
                                     .has_limit = true,
                                     .defaults = defaults,
                                     .list_options = list_options,
                                     .before_adam = before_adam};
