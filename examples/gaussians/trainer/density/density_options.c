// SPDX-License-Identifier: MIT
#include "density_options.h"
#include "plan/defaults.h"
#include <math.h>

density_options density_options_default(void) {
    density_options options = {.settings = {.kind = DENSITY_AUTO,
                                            .from = 500,
                                            .every = 100,
                                            .least_opacity = 0.005,
                                            .growth = 0.05,
                                            .retired = -1}};
    for (int kind = 0; kind < DENSITY_KINDS; kind++) {
        const density_method *method = density_method_of(kind);
        if (method->defaults) method->defaults(&options.settings);
    }
    return options;
}

static void list_schedule(density_settings *s, option_table *table) {
    static const char *kinds[DENSITY_KINDS + 2] = {[DENSITY_AUTO] = "auto"}; // NULL-ended
    for (int kind = 0; kind < DENSITY_KINDS; kind++) kinds[kind] = density_method_of(kind)->name;
    const option_spec rows[] = {
        OPTION(
            "density", &s->kind, .choices = kinds,
            .help =
                "how Gaussians are added and removed; auto: mcmc from random points in open scenes, else split"),
        OPTION("density-from", &s->from, .maximum = INFINITY,
               .help = "density control begins after this iteration"),
        OPTION("density-until", &s->until, .maximum = INFINITY, .automatic = true,
               .help = "density control ends before this iteration; auto: 5/6 of the run, adaptive 1/2"),
        OPTION("density-every", &s->every, .minimum = 1, .maximum = INFINITY,
               .help = "iterations between actions of density control"),
        OPTION("prune-opacity", &s->least_opacity, .maximum = 0.99,
               .help = "remove Gaussians less opaque than this; split and mcmc move them"),
        OPTION("growth", &s->growth, .maximum = 1,
               .help =
                   "split, mcmc: fraction of the Gaussians added at each action, more if the limit is far"),
        OPTION(
            "retire", &s->retired, .minimum = -1, .maximum = 1, .automatic = true,
            .help =
                "split, mcmc: remove Gaussians that contribute less than this fraction of the upper quartile to "
                "every view; 0: none; auto: 0.16, less with few views"),
        OPTION("retire-every", &s->retire_every, .maximum = INFINITY, .automatic = true,
               .help =
                   "iterations between these removals; auto: 1000, or 10 per training view if that is more"),
        OPTIONS_END};
    option_table_add_group(table, "density control", rows);
}

void density_options_list(density_options *o, option_table *table) {
    list_schedule(&o->settings, table);
    for (int kind = 0; kind < DENSITY_KINDS; kind++) {
        const density_method *method = density_method_of(kind);
        if (method->list_options) method->list_options(&o->settings, table);
    }
}

// Noise finds the geometry of an unbounded scene that starts anywhere; splits alone do not.
static int kind_of(const density_options *o, const density_data *data) {
    const int kind = o->settings.kind;
    return kind != DENSITY_AUTO ? kind : data->everywhere ? DENSITY_MCMC : DENSITY_SPLIT;
}

static int64_t until(const density_options *o, const density_data *data) {
    const int *share = density_method_of(kind_of(o, data))->until_share;
    return o->settings.until > 0 ? o->settings.until : data->iterations * share[0] / share[1];
}

void density_start(const density_options *o, const density_data *data, double *opacity, double *size) {
    const density_settings *s = &o->settings;
    const bool acts = (until(o, data) - 1) / s->every > s->from / s->every;
    const bool small = density_method_of(kind_of(o, data))->starts_small && acts && !data->everywhere;
    *opacity = small ? 0.5 : 0.1;
    *size = small ? 0.1 : 1;
}

density_settings density_settings_from(const density_options *o, const density_data *data) {
    density_settings settings = o->settings;
    settings.kind = kind_of(o, data);
    settings.until = until(o, data);
    settings.extent = data->extent;
    // Sizes are lengths; the noise is the covariance times the rate of means, a length to the third power.
    const double unit = data->extent / usual_extent;
    settings.mcmc.scale_weight /= unit;
    settings.mcmc.noise /= unit * unit;
    if (settings.most_gaussians == 0) settings.most_gaussians = usual_limit(data->pixels);
    if (settings.retire_every == 0) settings.retire_every = usual_retire_every(data->views);
    if (settings.retired < 0)
        settings.retired = density_method_of(settings.kind)->has_limit ? usual_retired(data->views) : 0;
    return settings;
}
