// SPDX-License-Identifier: MIT
#include "density_control.h"
#include "device.h"
#include <math.h>

#define DENSITY_METHOD(KIND, method) extern const density_method density_##method;
DENSITY_METHODS(DENSITY_METHOD)
#undef DENSITY_METHOD
const density_method density_none = {.name = "none", .until_share = {1, 2}};

static const density_method *const methods[DENSITY_KINDS] = {
#define DENSITY_ROW(KIND, method) [DENSITY_##KIND] = &density_##method,
    DENSITY_METHODS(DENSITY_ROW)
#undef DENSITY_ROW
};

const density_method *density_method_of(int kind) {
    return methods[kind];
}

bool density_is_due(const density_settings *settings, int64_t before, int64_t at) {
    const int64_t first = before > settings->from ? before : settings->from;
    const int64_t last = at < settings->until ? at : settings->until - 1;
    return first < last && first / settings->every < last / settings->every;
}

// Slowly: where views do not agree, the views that are set aside end training at a few times the first Gaussians.
static int64_t limit_reached(const density_settings *settings) {
    return settings->from + 3 * (settings->until - settings->from) / 4;
}

// Grows by the set part. Grows faster where that would not reach the limit after three quarters, so that a run that
// starts from few points has time for detail too.
int64_t density_grown_count(const density_settings *settings, int64_t existing, int64_t step) {
    const double most = (double)settings->most_gaussians, now = (double)existing;
    if (existing == 0 || existing >= settings->most_gaussians) return existing;
    const int64_t reached = limit_reached(settings);
    const double times = step < reached ? (double)((reached - step) / settings->every + 1) : 1;
    const double by_part = now * (1 + (double)(float)settings->growth);
    const double to_limit = step < reached ? now * pow(most / now, 1 / times) : 0;
    return (int64_t)fmin(fmax(by_part, to_limit), most);
}

// A step with r times the Gaussians takes about r^0.6 times as long. They grow by equal factors until then.
double density_time_ahead(const density_settings *settings, int64_t iterations, int64_t existing,
                          int64_t at) {
    if (!density_method_of(settings->kind)->has_limit || existing < 1 ||
        existing >= settings->most_gaussians || at >= settings->until || at >= iterations)
        return 1;
    const double full = pow((double)settings->most_gaussians / (double)existing, 0.6);
    const double left = (double)(iterations - at),
                 growing = fmin(fmax((double)(limit_reached(settings) - at), 0), left);
    return (growing * (full - 1) / log(full) + (left - growing) * full) / left;
}

screen_gradient density_sums_at(const density_settings *settings, int64_t at) {
    return at < settings->until ? density_method_of(settings->kind)->sums : SCREEN_NONE;
}

bool density_adds_to_gradient(const density_settings *settings, int64_t at) {
    return at < settings->until && density_method_of(settings->kind)->before_adam;
}

bool density_before_adam(const density_settings *settings, training_state *state, int views) {
    return !density_adds_to_gradient(settings, schedule_step(&state->schedule)) ||
           density_method_of(settings->kind)->before_adam(settings, state, views);
}

bool density_sum(const density_step *step) {
    if (!step->mean2d) return true;
    GS_OR_FAIL(step->state->group,
               gs_density_accumulate(step->view, step->mean2d, step->state->density, NULL));
    return true;
}

bool density_after_adam(const density_step *step) {
    const schedule_place *const place = &step->state->schedule;
    density_step now = *step;
    now.due = density_is_due(step->settings, place->before, place->at);
    const density_method *const method = density_method_of(step->settings->kind);
    return !method->act || method->act(&now);
}

void density_control_close(density_control *control) {
    device_buffer_close(&control->workspace);
    device_free(control->dead);
}
