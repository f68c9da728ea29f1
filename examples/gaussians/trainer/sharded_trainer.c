// SPDX-License-Identifier: MIT
#include "sharded_trainer.h"
#include "device.h"
#include "cli/progress.h"
#include "density/density_ranks.h"
#include "training_state.h"
#include "view_order.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOSS_VALUES = 3,
    WAITING = 100,  // steps whose losses stay on the device, so that a step does not wait for its own
    LOOK_EVERY = 10 // steps between looks at whether a rank wants to end
};

typedef struct sharded_trainer {
    sharded_state *state;
    const sharded_settings *settings;
    density_ranks density;
    view_order order;
    size_t index[GS_MAX_VIEWS]; // of the batch's views
    device_buffer loss_workspace, corrected, logits;
    int64_t tile_rows;             // of the batch's images
    device_buffer row_sums;        // [batch][tile_rows][GS_EXPOSURE_VALUES], of gs_share_exposure_backward
    device_buffer matrix_gradient; // [GS_EXPOSURE_VALUES]
    double *results;               // device, [WAITING][batch][LOSS_VALUES]: this rank's share
    int64_t waiting;               // steps in it
    double started;
    training_report report;
} sharded_trainer;

// ---- a step ----

static double *row_sums_of(const sharded_trainer *t, int64_t view) {
    return (double *)t->row_sums.memory + view * t->tile_rows * GS_EXPOSURE_VALUES;
}

static bool queue_loss(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    sharded_trainer *const t = context;
    const sharded_state *const state = t->state;
    const size_t index = t->index[image->view], pixels = (size_t)image->width * (size_t)image->height;
    picture_cache *const pictures = t->settings->pictures;
    // An upload waits for the device, without a look at the other ranks.
    if (!picture_cache_has(pictures, index) && !ranks_wait(group, stream)) return false;
    const target_view *const view = picture_cache_view(pictures, index);
    double *const result = t->results + LOSS_VALUES * (t->waiting * t->settings->batch + image->view);
    const gs_exposed exposed = {
        .matrix = state->exposures > 0 ? state->exposure + TRAINING_EXPOSURE_FLOATS * index : NULL,
        .color = image->color,
        .width = image->width,
        .height = image->height};
    const float *compared = image->color;
    size_t bytes = 0;
    if (exposed.matrix) {
        float *const corrected = device_buffer_reserve(&t->corrected, GS_CHANNELS * pixels * sizeof(float));
        GS_OR_FAIL(group, gs_exposure(&exposed, corrected, stream));
        compared = corrected;
    }
    const gs_comparison images = {image->width, image->height, compared, view->pixels, view->mask};
    GS_OR_FAIL(group, gs_loss_bytes(image->width, image->height, &bytes));
    void *const workspace = device_buffer_reserve(&t->loss_workspace, bytes);
    GS_OR_FAIL(group, gs_share_loss(&images, image->rows, workspace, bytes, result, image->d_color, stream));
    if (exposed.matrix)
        GS_OR_FAIL(group, gs_share_exposure_backward(&exposed, image->rows, image->d_color,
                                                     row_sums_of(t, image->view), stream));
    return true;
}

static size_t row_sum_values(const sharded_trainer *t) {
    return (size_t)(t->settings->batch * t->tile_rows) * GS_EXPOSURE_VALUES;
}

static void begin_exposures(sharded_trainer *t, const gs_camera *like) {
    t->tile_rows = (like->height + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
    const size_t bytes = row_sum_values(t) * sizeof(double);
    DEVICE_CHECK(cudaMemsetAsync(device_buffer_reserve(&t->row_sums, bytes), 0, bytes, NULL));
}

// Every rank has all matrices and steps those of the batch alike.
static bool step_exposures(sharded_trainer *t, ranks *group) {
    const sharded_state *const state = t->state;
    // Each row of tiles has its sums on one rank and zeros on the others, so that this is exact.
    const ranks_reduction sum = {t->row_sums.memory, (int64_t)row_sum_values(t), RANKS_DOUBLE, RANKS_SUM};
    if (!ranks_all_reduce(group, &sum, NULL)) return false;
    float *const gradient = device_buffer_reserve(&t->matrix_gradient, GS_EXPOSURE_VALUES * sizeof *gradient);
    for (int64_t v = 0; v < t->settings->batch; v++) {
        const int64_t before = state->iteration + v; // every round of the order has each view once
        GS_OR_FAIL(group, gs_share_exposure_sum(row_sums_of(t, v), (int32_t)t->tile_rows, gradient, NULL));
        GS_OR_FAIL(group, gs_exposure_adam(state->exposure, state->exposures, (int64_t)t->index[v], gradient,
                                           scheduled_exposure_rate(t->settings->training, before + 1),
                                           before / (int64_t)t->order.count + 1, NULL));
    }
    return true;
}

static void choose_views(sharded_trainer *t, gs_camera *cameras) {
    picture_cache *const pictures = t->settings->pictures;
    picture_cache_next_step(pictures);
    for (int64_t v = 0; v < t->settings->batch; v++) {
        t->index[v] = view_order_at(&t->order, t->state->iteration + v);
        cameras[v] = pictures->pictures[t->index[v]].view.camera;
    }
}

static bool train_step(sharded_trainer *t, ranks *group) {
    sharded_state *const state = t->state;
    const training_settings *const training = t->settings->training;
    const int64_t batch = t->settings->batch;
    gs_camera cameras[GS_MAX_VIEWS];
    int32_t pictures[GS_MAX_VIEWS];
    choose_views(t, cameras);
    for (int64_t v = 0; v < batch; v++) pictures[v] = (int32_t)t->index[v];
    const dropout_place place = {state->iteration + 1, state->iteration, state->begin[ranks_own(group)]};
    sharded_batch of = {
        .gaussians = gaussians_of_step(training, &state->own.gaussians, &place, &t->logits),
        .sh_degree_used = scheduled_sh_degree(training, state->own.gaussians.sh_degree, state->iteration + 1),
        .views = (int32_t)batch,
        .cameras = cameras,
        .pictures = pictures,
        .policy = training->policy,
        .loss = queue_loss,
        .context = t};
    memcpy(of.background, training->background, sizeof of.background);
    const sharded_gradient gradient = {
        .gaussians = state->gradients,
        .abs_mean2d = density_ranks_mean2d(&t->density, &training->density, batch, state)};
    if (state->exposures > 0) begin_exposures(t, &cameras[0]);
    if (!sharded_backward(t->settings->shared, &of, &gradient, NULL) ||
        (state->exposures > 0 && !step_exposures(t, group)) ||
        !density_ranks_before_adam(&training->density, group, batch, state))
        return false;
    const gs_adam_rates rates = scheduled_rates(training, state->iteration + 1, of.sh_degree_used, batch);
    GS_OR_FAIL(group, gs_adam(&state->own.gaussians, &state->gradients, &state->own.first_moment,
                              &state->own.second_moment, &rates, ++state->steps, NULL));
    state->iteration += batch;
    t->report.step_views = batch;
    t->waiting++;
    const density_ranks_step step = {.settings = &training->density,
                                     .seed = training->seed,
                                     .mean_rate = rates.mean,
                                     .views = batch,
                                     .state = state,
                                     .shared = t->settings->shared};
    if (!density_ranks_after_adam(&t->density, group, &step)) return false;
    if (average_is_due(training, state->iteration - batch, state->iteration))
        parameter_average_add(&state->average, &state->own.gaussians);
    return true;
}

// ---- the losses ----

static size_t result_bytes(const sharded_trainer *t) {
    return (size_t)(WAITING * t->settings->batch * LOSS_VALUES) * sizeof(double);
}

// Adds the waiting losses to the report, on all ranks.
static bool fetch_losses(sharded_trainer *t, ranks *group) {
    training_report *const report = &t->report;
    const int64_t views = t->waiting * t->settings->batch;
    if (views == 0) return true;
    const ranks_reduction sum = {t->results, views * LOSS_VALUES, RANKS_DOUBLE, RANKS_SUM};
    double *const values = malloc(result_bytes(t));
    if (!values) return ranks_fail(group, "no memory for the losses of %lld views", (long long)views);
    bool good = ranks_all_reduce(group, &sum, NULL) && ranks_wait(group, NULL);
    if (good) device_download(values, t->results, (size_t)(views * LOSS_VALUES) * sizeof(double));
    for (int64_t v = 0; v < views && good; v++) {
        const double loss = values[LOSS_VALUES * v];
        report->losses[++report->iterations - report->first_iteration] = loss;
        if (!isfinite(loss))
            good =
                ranks_fail(group, "the loss is not finite at iteration %lld", (long long)report->iterations);
    }
    free(values);
    device_clear(t->results, result_bytes(t));
    t->waiting = 0;
    return good;
}

static bool update_report(sharded_trainer *t, ranks *group) {
    if (!fetch_losses(t, group)) return false;
    training_report_average(&t->report);
    t->report.seconds = seconds_now() - t->started;
    return true;
}

// ---- the loop ----

typedef enum ending { GOES_ON, OUT_OF_TIME, STOPPED } ending;

// What the rank that wants the most wants.
static bool agree_to_end(sharded_trainer *t, ranks *group, const progress *bar, int64_t *how) {
    const sharded_observer *const observer = t->settings->observer;
    const double limit = t->settings->training->seconds;
    const bool late = limit > 0 && seconds_now() - bar->started >= limit;
    const int64_t wants = observer && observer->end && *observer->end ? STOPPED
                          : late                                      ? OUT_OF_TIME
                                                                      : GOES_ON;
    int64_t to_all[RANKS_MAX], of_all[RANKS_MAX];
    const int count = ranks_count(group);
    for (int r = 0; r < count; r++) to_all[r] = wants;
    if (!ranks_exchange_sizes(group, 1, to_all, of_all, NULL)) return false;
    for (int r = 0; r < count; r++) *how = of_all[r] > *how ? of_all[r] : *how;
    return true;
}

// The time it takes is not training's.
static bool look_on(sharded_trainer *t, ranks *group, progress *bar, bool stops) {
    const sharded_observer *const observer = t->settings->observer;
    if (!update_report(t, group)) return false;
    const double began = seconds_now();
    const bool done = observer->observe(observer->context, group, t->state, &t->report, stops);
    const double took = seconds_now() - began;
    t->started += took;
    bar->started += took;
    return done;
}

static bool train_all(sharded_trainer *t, ranks *group) {
    sharded_state *const state = t->state;
    const training_settings *const training = t->settings->training;
    const sharded_observer *const observer = t->settings->observer;
    progress bar;
    progress_begin(&bar, "training", training->iterations);
    bar.before = state->iteration;
    bar.time_limit = training->seconds;
    bool good = true, last = state->iteration >= training->iterations;
    if (last) parameter_average_take(&state->average, &state->own.gaussians);
    while (good && !last) {
        int64_t how = GOES_ON;
        good = train_step(t, group);
        if (good && state->steps % LOOK_EVERY == 0) good = agree_to_end(t, group, &bar, &how);
        last = how != GOES_ON || state->iteration >= training->iterations;
        if (!good) break;
        if (last && how != STOPPED) parameter_average_take(&state->average, &state->own.gaussians);
        if (observer && (last || training_passed(state->iteration, t->settings->batch, observer->interval)))
            good = look_on(t, group, &bar, how == STOPPED);
        else if (last || t->waiting == WAITING)
            good = fetch_losses(t, group);
        if (good && t->waiting == 0 && ranks_own(group) == 0 && progress_due(&bar))
            progress_show(&bar, state->iteration,
                          t->report.losses[t->report.iterations - t->report.first_iteration]);
    }
    progress_end(&bar);
    return good && update_report(t, group) && ranks_barrier(group, NULL);
}

bool sharded_train(sharded_state *state, ranks *group, const sharded_settings *settings,
                   training_report *report) {
    sharded_trainer t = {.state = state, .settings = settings, .started = seconds_now()};
    const int64_t batch = settings->batch, left = settings->training->iterations - state->iteration;
    fault why;
    *report = (training_report){0};
    t.report = (training_report){.first_iteration = state->iteration + 1,
                                 .iterations = state->iteration,
                                 .losses = calloc((size_t)(left + batch), sizeof *t.report.losses),
                                 .strategy = {.policy = settings->training->policy}};
    if (!t.report.losses)
        return ranks_fail(group, "no memory for the losses of %lld iterations", (long long)left);
    if (!view_order_open(&t.order, settings->view_count, settings->training->seed, &why)) {
        training_report_close(&t.report);
        return ranks_fail(group, "%s", why.text);
    }
    t.results = device_allocate(result_bytes(&t));
    device_clear(t.results, result_bytes(&t));
    const bool good = train_all(&t, group);
    *report = t.report;
    density_ranks_close(&t.density);
    device_buffer_close(&t.loss_workspace);
    device_buffer_close(&t.corrected);
    device_buffer_close(&t.logits);
    device_buffer_close(&t.row_sums);
    device_buffer_close(&t.matrix_gradient);
    device_free(t.results);
    view_order_close(&t.order);
    return good;
}
