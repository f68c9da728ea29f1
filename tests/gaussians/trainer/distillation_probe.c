// SPDX-License-Identifier: MIT
#include "distillation_probe.h"
#include "trainer_parts.h"
#include <stdlib.h>
#include <string.h>

trainer *distillation_probe_open(training_state *state, const training_settings *settings,
                                 const target_view *views, size_t count) {
    trainer *const t = calloc(1, sizeof *t);
    if (t) *t = (trainer){.state = state, .settings = settings, .source = {.views = views, .count = count}};
    return t;
}

void distillation_probe_close(trainer *t) {
    distillation_close(t);
    free(t);
}

void distillation_probe_time(trainer *t, double seconds_of_a_step) {
    t->pace = (pace){.budget = 100};
    for (int i = 0; i <= PACE_WINDOW; i++) pace_note(&t->pace, 99 - seconds_of_a_step * (PACE_WINDOW - i));
}

static step_views step_of(const trainer *t, int64_t first, int32_t count) {
    step_views of = {.first = first, .count = count};
    for (int32_t v = 0; v < count; v++)
        of.index[v] = (size_t)v, of.view[v] = &t->source.views[v], of.camera[v] = t->source.views[v].camera;
    return of;
}

void distillation_probe_choose(trainer *t, int64_t first, int32_t count, gs_camera *cameras, bool *taught) {
    step_views of = step_of(t, first, count);
    distillation_choose(t, &of);
    memcpy(cameras, of.camera, (size_t)count * sizeof *cameras);
    memcpy(taught, of.taught, (size_t)count * sizeof *taught);
}

void distillation_probe_paint(trainer *t, int32_t count, const gs_camera *cameras, const bool *taught,
                              const float background[3], const target_view **shown) {
    step_views of = step_of(t, 0, count);
    memcpy(of.camera, cameras, (size_t)count * sizeof *cameras);
    memcpy(of.taught, taught, (size_t)count * sizeof *taught);
    memcpy(of.background, background, sizeof of.background);
    distillation_render(t, &of);
    memcpy(shown, of.view, (size_t)count * sizeof *shown);
}
