// SPDX-License-Identifier: MIT
#include "density/retirement.h"
#include "device.h"
#include "distwar_gs_split.h"
#include "frames/gs_check.h"
#include "frames/pose.h"

void retirement_close(retirement *r) {
    device_buffer_close(&r->score);
    device_buffer_close(&r->workspace);
    device_buffer_close(&r->splats);
    device_buffer_close(&r->logits);
    *r = (retirement){0};
}

bool retirement_is_due(const density_settings *settings, int64_t before, int64_t at) {
    return settings->retired > 0 && density_is_due(settings, before, at) &&
           before / settings->retire_every < at / settings->retire_every;
}

int64_t retirements_left(const density_settings *settings, int64_t at) {
    const int64_t every = settings->retire_every, first = at > settings->from ? at : settings->from;
    return settings->retired > 0 && first < settings->until ? (settings->until - 1) / every - first / every
                                                            : 0;
}

// Scores are compared with each other, so any positive number does, in every pixel: the bytes of 0.747.
static void set_gradient(frame *f, const gs_camera *camera, int32_t count) {
    const size_t bytes =
        (size_t)count * GS_CHANNELS * (size_t)camera->width * (size_t)camera->height * sizeof(float);
    DEVICE_CHECK(cudaMemsetAsync(device_buffer_reserve(&f->color_gradient, bytes), 0x3f, bytes, NULL));
}

// Scores by views of one launch, again while the lists have no room.
static void score_together(frame *f, const gs_gaussians *gaussians, const gs_camera *cameras, int32_t count,
                           distwar_policy policy, float *score) {
    const float black[GS_CHANNELS] = {0};
    do {
        frame_queue_views(f, gaussians, 0, cameras, count, black); // alpha does not depend on colours
    } while (!frame_settle(f));
    frame_render_backward(f, policy);
    for (int32_t v = 0; v < count; v++)
        GS_CHECK(gs_score_add(f->gradient.moments + v * gaussians->count, gaussians->count, score, NULL));
}

// Scores by views of one step.
static void score_views(retirement *r, frame *f, const gs_gaussians *gaussians, const gs_camera *cameras,
                        int32_t count, distwar_policy policy, float *score) {
    const size_t splats = (size_t)count * (size_t)gaussians->count;
    if (!r->one_by_one) {
        score_together(f, gaussians, cameras, count, policy, score);
        return;
    }
    const gs_view all = {.gaussians = *gaussians,
                         .camera = cameras[0],
                         .views = {count, cameras},
                         .splats = device_buffer_reserve(&r->splats, splats * sizeof(gs_splat))};
    GS_CHECK(gs_project(&all, NULL));
    for (int32_t v = 0; v < count; v++) {
        f->projected = all.splats + v * gaussians->count;
        score_together(f, gaussians, &cameras[v], 1, policy, score);
    }
}

size_t retirement_views(size_t count) {
    const size_t every = count / 50;
    return every < 2 ? count : count / (every < 4 ? every : 4);
}

int32_t retirement_cameras(const training_state *state, const scored_views *by, size_t first,
                           gs_camera *camera) {
    const size_t count = retirement_views(by->count), batch = (size_t)by->batch;
    const int32_t together = (int32_t)(count - first < batch ? count - first : batch);
    for (int32_t v = 0; v < together; v++) {
        const size_t index = (first + (size_t)v) * by->count / count;
        camera[v] = by->views[index].camera;
        if (state->poses > 0) pose_to_camera(&state->pose[index].now, &camera[v]);
    }
    return together;
}

void retirement_score(retirement *r, frame *f, const training_state *state, const scored_views *by,
                      const scored_turn *turn, distwar_policy policy, float *score) {
    const size_t batch = (size_t)by->batch, begin = (size_t)turn->own * batch;
    stage_clock *const clock = f->clock; // it has the stages of steps alone
    f->clock = NULL, f->projected = NULL, f->given_moments = NULL;
    f->with_depth = false; // its gradient is of the step's pictures
    for (size_t first = begin; first < retirement_views(by->count); first += (size_t)turn->count * batch) {
        gs_camera camera[GS_MAX_VIEWS];
        const int32_t together = retirement_cameras(state, by, first, camera);
        if (first == begin || batch == 1) set_gradient(f, camera, together); // several have one size
        score_views(r, f, &state->gaussians, camera, together, policy, score);
    }
    f->clock = clock;
}

bool retirement_end(retirement *r, const training_state *state, const float *score, double part) {
    gs_gaussians everyone = state->gaussians; // gs_retire reads and writes nothing but opacities
    float *const own = state->gaussians.opacity_logit;
    size_t workspace;
    everyone.count = training_state_count(state);
    const size_t bytes = (size_t)everyone.count * sizeof *own;
    const bool gathers = state->way && state->way->gather;
    if (gathers) {
        everyone.opacity_logit = device_buffer_reserve(&r->logits, bytes);
        if (!state->way->gather(state, own, sizeof *own, (row_range){0, everyone.count}, true,
                                everyone.opacity_logit))
            return false;
    }
    GS_OR_FAIL(state->group, gs_retire_bytes(everyone.count, &workspace));
    GS_OR_FAIL(state->group, gs_retire(&everyone, score, (float)part,
                                       device_buffer_reserve(&r->workspace, workspace), workspace, NULL));
    if (gathers)
        DEVICE_CHECK(cudaMemcpyAsync(own, everyone.opacity_logit + state->first,
                                     (size_t)state->gaussians.count * sizeof *own, cudaMemcpyDeviceToDevice,
                                     NULL));
    return true;
}
