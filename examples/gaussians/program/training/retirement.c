// SPDX-License-Identifier: MIT
#include "training/retirement.h"
#include "device.h"
#include "gs_split.h"
#include "view/gs_check.h"
#include "view/pose.h"

void retirement_close(retirement *r) {
    frame_close(&r->f);
    device_buffer_close(&r->score);
    device_buffer_close(&r->workspace);
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
static void set_gradient(frame *f, const gs_camera *camera) {
    const size_t bytes = GS_CHANNELS * (size_t)camera->width * (size_t)camera->height * sizeof(float);
    DEVICE_CHECK(cudaMemsetAsync(device_buffer_reserve(&f->color_gradient, bytes), 0x3f, bytes, NULL));
}

void retire_least(retirement *r, const training_state *state, const target_view *views, size_t count,
                  const density_settings *settings, distwar_policy policy) {
    const gs_gaussians *gaussians = &state->gaussians;
    const float black[GS_CHANNELS] = {0};
    const size_t bytes = (size_t)gaussians->count * sizeof(float);
    float *const score = device_buffer_reserve(&r->score, bytes);
    device_clear(score, bytes);
    for (size_t v = 0; v < count; v++) {
        gs_camera camera = views[v].camera;
        if (state->poses > 0) pose_to_camera(&state->pose[v].now, &camera);
        frame_render(&r->f, gaussians, 0, &camera, black); // alpha does not depend on colours
        set_gradient(&r->f, &camera);
        frame_render_backward(&r->f, policy);
        GS_CHECK(gs_score_add(r->f.gradient.moments, gaussians->count, score, NULL));
    }
    size_t workspace;
    GS_CHECK(gs_retire_bytes(gaussians->count, &workspace));
    GS_CHECK(gs_retire(gaussians, score, (int64_t)(settings->retired * (double)gaussians->count),
                       device_buffer_reserve(&r->workspace, workspace), workspace, NULL));
}
