// SPDX-License-Identifier: MIT
#include "retirement.h"
#include "device.h"
#include "distwar_gs_split.h"
#include "frames/gs_check.h"
#include "frames/pose.h"

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
static void set_gradient(frame *f, const gs_camera *camera, int32_t count) {
    const size_t bytes =
        (size_t)count * GS_CHANNELS * (size_t)camera->width * (size_t)camera->height * sizeof(float);
    DEVICE_CHECK(cudaMemsetAsync(device_buffer_reserve(&f->color_gradient, bytes), 0x3f, bytes, NULL));
}

// Scores by views of one step, again while the lists have no room.
static void score_views(retirement *r, const gs_gaussians *gaussians, const gs_camera *cameras, int32_t count,
                        distwar_policy policy, float *score) {
    const float black[GS_CHANNELS] = {0};
    frame *f = &r->f;
    do {
        frame_queue_views(f, gaussians, 0, cameras, count, black); // alpha does not depend on colours
    } while (!frame_settle(f));
    frame_render_backward(f, policy);
    for (int32_t v = 0; v < count; v++)
        GS_CHECK(gs_score_add(f->gradient.moments + v * gaussians->count, gaussians->count, score, NULL));
}

size_t retirement_views(size_t count) {
    const size_t every = count / 50;
    return every < 2 ? count : count / (every < 4 ? every : 4);
}

void retire_least(retirement *r, const training_state *state, const target_view *views, size_t all,
                  int64_t batch, const density_settings *settings, distwar_policy policy) {
    const gs_gaussians *gaussians = &state->gaussians;
    const size_t count = retirement_views(all), bytes = (size_t)gaussians->count * sizeof(float);
    float *const score = device_buffer_reserve(&r->score, bytes);
    device_clear(score, bytes);
    for (size_t first = 0; first < count; first += (size_t)batch) {
        gs_camera camera[GS_MAX_VIEWS];
        const int32_t together = (int32_t)(count - first < (size_t)batch ? count - first : (size_t)batch);
        for (int32_t v = 0; v < together; v++) {
            const size_t index = (first + (size_t)v) * all / count;
            camera[v] = views[index].camera;
            if (state->poses > 0) pose_to_camera(&state->pose[index].now, &camera[v]);
        }
        if (first == 0 || batch == 1) set_gradient(&r->f, camera, together); // several have one size
        score_views(r, gaussians, camera, together, policy, score);
    }
    size_t workspace;
    GS_CHECK(gs_retire_bytes(gaussians->count, &workspace));
    GS_CHECK(gs_retire(gaussians, score, (float)settings->retired,
                       device_buffer_reserve(&r->workspace, workspace), workspace, NULL));
}
