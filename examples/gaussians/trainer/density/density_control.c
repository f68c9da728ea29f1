// SPDX-License-Identifier: MIT
#include "density_control.h"
#include "frames/gs_check.h"
#include <math.h>

static const density_method density_none = {.name = "none", .until_share = {1, 2}};

static const density_method *const methods[DENSITY_KINDS] = {
    [DENSITY_NONE] = &density_none,
    [DENSITY_ADAPTIVE] = &density_adaptive,
    [DENSITY_MCMC] = &density_mcmc,
    [DENSITY_SPLIT] = &density_split,
};

const density_method *density_method_of(int kind) {
    return methods[kind];
}

bool density_is_due(const density_settings *settings, int64_t before, int64_t at) {
    const int64_t first = before > settings->from ? before : settings->from;
    const int64_t last = at < settings->until ? at : settings->until - 1;
    return first < last && first / settings->every < last / settings->every;
}

static int64_t half_way(const density_settings *settings) {
    return (settings->from + settings->until) / 2;
}

// Grows by the set part. Grows faster where that would not reach the limit half-way, so that a run that
// starts from few points has time for detail too.
int64_t density_grown_count(const density_settings *settings, int64_t existing, int64_t step) {
    const double most = (double)settings->most_gaussians, now = (double)existing;
    if (existing == 0 || existing >= settings->most_gaussians) return existing;
    const int64_t reached = half_way(settings);
    const double times = step < reached ? (double)((reached - step) / settings->every + 1) : 1;
    const double by_part = now * (1 + (double)(float)settings->growth);
    const double to_limit = step < reached ? now * pow(most / now, 1 / times) : 0;
    return (int64_t)fmin(fmax(by_part, to_limit), most);
}

// A step with r times the Gaussians takes about r^0.6 times as long. They grow by equal factors until half-way.
double density_time_ahead(const density_settings *settings, int64_t iterations, int64_t existing,
                          int64_t at) {
    if (!methods[settings->kind]->has_limit || existing < 1 || existing >= settings->most_gaussians ||
        at >= settings->until || at >= iterations)
        return 1;
    const double full = pow((double)settings->most_gaussians / (double)existing, 0.6);
    const double left = (double)(iterations - at),
                 growing = fmin(fmax((double)(half_way(settings) - at), 0), left);
    return (growing * (full - 1) / log(full) + (left - growing) * full) / left;
}

bool density_reads_absolute(const density_settings *settings) {
    return settings->kind == DENSITY_SPLIT;
}

void density_before_adam(const density_settings *settings, training_state *state, int views) {
    const density_method *method = methods[settings->kind];
    if (method->before_adam) method->before_adam(settings, state, views);
}

void density_accumulate(const density_step *step) {
    const frame *f = step->view;
    GS_CHECK(gs_density_accumulate(&f->view, density_gradient(f), step->state->density, NULL));
}

void density_after_adam(density_control *control, const density_settings *settings, uint64_t seed,
                        float mean_rate, const frame *f, training_state *state) {
    const density_method *method = methods[settings->kind];
    const density_step step = {.settings = settings,
                               .seed = seed,
                               .mean_rate = mean_rate,
                               .due = density_is_due(settings, state->schedule.before, state->schedule.at),
                               .view = f,
                               .state = state,
                               .workspace = &control->workspace};
    if (method->after_adam) method->after_adam(&step);
}

void density_control_close(density_control *control) {
    device_buffer_close(&control->workspace);
}
