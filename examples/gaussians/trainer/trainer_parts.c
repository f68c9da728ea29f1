// SPDX-License-Identifier: MIT
// What all ways to a gradient read: the Gaussians and the pictures of a step.
#include "trainer_parts.h"
#include "frames/gs_check.h"

const uint8_t *trainer_target(trainer *t, const step_views *of, int32_t v, const target_view *view) {
    if (!t->settings->random_background || !view->alpha) return view->pixels;
    const int32_t width = view->camera.width, height = view->camera.height;
    const size_t bytes = GS_CHANNELS * (size_t)width * (size_t)height;
    uint8_t *const target =
        (uint8_t *)device_buffer_reserve(&t->target, (size_t)of->count * bytes) + (size_t)v * bytes;
    float change[3];
    for (int c = 0; c < 3; c++) change[c] = of->background[c] - t->settings->background[c];
    GS_CHECK(gs_backdrop(view->pixels, view->alpha, width, height, change, target, NULL));
    return target;
}

gs_gaussians trainer_gaussians(trainer *t, const step_views *of) {
    const dropout_place place = {of->at, of->first, t->state->first};
    return gaussians_of_step(t->settings, &t->state->gaussians, &place, &t->logits);
}

bool trainer_weigh(trainer *t, const step_views *of) {
    bool with_depth = false;
    for (int32_t v = 0; v < of->count; v++) {
        const target_view *const view = &t->views[of->index[v]];
        step_weights *const weights = &t->weights[t->waiting + v];
#define WEIGH(name, results, first, last, has, ...)                                                          \
    weights->name = has(view) && !of->painted[v]                                                             \
                        ? scheduled_weight(t->settings, &t->settings->weights.name, of->at)                  \
                        : 0;
        LOSS_TERMS(WEIGH)
#undef WEIGH
        with_depth |= weights->depth > 0;
    }
    return with_depth;
}

double trainer_loss(const step_result *result, const step_weights *weights) {
    double sum = result->color[0];
#define ADD(name, ...) sum += weights->name > 0 ? weights->name * result->name[0] : 0;
    LOSS_TERMS(ADD)
#undef ADD
    return sum;
}

int64_t trainer_batch(const training_settings *settings, int phase) {
    const resolution_schedule *schedule = &settings->resolutions;
    const int64_t own = phase < schedule->count ? schedule->phase[phase].batch : 0;
    return own > 0 ? own : settings->batch > 0 ? settings->batch : 1;
}
