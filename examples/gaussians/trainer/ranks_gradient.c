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
    device_buffer_close(&r->exposure_sums);
}

static double *row_sums_of(const ranks_gradient *r, int64_t view) {
    return (double *)r->row_sums.memory + view * r->tile_rows * GS_EXPOSURE_SUMS;
}

// The loss of colours, of rows of a view.
static bool queue_color_rows(trainer *t, const sharded_image *image, const target_view *view,
                             gs_stream stream) {
    double *const result = t->results[t->waiting + image->view].color;
    ranks_gradient *const r = &t->several;
    const gs_exposed exposed = {.log_gain = r->of->exposure[image->view],
                                .color = image->color,
                                .width = image->width,
                                .height = image->height};
    const float *compared = image->color;
    size_t bytes = 0;
    if (exposed.log_gain) {
        const size_t values = GS_CHANNELS * (size_t)image->width * (size_t)image->height;
        float *const corrected = device_buffer_reserve(&r->corrected, values * sizeof(float));
        GS_OR_FAIL(t->group, gs_exposure(&exposed, corrected, stream));
        compared = corrected;
    }
    const gs_comparison images = {image->width, image->height, compared,
                                  trainer_target(t, r->of, image->view, view), view->mask};
    GS_OR_FAIL(t->group, gs_loss_bytes(image->width, image->height, &bytes));
    void *const workspace = device_buffer_reserve(&r->loss_workspace, bytes);
    GS_OR_FAIL(t->group,
               gs_share_loss(&images, image->rows, workspace, bytes, result, image->d_color, stream));
    if (exposed.log_gain)
        GS_OR_FAIL(t->group, gs_share_exposure_backward(&exposed, image->rows, image->d_color,
                                                        row_sums_of(r, image->view), stream));
    return true;
}

// The loss that sharded_batch calls.
static bool queue_loss(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    trainer *const t = context;
    const step_views *const of = t->several.of;
    const size_t index = of->index[image->view];
    picture_cache *const pictures = of->painted[image->view] ? NULL : t->pictures;
    // An upload waits for the device, without a look at the other ranks.
    if (pictures && !picture_cache_has(pictures, index) && !ranks_wait(group, stream)) return false;
    const target_view *const view = pictures ? picture_cache_view(pictures, index) : of->view[image->view];
    return queue_color_rows(t, image, view, stream);
}

static int64_t row_sum_values(const ranks_gradient *r) {
    return r->of->count * r->tile_rows * GS_EXPOSURE_SUMS;
}

static void begin_exposures(ranks_gradient *r) {
    r->tile_rows = (r->of->camera->height + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
    const size_t bytes = (size_t)row_sum_values(r) * sizeof(double);
    DEVICE_CHECK(cudaMemsetAsync(device_buffer_reserve(&r->row_sums, bytes), 0, bytes, NULL));
}

// Every rank has all gains and steps those of the batch alike.
static bool step_exposures(trainer *t) {
    ranks_gradient *const r = &t->several;
    // Each row of tiles has its sums on one rank and zeros on the others, so that this is exact.
    const ranks_reduction sum = {r->row_sums.memory, row_sum_values(r), RANKS_DOUBLE, RANKS_SUM};
    if (!ranks_all_reduce(t->group, &sum, NULL)) return false;
    float *const sums = device_buffer_reserve(&r->exposure_sums, GS_EXPOSURE_SUMS * sizeof *sums);
    for (int32_t v = 0; v < r->of->count; v++) {
        if (!r->of->exposure[v]) continue;
        GS_OR_FAIL(t->group, gs_share_exposure_sum(row_sums_of(r, v), (int32_t)r->tile_rows, sums, NULL));
        GS_OR_FAIL(t->group, exposures_step(t, r->of, v, sums));
    }
    return true;
}

bool ranks_gradient_of(trainer *t, const step_views *of, const gs_view **view, const float **mean2d) {
    ranks_gradient *const r = &t->several;
    const training_state *const state = t->state;
    int32_t pictures[GS_MAX_VIEWS];
    r->of = of;
    for (int32_t v = 0; v < of->count; v++) pictures[v] = (int32_t)of->index[v];
    sharded_batch batch = {.gaussians = trainer_gaussians(t, of),
                           .sh_degree_used = of->sh_degree,
                           .views = of->count,
                           .cameras = of->camera,
                           .pictures = pictures,
                           .policy = t->settings->policy,
                           .loss = queue_loss,
                           .context = t};
    memcpy(batch.background, of->background, sizeof batch.background);
    const size_t bytes = (size_t)of->count * 2 * (size_t)state->gaussians.count * sizeof(float);
    const sharded_gradient gradient = {
        .gaussians = state->gradients,
        .abs_mean2d = of->screen == SCREEN_NONE ? NULL : device_buffer_reserve(&r->mean2d, bytes)};
    const bool exposes = state->exposures > 0;
    trainer_weigh(t, of);
    if (exposes) begin_exposures(r);
    if (!sharded_backward(t->shared, &batch, &gradient, NULL) || (exposes && !step_exposures(t)))
        return false;
    r->home = sharded_home(t->shared);
    *view = &r->home;
    *mean2d = gradient.abs_mean2d;
    return true;
}
