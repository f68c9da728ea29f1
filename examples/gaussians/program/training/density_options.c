// SPDX-License-Identifier: MIT
#include "training/density_options.h"
#include <math.h>

density_options density_options_default(void) {
    return (density_options){.kind = DENSITY_MCMC,
                             .from = 500,
                             .every = 100,
                             .most_gaussians = 300000,
                             .reset_every = 3000,
                             .least_opacity = 0.005,
                             .gradient = 2e-4,
                             .split_size = 0.01,
                             .most_size = 0.1,
                             .reset_opacity = 0.01,
                             .growth = 0.05,
                             .noise = 5e5,
                             .opacity_weight = 0.01,
                             .scale_weight = 0.01};
}

void density_options_list(density_options *o, option_spec *table) {
    static const char *const kinds[] = {"none", "adaptive", "mcmc", NULL};
    const option_spec options[DENSITY_OPTIONS] = {
        {OPTION_CHOICE, "density", 0, &o->kind, 0, 0, kinds,
         "mcmc: moves faint Gaussians to where others are and adds noise; adaptive: clones, splits and "
         "prunes "
         "by the screen-space gradient"},
        {OPTION_INT, "max-gaussians", 0, &o->most_gaussians, 0, 500000000, NULL,
         "no growth beyond so many; 0: no limit, but not for mcmc"},
        {OPTION_INT, "density-from", 0, &o->from, 0, INFINITY, NULL,
         "density control begins after this step"},
        {OPTION_INT, "density-until", 0, &o->until, 0, INFINITY, NULL,
         "and ends before this one; 0: half of the iterations, of mcmc 5/6"},
        {OPTION_INT, "density-every", 0, &o->every, 1, INFINITY, NULL, "it acts after every so many steps"},
        {OPTION_REAL, "prune-opacity", 0, &o->least_opacity, 0, 0.99, NULL,
         "less opaque Gaussians are pruned; of mcmc: relocated"},
        {OPTION_REAL, "grow-gradient", 0, &o->gradient, 0, INFINITY, NULL,
         "adaptive: where the mean screen-space gradient is as large, a Gaussian is cloned or split"},
        {OPTION_REAL, "split-size", 0, &o->split_size, 0, INFINITY, NULL,
         "adaptive: in scene extents; larger ones are split, others cloned"},
        {OPTION_REAL, "prune-size", 0, &o->most_size, 0, INFINITY, NULL,
         "adaptive: in scene extents; larger ones are pruned after the first reset; 0: never"},
        {OPTION_INT, "reset-every", 0, &o->reset_every, 0, INFINITY, NULL,
         "adaptive: opacities are cut after every so many steps; 0: never"},
        {OPTION_REAL, "reset-opacity", 0, &o->reset_opacity, 1e-6, 0.99, NULL, "adaptive: to this"},
        {OPTION_REAL, "mcmc-growth", 0, &o->growth, 0, 1, NULL,
         "mcmc: of the number, each time it acts; more where --max-gaussians would not be reached half-way"},
        {OPTION_REAL, "mcmc-noise", 0, &o->noise, 0, 1e12, NULL, "mcmc: times the learning rate of means"},
        {OPTION_REAL, "opacity-penalty", 0, &o->opacity_weight, 0, 1e12, NULL,
         "mcmc: times the mean opacity, added to the loss until density control ends"},
        {OPTION_REAL, "scale-penalty", 0, &o->scale_weight, 0, 1e12, NULL,
         "mcmc: times the mean axis, likewise"},
        {OPTION_REAL, "start-opacity", 0, &o->start_opacity, 0, 0.99, NULL,
         "of the first Gaussians; 0: 0.5 for mcmc, unless training ends before it acts, or they are random "
         "in "
         "a scene that is no cut-out object; else 0.1"},
        {OPTION_REAL, "start-size", 0, &o->start_size, 0, 100, NULL,
         "of the first Gaussians, in mean distances to three neighbours; 0: 0.1 where --start-opacity 0 "
         "gives "
         "0.5, else 1"}};
    for (int i = 0; i < DENSITY_OPTIONS; i++) table[i] = options[i];
}

static int64_t until(const density_options *o, int64_t iterations) {
    const int64_t published = o->kind == DENSITY_MCMC ? iterations * 5 / 6 : iterations / 2;
    return o->until > 0 ? o->until : published;
}

void density_start(const density_options *o, int64_t iterations, bool everywhere, double *opacity,
                   double *size) {
    const bool acts = (until(o, iterations) - 1) / o->every > o->from / o->every;
    const bool small = o->kind == DENSITY_MCMC && acts && !everywhere;
    *opacity = o->start_opacity > 0 ? o->start_opacity : small ? 0.5 : 0.1;
    *size = o->start_size > 0 ? o->start_size : small ? 0.1 : 1;
}

density_settings density_settings_from(const density_options *o, int64_t iterations, double extent) {
    return (density_settings){.kind = (density_kind)o->kind,
                              .from = o->from,
                              .until = until(o, iterations),
                              .every = o->every,
                              .most_gaussians = o->most_gaussians,
                              .extent = extent,
                              .least_opacity = (float)o->least_opacity,
                              .gradient_threshold = (float)o->gradient,
                              .split_size = (float)o->split_size,
                              .most_size = (float)o->most_size,
                              .split_factor = 1.6f,
                              .reset_every = o->reset_every,
                              .reset_opacity = (float)o->reset_opacity,
                              .growth = (float)o->growth,
                              .noise = (float)o->noise,
                              .opacity_weight = (float)o->opacity_weight,
                              .scale_weight = (float)o->scale_weight};
}
