// SPDX-License-Identifier: MIT
#include "distillation_probe.h"
#include "trainer_parts.h"
#include <stdlib.h>
#include <string.h>

trainer *lessons_probe_open(training_state *state, const training_settings *settings,
                            const target_view *views, size_t count) {
    trainer *const t = calloc(1, sizeof *t);
    if (t) *t = (trainer){.state = state, .settings = settings, .views = views, .order = {.count = count}};
    return t;
}

void lessons_probe_close(trainer *t) {
    lessons_close(t);
    free(t);
}

void lessons_probe_time(trainer *t, double seconds_of_a_step) {
    t->pace = (pace){.budget = 100};
    for (int i = 0; i <= PACE_WINDOW; i++) pace_note(&t->pace, 99 - seconds_of_a_step * (PACE_WINDOW - i));
}

static step_views step_of(const trainer *t, int64_t first, int32_t count) {
    step_views of = {.first = first, .count = count};
    for (int32_t v = 0; v < count; v++)
        of.index[v] = (size_t)v, of.view[v] = &t->views[v], of.camera[v] = t->views[v].camera;
    return of;
}

void lessons_probe_choose(trainer *t, int64_t first, int32_t count, gs_camera *cameras, bool *painted) {
    step_views of = step_of(t, first, count);
    lessons_choose(t, &of);
    memcpy(cameras, of.camera, (size_t)count * sizeof *cameras);
    memcpy(painted, of.painted, (size_t)count * sizeof *painted);
}

void lessons_probe_paint(trainer *t, int32_t count, const gs_camera *cameras, const bool *painted,
                         const float background[3], const target_view **shown) {
    step_views of = step_of(t, 0, count);
    memcpy(of.camera, cameras, (size_t)count * sizeof *cameras);
    memcpy(of.painted, painted, (size_t)count * sizeof *painted);
    memcpy(of.background, background, sizeof of.background);
    lessons_paint(t, &of);
    memcpy(shown, of.view, (size_t)count * sizeof *shown);
}
