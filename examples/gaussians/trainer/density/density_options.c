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
                "split: splits Gaussians up to the limit, drawn by the absolute screen-space gradient; mcmc: "
                "relocates faint Gaussians and adds noise; adaptive: clones, splits and prunes by a "
                "threshold of the gradient; auto: split, but mcmc with --random unless the data is a cut-out object"),
        OPTION(
            "max-gaussians", &s->most_gaussians, .maximum = 500000000,
            .help =
                "limit of growth; 0: 300000, or one for 100 pixels of the training views if that is fewer"),
        OPTION("density-from", &s->from, .maximum = INFINITY,
               .help = "density control begins after this step"),
        OPTION("density-until", &s->until, .maximum = INFINITY,
               .help = "density control ends before this step; 0: 5/6 of the iterations, adaptive 1/2"),
        OPTION("density-every", &s->every, .minimum = 1, .maximum = INFINITY,
               .help = "steps between actions of density control"),
        OPTION("prune-opacity", &s->least_opacity, .maximum = 0.99,
               .help = "Gaussians less opaque than this are pruned, by split and mcmc moved"),
        OPTION("growth", &s->growth, .maximum = 1,
               .help = "split, mcmc: part of the Gaussians that is added each time; more if --max-gaussians "
                       "would not be reached after three quarters of density control"),
        OPTION(
            "retire", &s->retired, .minimum = -1, .maximum = 1,
            .help =
                "split, mcmc: Gaussians make room for others if what they contribute to every training view is at "
                "most this part of the upper quartile of all; renders all views each time, a part from 100 on; 0: "
                "none do; -1: 0.16 for 40 training views or more, less for fewer, none for up to 20"),
        OPTION("retire-every", &s->retire_every, .maximum = INFINITY,
               .help = "steps between retirements; 0: 1000, or 10 for each training view if that is more"),
        OPTIONS_END};
    option_table_add(table, rows);
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
    if (settings.most_gaussians == 0) settings.most_gaussians = usual_limit(data->pixels);
    if (settings.retire_every == 0) settings.retire_every = usual_retire_every(data->views);
    if (settings.retired < 0)
        settings.retired = density_method_of(settings.kind)->has_limit ? usual_retired(data->views) : 0;
    return settings;
}
