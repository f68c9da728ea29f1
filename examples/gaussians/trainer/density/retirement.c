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
    device_buffer_close(&r->scores);
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
                        int32_t count, distwar_policy policy) {
    const size_t splats = (size_t)count * (size_t)gaussians->count;
    if (!r->one_by_one) {
        score_together(f, gaussians, cameras, count, policy, r->score.memory);
        return;
    }
    const gs_view all = {.gaussians = *gaussians,
                         .camera = cameras[0],
                         .views = {count, cameras},
                         .splats = device_buffer_reserve(&r->splats, splats * sizeof(gs_splat))};
    GS_CHECK(gs_project(&all, NULL));
    for (int32_t v = 0; v < count; v++) {
        f->projected = all.splats + v * gaussians->count;
        score_together(f, gaussians, &cameras[v], 1, policy, r->score.memory);
    }
}

size_t retirement_views(size_t count) {
    const size_t every = count / 50;
    return every < 2 ? count : count / (every < 4 ? every : 4);
}

// The views that are asked from `first` on, at most `batch`; their number.
static int32_t choose_cameras(const training_state *state, const target_view *views, size_t all, size_t first,
                              int64_t batch, gs_camera *camera) {
    const size_t count = retirement_views(all);
    const int32_t together = (int32_t)(count - first < (size_t)batch ? count - first : (size_t)batch);
    for (int32_t v = 0; v < together; v++) {
        const size_t index = (first + (size_t)v) * all / count;
        camera[v] = views[index].camera;
        if (state->poses > 0) pose_to_camera(&state->pose[index].now, &camera[v]);
    }
    return together;
}

// Retires those of `gaussians` with the least scores.
static bool retire(retirement *r, ranks *group, const gs_gaussians *gaussians, const float *score,
                   double part) {
    size_t workspace;
    GS_OR_FAIL(group, gs_retire_bytes(gaussians->count, &workspace));
    GS_OR_FAIL(group, gs_retire(gaussians, score, (float)part,
                                device_buffer_reserve(&r->workspace, workspace), workspace, NULL));
    return true;
}

bool retire_least(retirement *r, frame *f, const training_state *state, const target_view *views, size_t all,
                  int64_t batch, const density_settings *settings, distwar_policy policy) {
    const gs_gaussians *gaussians = &state->gaussians;
    const size_t count = retirement_views(all), bytes = (size_t)gaussians->count * sizeof(float),
                 ranks_number = r->peers ? (size_t)ranks_count(r->peers) : 1,
                 own = r->peers ? (size_t)ranks_own(r->peers) : 0;
    float *const score = device_buffer_reserve(&r->score, bytes);
    const ranks_reduction largest = {score, gaussians->count, RANKS_FLOAT, RANKS_MAX_OF};
    stage_clock *const clock = f->clock; // it has the stages of steps alone
    f->clock = NULL, f->projected = NULL, f->given_moments = NULL;
    f->with_depth = false; // its gradient is of the step's pictures
    device_clear(score, bytes);
    for (size_t first = own * (size_t)batch; first < count; first += ranks_number * (size_t)batch) {
        gs_camera camera[GS_MAX_VIEWS];
        const int32_t together = choose_cameras(state, views, all, first, batch, camera);
        if (first == own * (size_t)batch || batch == 1)
            set_gradient(f, camera, together); // several have one size
        score_views(r, f, gaussians, camera, together, policy);
    }
    f->clock = clock;
    return (!r->peers || (ranks_all_reduce(r->peers, &largest, NULL) && ranks_wait(r->peers, NULL))) &&
           retire(r, state->group, gaussians, score, settings->retired);
}

// ---- on several ranks

// A call of sharded_batch that does what set_gradient does.
static bool put_gradient(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    const size_t bytes = GS_CHANNELS * (size_t)image->width * (size_t)image->height * sizeof(float);
    const cudaError_t status = cudaMemsetAsync(image->d_color, 0x3f, bytes, stream);
    (void)context;
    return status == cudaSuccess || ranks_fail_cuda(group, status, "setting the gradient of an image");
}

// Scores this rank's Gaussians.
static bool score_own(retirement *r, const retirement_place *place, const training_state *state,
                      const target_view *views, size_t all, int64_t batch) {
    const gs_gaussians *const own = &state->gaussians;
    const size_t bytes = (size_t)own->count * sizeof(float);
    float *const score = device_buffer_reserve(&r->score, bytes);
    device_clear(score, bytes);
    for (size_t first = 0; first < retirement_views(all); first += (size_t)batch) {
        gs_camera camera[GS_MAX_VIEWS];
        const sharded_gradient gradient = {.gaussians = state->gradients};
        const sharded_batch of = {.gaussians = *own,
                                  .views = choose_cameras(state, views, all, first, batch, camera),
                                  .cameras = camera,
                                  .policy = place->policy,
                                  .loss = put_gradient};
        if (!sharded_backward(place->shared, &of, &gradient, NULL)) return false;
        for (int32_t v = 0; v < of.views; v++)
            GS_OR_FAIL(state->group, gs_score_add(sharded_moments(place->shared) + v * own->count, own->count,
                                                  score, NULL));
    }
    return true;
}

bool retire_least_of_ranks(retirement *r, const retirement_place *place, const training_state *state,
                           const target_view *views, size_t count, int64_t batch,
                           const density_settings *settings) {
    const int64_t all = training_state_count(state), first = training_state_first(state);
    const size_t bytes = (size_t)all * sizeof(float);
    if (!score_own(r, place, state, views, count, batch)) return false;
    float *const scores = device_buffer_reserve(&r->scores, bytes);
    gs_gaussians everyone = state->gaussians; // gs_retire reads and writes nothing but opacities
    everyone.count = all;
    everyone.opacity_logit = device_buffer_reserve(&r->logits, bytes);
    if (!shard_gather(state->group, state->begin, sizeof *scores, r->score.memory, scores, NULL) ||
        !shard_gather(state->group, state->begin, sizeof *scores, state->gaussians.opacity_logit,
                      everyone.opacity_logit, NULL) ||
        !retire(r, state->group, &everyone, scores, settings->retired))
        return false;
    DEVICE_CHECK(cudaMemcpyAsync(state->gaussians.opacity_logit, everyone.opacity_logit + first,
                                 (size_t)state->gaussians.count * sizeof(float), cudaMemcpyDeviceToDevice,
                                 NULL));
    return true;
}
