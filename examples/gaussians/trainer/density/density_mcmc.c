// SPDX-License-Identifier: MIT
// Density control by relocation and noise: 3DGS as Markov chain Monte Carlo (Kheradmand et al. 2024).
#include "density_control.h"
#include "frames/gs_check.h"

static void defaults(density_settings *settings) {
    settings->mcmc = (density_mcmc_settings){.noise = 5e5, .opacity_weight = 0.01, .scale_weight = 0.01};
}

static void list_options(density_settings *settings, option_table *table) {
    density_mcmc_settings *s = &settings->mcmc;
    const option_spec rows[] = {
        OPTION("mcmc-noise", &s->noise, .maximum = 1e12,
               .help = "mcmc: scale of the noise, as a multiple of the learning rate of means"),
        OPTION("opacity-penalty", &s->opacity_weight, .maximum = 1e12,
               .help = "mcmc: weight of the mean opacity in the loss until density control ends"),
        OPTION("scale-penalty", &s->scale_weight, .maximum = 1e12,
               .help = "mcmc: weight of the mean axis in the loss until density control ends"),
        OPTIONS_END};
    option_table_add(table, rows);
}

static void before_adam(const density_settings *settings, training_state *state, int views) {
    const density_mcmc_settings *s = &settings->mcmc;
    if (schedule_step(&state->schedule) < settings->until)
        GS_CHECK(gs_density_penalty(&state->gaussians, (float)(views * s->opacity_weight),
                                    (float)(views * s->scale_weight), &state->gradients, NULL));
}

static void relocate(const density_step *step) {
    const density_settings *settings = step->settings;
    training_state *state = step->state;
    const int64_t existing = state->gaussians.count;
    const int64_t wanted = density_grown_count(settings, existing, state->schedule.at);
    training_state_reserve(state, wanted);
    training_state_set_count(state, wanted);
    size_t bytes;
    GS_CHECK(gs_relocate_bytes(wanted, &bytes));
    const gs_relocation relocation = {.existing = existing,
                                      .least_opacity = (float)settings->least_opacity,
                                      .seed = step->seed,
                                      .iteration = (uint64_t)state->iteration};
    GS_CHECK(gs_relocate(&state->gaussians, &state->first_moment, &state->second_moment, &relocation,
                         device_buffer_reserve(step->workspace, bytes), bytes, NULL));
}

static void after_adam(const density_step *step) {
    training_state *state = step->state;
    if (step->due) relocate(step);
    GS_CHECK(gs_density_noise(&state->gaussians, (float)step->settings->mcmc.noise * step->mean_rate,
                              step->seed, (uint64_t)state->iteration, NULL));
}

const density_method density_mcmc = {.name = "mcmc",
                                     .until_share = {5, 6},
                                     .starts_small = true,
                                     .has_limit = true,
                                     .defaults = defaults,
                                     .list_options = list_options,
                                     .before_adam = before_adam,
                                     .after_adam = after_adam};
