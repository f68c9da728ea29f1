// SPDX-License-Identifier: MIT
// What both ways to a gradient read: the Gaussians and the pictures of a step.
#include "trainer_parts.h"
#include "frames/gs_check.h"

const uint8_t *trainer_target(trainer *t, const step_views *of, const target_view *view) {
    if (!t->settings->random_background || !view->alpha) return view->pixels;
    const int32_t width = view->camera.width, height = view->camera.height;
    uint8_t *target = device_buffer_reserve(&t->target, 3 * (size_t)width * (size_t)height);
    float change[3];
    for (int c = 0; c < 3; c++) change[c] = of->background[c] - t->settings->background[c];
    GS_CHECK(gs_backdrop(view->pixels, view->alpha, width, height, change, target, NULL));
    return target;
}

gs_gaussians trainer_gaussians(trainer *t, const step_views *of) {
    const dropout_place place = {of->at, of->first, training_state_first(t->state)};
    return gaussians_of_step(t->settings, &t->state->gaussians, &place, &t->logits);
}

bool trainer_weigh_depth(trainer *t, const step_views *of, int32_t v) {
    const target_view *const view = &t->views[of->index[v]];
    const bool has_map = t->settings->depth_weight > 0 && (view->depth || view->depth_on_host);
    t->depth_weights[t->waiting + v] = has_map ? (double)scheduled_depth_weight(t->settings, of->at) : 0;
    return has_map;
}
