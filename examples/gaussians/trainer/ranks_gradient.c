// SPDX-License-Identifier: MIT
// The gradient of a step whose Gaussians lie on several ranks (sharded.h).
#include "trainer_parts.h"
#include "device.h"
#include <string.h>

void ranks_gradient_close(trainer *t) {
    ranks_gradient *const r = &t->several;
    device_buffer_close(&r->loss_workspace);
    device_buffer_close(&r->corrected);
    device_buffer_close(&r->mean2d);
    device_buffer_close(&r->row_sums);
    device_buffer_close(&r->matrix_gradient);
}

static double *row_sums_of(const ranks_gradient *r, int64_t view) {
    return (double *)r->row_sums.memory + view * r->tile_rows * GS_EXPOSURE_VALUES;
}

// Of sharded_batch.
static bool queue_loss(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    trainer *const t = context;
    ranks_gradient *const r = &t->several;
    const size_t index = r->of->index[image->view], pixels = (size_t)image->width * (size_t)image->height;
    picture_cache *const pictures = t->ranks ? t->pictures : NULL;
    // An upload waits for the device, without a look at the other ranks.
    if (pictures && !picture_cache_has(pictures, index) && !ranks_wait(group, stream)) return false;
    const target_view *const view = pictures ? picture_cache_view(pictures, index) : r->of->view[image->view];
    const gs_exposed exposed = {.matrix = r->of->exposure[image->view],
                                .color = image->color,
                                .width = image->width,
                                .height = image->height};
    const float *compared = image->color;
    size_t bytes = 0;
    if (exposed.matrix) {
        float *const corrected = device_buffer_reserve(&r->corrected, GS_CHANNELS * pixels * sizeof(float));
        GS_OR_FAIL(group, gs_exposure(&exposed, corrected, stream));
        compared = corrected;
    }
    const gs_comparison images = {image->width, image->height, compared, trainer_target(t, r->of, view),
                                  view->mask};
    GS_OR_FAIL(group, gs_loss_bytes(image->width, image->height, &bytes));
    void *const workspace = device_buffer_reserve(&r->loss_workspace, bytes);
    GS_OR_FAIL(group, gs_share_loss(&images, image->rows, workspace, bytes,
                                    t->results[t->waiting + image->view].of_colors, image->d_color, stream));
    if (exposed.matrix)
        GS_OR_FAIL(group, gs_share_exposure_backward(&exposed, image->rows, image->d_color,
                                                     row_sums_of(r, image->view), stream));
    return true;
}

static int64_t row_sum_values(const ranks_gradient *r) {
    return r->of->count * r->tile_rows * GS_EXPOSURE_VALUES;
}

static void begin_exposures(ranks_gradient *r) {
    r->tile_rows = (r->of->camera->height + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
    const size_t bytes = (size_t)row_sum_values(r) * sizeof(double);
    DEVICE_CHECK(cudaMemsetAsync(device_buffer_reserve(&r->row_sums, bytes), 0, bytes, NULL));
}

// Every rank has all matrices and steps those of the batch alike.
static bool step_exposures(trainer *t) {
    ranks_gradient *const r = &t->several;
    const training_state *const state = t->state;
    // Each row of tiles has its sums on one rank and zeros on the others, so that this is exact.
    const ranks_reduction sum = {r->row_sums.memory, row_sum_values(r), RANKS_DOUBLE, RANKS_SUM};
    if (!ranks_all_reduce(t->group, &sum, NULL)) return false;
    float *const gradient = device_buffer_reserve(&r->matrix_gradient, GS_EXPOSURE_VALUES * sizeof *gradient);
    for (int32_t v = 0; v < r->of->count; v++) {
        const int64_t before = r->of->first + v; // every round of the order has each view once
        GS_OR_FAIL(t->group, gs_share_exposure_sum(row_sums_of(r, v), (int32_t)r->tile_rows, gradient, NULL));
        GS_OR_FAIL(t->group, gs_exposure_adam(state->exposure, state->exposures, (int64_t)r->of->index[v],
                                              gradient, scheduled_exposure_rate(t->settings, r->of->at + v),
                                              before / (int64_t)t->order.count + 1, NULL));
    }
    return true;
}

bool ranks_gradient_of(trainer *t, const step_views *of, const gs_view **view, const float **mean2d) {
    ranks_gradient *const r = &t->several;
    const training_state *const state = t->state;
    int32_t pictures[GS_MAX_VIEWS];
    r->of = of;
    for (int32_t v = 0; v < of->count; v++) {
        pictures[v] = (int32_t)of->index[v];
        t->depth_weights[t->waiting + v] = 0;
    }
    sharded_batch batch = {.gaussians = trainer_gaussians(t, of),
                           .sh_degree_used = of->sh_degree,
                           .views = of->count,
                           .cameras = of->camera,
                           .pictures = pictures,
                           .policy = t->settings->policy,
                           .loss = queue_loss,
                           .context = t};
    memcpy(batch.background, of->background, sizeof batch.background);
    const size_t row = of->kind == GRADIENT_TILT ? GS_CHANNELS : 2,
                 bytes = (size_t)of->count * row * (size_t)state->gaussians.count * sizeof(float);
    float *const sums = of->kind == GRADIENT_SIGNED ? NULL : device_buffer_reserve(&r->mean2d, bytes);
    const sharded_gradient gradient = {.gaussians = state->gradients,
                                       .abs_mean2d = of->kind == GRADIENT_ABSOLUTE ? sums : NULL,
                                       .tilt = of->kind == GRADIENT_TILT ? sums : NULL};
    if (state->exposures > 0) begin_exposures(r);
    if (!sharded_backward(t->shared, &batch, &gradient, NULL) || (state->exposures > 0 && !step_exposures(t)))
        return false;
    r->home = sharded_home(t->shared);
    *view = &r->home;
    *mean2d = sums;
    return true;
}
