// SPDX-License-Identifier: MIT
// The gradient of a step where one rank has all Gaussians and pictures: all views go through each stage in one launch.
#include "trainer_parts.h"
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
    device_buffer_close(&t->one.exposure_sums);
    frame_close(&t->one.f);
}

// Queues the losses of the views.
static void queue_view_losses(trainer *t, const step_views *of) {
    frame *const f = &t->one.f;
    frame_target targets[GS_MAX_VIEWS];
    for (int32_t v = 0; v < of->count; v++) {
        targets[v] = (frame_target){trainer_target(t, of, v, of->view[v]), of->view[v]->mask,
                                    t->results[t->waiting + of->before + v].color};
        frame_choose(f, v);
        if (of->exposure[v]) frame_expose(f, of->exposure[v]);
    }
    frame_loss(f, targets, true);
    for (int32_t v = 0; v < of->count; v++) {
        frame_choose(f, v);
#define QUEUE(name, results, first, last, has, queue, queue_rows) queue(t, of, v);
        LOSS_TERMS(QUEUE)
#undef QUEUE
    }
}

// Queues the forward pass and the loss, again while the lists have no room.
bool frame_queue_loss(trainer *t, const step_views *of, const gs_gaussians *gaussians) {
    frame *const f = &t->one.f;
    double began;
    bool settled;
    do {
        frame_queue_views(f, gaussians, of->sh_degree, of->camera, of->count, of->background);
        queue_view_losses(t, of);
        began = seconds_now();
        // The device waits for other ranks too, which may be gone.
        if (trainer_has_peers(t) && !ranks_wait(t->all, t->peers.watch)) return false;
        settled = frame_settle(f);
        t->report.waited += seconds_now() - began;
    } while (!settled);
    return true;
}

float *frame_exposure_sums(trainer *t) {
    return device_buffer_reserve(&t->one.exposure_sums, GS_MAX_VIEWS * GS_EXPOSURE_SUMS * sizeof(float));
}

void frame_expose_views(trainer *t, const step_views *of, float *sums) {
    for (int32_t v = 0; v < of->count; v++) {
        if (!of->exposure[v]) continue;
        frame_choose(&t->one.f, v);
        frame_expose_backward(&t->one.f, of->exposure[v], sums + v * GS_EXPOSURE_SUMS);
    }
    stage_clock_mark(t->one.f.clock, STAGE_LOSS);
}

// After the sums of all views: a step moves the gains of others.
void frame_step_exposures(trainer *t, const step_views *of, const float *sums) {
    for (int32_t v = 0; v < of->count; v++)
        if (of->exposure[v]) GS_CHECK(exposures_step(t, of, v, sums + v * GS_EXPOSURE_SUMS));
}

void frame_queue_backward(trainer *t, const step_views *of) {
    frame *const f = &t->one.f;
    strategy_tuner *const tuner = &t->one.tuner;
    strategy_tuner_begin(tuner);
    f->screen = of->screen;
    frame_render_backward(f, tuner->policy);
    strategy_tuner_end(tuner, (double)f->view.lists.pairs);
}

bool frame_gradient_of(trainer *t, const step_views *of, const gs_view **view, const float **mean2d) {
    frame *const f = &t->one.f;
    const gs_gaussians gaussians = trainer_gaussians(t, of);
    float *const sums = frame_exposure_sums(t);
    f->with_depth = trainer_weigh(t, of);
    if (!frame_queue_loss(t, of, &gaussians)) return false;
    frame_expose_views(t, of, sums);
    frame_step_exposures(t, of, sums);
    if (of->only_loss) return true;
    frame_queue_backward(t, of);
    if (of->adam)
        frame_project_backward_adam(f, of->adam);
    else
        frame_project_backward(f, &t->state->gradients, of->pose_step > 0);
    *view = &f->view;
    *mean2d = f->screen == SCREEN_ABSOLUTE ? f->gradient.abs_mean2d : f->gradient.mean2d;
    return true;
}
