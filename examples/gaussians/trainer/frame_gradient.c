// SPDX-License-Identifier: MIT
// The gradient of a step where one rank has all Gaussians and pictures: all views go through each stage in one launch.
#include "trainer_parts.h"
#include "device.h"
#include "frames/blend_strategies.h"
#include "frames/gs_check.h"
#include "cli/progress.h"

void frame_gradient_open(trainer *t) {
    const training_settings *settings = t->settings;
    const candidate_list candidates = settings->tune ? blend_candidates() : candidate_alone(settings->policy);
    strategy_tuner_open(&t->one.tuner, &candidates);
    t->one.f.clock = &t->report.clock;
}

void frame_gradient_close(trainer *t) {
    strategy_tuner_close(&t->one.tuner);
    device_buffer_close(&t->one.exposure_gradient);
    frame_close(&t->one.f);
}

// Queues the loss of one of the views.
static void queue_view_loss(trainer *t, const step_views *of, int32_t v) {
    const target_view *view = of->view[v];
    frame *const f = &t->one.f;
    frame_choose(f, v);
    if (of->exposure[v]) frame_expose(f, of->exposure[v]);
    frame_loss(f, trainer_target(t, of, view), view->mask, t->results[t->waiting + v].color, true);
#define QUEUE(name, results, first, last, has, queue, queue_rows) queue(t, of, v);
    LOSS_TERMS(QUEUE)
#undef QUEUE
}

// Queues the forward pass and the loss, again while the lists have no room.
static void queue_loss(trainer *t, const step_views *of) {
    frame *const f = &t->one.f;
    const gs_gaussians gaussians = trainer_gaussians(t, of);
    double began;
    bool settled;
    f->with_depth = trainer_weigh(t, of);
    do {
        frame_queue_views(f, &gaussians, of->sh_degree, of->camera, of->count, of->background);
        for (int32_t v = 0; v < of->count; v++) queue_view_loss(t, of, v);
        began = seconds_now();
        settled = frame_settle(f);
        t->report.waited += seconds_now() - began;
    } while (!settled);
}

// Of all views first: a step moves all matrices.
static void step_exposures(trainer *t, const step_views *of) {
    float *const gradients =
        device_buffer_reserve(&t->one.exposure_gradient, GS_MAX_VIEWS * GS_EXPOSURE_VALUES * sizeof(float));
    for (int32_t v = 0; v < of->count; v++) {
        frame_choose(&t->one.f, v);
        frame_expose_backward(&t->one.f, of->exposure[v], gradients + v * GS_EXPOSURE_VALUES);
    }
    for (int32_t v = 0; v < of->count; v++) {
        const int64_t before = of->first + v; // every round of the order has each view once
        GS_CHECK(gs_exposure_adam(t->state->exposure, t->state->exposures, (int64_t)of->index[v],
                                  gradients + v * GS_EXPOSURE_VALUES,
                                  scheduled_exposure_rate(t->settings, of->at + v),
                                  before / (int64_t)t->order.count + 1, NULL));
    }
}

bool frame_gradient_of(trainer *t, const step_views *of, const gs_view **view, const float **mean2d) {
    frame *const f = &t->one.f;
    strategy_tuner *const tuner = &t->one.tuner;
    queue_loss(t, of);
    if (of->exposure[0]) step_exposures(t, of);
    strategy_tuner_begin(tuner);
    f->absolute = of->absolute;
    frame_render_backward(f, tuner->policy);
    strategy_tuner_end(tuner, (double)f->view.lists.pairs);
    frame_project_backward(f, &t->state->gradients, of->pose_step > 0);
    *view = &f->view;
    *mean2d = f->absolute ? f->gradient.abs_mean2d : f->gradient.mean2d;
    return true;
}
