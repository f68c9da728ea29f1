// SPDX-License-Identifier: MIT
#include "training/sharded_trainer.h"
#include "arrays.h"
#include "device.h"
#include "progress.h"
#include "scene.h"
#include "sharded.h"
#include "training/view_order.h"
#include "view/device_gaussians.h"
#include <math.h>
#include <string.h>

enum { LOSS_VALUES = 3, CHECK_EVERY = 100 }; // steps between looks at the loss

#define GS_OR_FAIL(call)                                                                                     \
    do {                                                                                                     \
        if ((call) != GS_OK) return ranks_fail(group, "%s", gs_last_error());                                \
    } while (0)

// ---- the state ----

static int64_t all_of(const sharded_state *state, const ranks *group) {
    return state->begin[ranks_count(group)];
}

static gs_shared_vectors open_vectors(int64_t count, const gs_gaussians *like) {
    gs_shared_vectors out = {device_gaussians_open(count, like->sh_degree),
                             device_gaussians_open(count, like->sh_degree),
                             device_gaussians_open(count, like->sh_degree)};
    out.gaussians.antialias = like->antialias;
    return out;
}

static void close_vectors(gs_shared_vectors *vectors) {
    device_gaussians_close(&vectors->gaussians);
    device_gaussians_close(&vectors->first_moment);
    device_gaussians_close(&vectors->second_moment);
}

void sharded_state_open(sharded_state *state, const ranks *group, const gs_gaussians *host) {
    const int own = ranks_own(group);
    *state = (sharded_state){0};
    shard_begin(group, host->count, state->begin);
    const int64_t first = state->begin[own], count = state->begin[own + 1] - first;
    state->own = open_vectors(count, host);
    state->gradients = device_gaussians_open(count, host->sh_degree);
    gs_gaussians part = *host;
    part.count = count;
    const gs_arrays a = gs_arrays_of(host);
    part.mean += first * a.width[0], part.log_scale += first * a.width[1],
        part.quaternion += first * a.width[2];
    part.opacity_logit += first * a.width[3], part.sh += first * a.width[4];
    device_gaussians_upload(&state->own.gaussians, &part);
}

void sharded_state_close(sharded_state *state) {
    close_vectors(&state->own);
    parameter_average_close(&state->average);
    device_gaussians_close(&state->gradients);
}

// Rank 0 receives one array of one rank and copies it to the host.
static bool gather_array(const sharded_state *state, ranks *group, int from, int array, float *to) {
    const gs_arrays own = gs_arrays_of(&state->own.gaussians);
    const int rank = ranks_own(group);
    const int64_t row = own.width[array] * (int64_t)sizeof(float);
    const int64_t bytes = (state->begin[from + 1] - state->begin[from]) * row;
    int64_t zeros[RANKS_MAX] = {0}, sent[RANKS_MAX] = {0}, received[RANKS_MAX] = {0};
    if (rank == from) sent[0] = bytes;
    if (rank == 0) received[from] = bytes;
    void *const memory = rank == 0 ? device_allocate((size_t)bytes) : NULL;
    const ranks_exchange exchange = {own.of[array], zeros, sent, memory, zeros, received};
    const bool good = ranks_all_to_all(group, &exchange, NULL) && ranks_wait(group, NULL);
    if (good && rank == 0) device_download(to + state->begin[from] * own.width[array], memory, (size_t)bytes);
    if (rank == 0) device_free(memory);
    return good;
}

bool sharded_state_gather(const sharded_state *state, ranks *group, gs_gaussians *host) {
    fault why;
    *host = (gs_gaussians){0};
    if (ranks_own(group) == 0) {
        if (!scene_open(host, all_of(state, group), state->own.gaussians.sh_degree, &why))
            return ranks_fail(group, "%s", why.text);
        host->antialias = state->own.gaussians.antialias;
    }
    const gs_arrays to = gs_arrays_of(host);
    for (int from = 0; from < ranks_count(group); from++)
        for (int a = 0; a < GS_ARRAYS; a++)
            if (!gather_array(state, group, from, a, to.of[a])) return false;
    return true;
}

// ---- density control ----

// Shares the rows out equally among the ranks, with room for new ones at the end.
static bool rebalance(sharded_state *state, ranks *group, int64_t wanted) {
    const int own = ranks_own(group);
    int64_t begin[RANKS_MAX + 1];
    shard_begin(group, wanted, begin);
    const size_t bytes = (size_t)(ranks_count(group) + 1) * sizeof *begin;
    if (memcmp(begin, state->begin, bytes) == 0) return true;
    const int64_t count = begin[own + 1] - begin[own];
    const shard_move move = {state->begin, begin, state->own, open_vectors(count, &state->own.gaussians)};
    if (!shard_rebalance(group, &move, NULL) || !ranks_wait(group, NULL)) return false;
    close_vectors(&state->own);
    device_gaussians_close(&state->gradients);
    state->own = move.to;
    state->gradients = device_gaussians_open(count, state->own.gaussians.sh_degree);
    memcpy(state->begin, begin, bytes);
    return true;
}

static bool relocate(sharded_state *state, ranks *group, const training_settings *training,
                     shard_workspace *workspace) {
    const density_settings *const density = &training->density;
    const int64_t existing = all_of(state, group);
    if (!rebalance(state, group, density_grown_count(density, existing, state->iteration))) return false;
    const shard_relocation what = {.vectors = state->own,
                                   .first = state->begin[ranks_own(group)],
                                   .relocation = {.existing = existing,
                                                  .least_opacity = (float)density->least_opacity,
                                                  .seed = training->seed,
                                                  .iteration = (uint64_t)state->iteration}};
    return shard_relocate(group, &what, workspace, NULL);
}

// ---- a step ----

typedef struct sharded_trainer {
    sharded_state *state;
    const sharded_settings *settings;
    sharded *shared;
    shard_workspace density;
    device_buffer loss_workspace;
    double *results; // device, [batch][LOSS_VALUES]: this rank's part of them
    view_order order;
    const target_view *views[GS_MAX_VIEWS]; // of the batch
} sharded_trainer;

static bool queue_loss(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    sharded_trainer *const t = context;
    const target_view *const view = t->views[image->view];
    const gs_comparison images = {image->width, image->height, image->color, view->pixels, view->mask};
    size_t bytes = 0;
    GS_OR_FAIL(gs_loss_bytes(image->width, image->height, &bytes));
    void *const workspace = device_buffer_reserve(&t->loss_workspace, bytes);
    GS_OR_FAIL(gs_share_loss(&images, image->rows, workspace, bytes, t->results + LOSS_VALUES * image->view,
                             image->d_color, stream));
    return true;
}

static gs_adam_rates rates_of(const training_settings *training, int64_t step, int degree, float factor) {
    gs_adam_rates rates = training->rates;
    rates.mean = factor * scheduled_mean_rate(training, step);
    rates.log_scale *= factor, rates.quaternion *= factor, rates.opacity_logit *= factor;
    rates.sh_constant *= factor, rates.sh_rest = factor * scheduled_sh_rate(training, step);
    rates.sh_coefficients = (degree + 1) * (degree + 1);
    return rates;
}

static bool train_step(sharded_trainer *t, ranks *group) {
    sharded_state *const state = t->state;
    const training_settings *const training = t->settings->training;
    const density_settings *const density = &training->density;
    const int64_t batch = t->settings->batch, first = state->begin[ranks_own(group)];
    const bool is_mcmc = density->kind == DENSITY_MCMC;
    const float factor = sqrtf((float)batch);
    gs_camera cameras[GS_MAX_VIEWS];
    for (int64_t v = 0; v < batch; v++) {
        t->views[v] = &t->settings->views[view_order_at(&t->order, state->iteration + v)];
        cameras[v] = t->views[v]->camera;
    }
    sharded_batch of = {
        .gaussians = state->own.gaussians,
        .sh_degree_used = scheduled_sh_degree(training, state->own.gaussians.sh_degree, state->iteration + 1),
        .views = (int32_t)batch,
        .cameras = cameras,
        .policy = training->policy,
        .loss = queue_loss,
        .context = t};
    memcpy(of.background, training->background, sizeof of.background);
    const sharded_gradient gradient = {.gaussians = state->gradients};
    if (!sharded_backward(t->shared, &of, &gradient, NULL)) return false;
    if (is_mcmc && state->iteration + 1 < density->until) // the gradient is a sum over the views
        GS_OR_FAIL(gs_share_penalty(&state->own.gaussians, all_of(state, group),
                                    (float)((double)batch * density->mcmc.opacity_weight),
                                    (float)((double)batch * density->mcmc.scale_weight), &state->gradients,
                                    NULL));
    const gs_adam_rates rates = rates_of(training, state->iteration + 1, of.sh_degree_used, factor);
    GS_OR_FAIL(gs_adam(&state->own.gaussians, &state->gradients, &state->own.first_moment,
                       &state->own.second_moment, &rates, ++state->steps, NULL));
    bool due = false;
    for (int64_t v = 0; v < batch; v++)
        state->iteration++, due |= density_is_due(density, state->iteration - 1, state->iteration);
    if (!is_mcmc) return true;
    if (due && !relocate(state, group, training, &t->density)) return false;
    const int64_t now_first = due ? state->begin[ranks_own(group)] : first;
    GS_OR_FAIL(gs_share_noise(&state->own.gaussians, now_first, (float)density->mcmc.noise * rates.mean,
                              training->seed, (uint64_t)state->iteration, NULL));
    return true;
}

// The mean loss of the views of the last step, on all ranks.
static bool fetch_loss(sharded_trainer *t, ranks *group, double *loss) {
    const int64_t batch = t->settings->batch;
    double values[GS_MAX_VIEWS * LOSS_VALUES] = {0};
    const ranks_reduction sum = {t->results, batch * LOSS_VALUES, RANKS_DOUBLE, RANKS_SUM};
    if (!ranks_all_reduce(group, &sum, NULL) || !ranks_wait(group, NULL)) return false;
    device_download(values, t->results, (size_t)(batch * LOSS_VALUES) * sizeof(double));
    *loss = 0;
    for (int64_t v = 0; v < batch; v++) *loss += values[v * LOSS_VALUES] / (double)batch;
    return isfinite(*loss) ||
           ranks_fail(group, "the loss is not finite at iteration %lld", (long long)t->state->iteration);
}

static bool train_all(sharded_trainer *t, ranks *group, double *loss) {
    const int64_t iterations = t->settings->training->iterations;
    const size_t result_bytes = (size_t)(t->settings->batch * LOSS_VALUES) * sizeof(double);
    const int64_t from = average_from(t->settings->training);
    progress bar;
    progress_begin(&bar, "training", iterations);
    bool good = true, last = t->state->iteration >= iterations;
    while (good && !last) {
        device_clear(t->results, result_bytes); // other ranks write some of the rows
        good = train_step(t, group);
        parameter_average_add(&t->state->average, &t->state->own.gaussians, from, t->state->iteration,
                              t->state->steps);
        last = t->state->iteration >= iterations;
        if (!good || !(last || t->state->steps % CHECK_EVERY == 0)) continue;
        good = fetch_loss(t, group, loss);
        if (good && ranks_own(group) == 0 && progress_due(&bar))
            progress_show(&bar, t->state->iteration, *loss);
    }
    parameter_average_take(&t->state->average, &t->state->own.gaussians);
    progress_end(&bar);
    return good;
}

bool sharded_train(sharded_state *state, ranks *group, const sharded_settings *settings, double *loss) {
    sharded_trainer t = {.state = state, .settings = settings};
    fault why;
    *loss = NAN;
    if (!view_order_open(&t.order, settings->view_count, settings->training->seed, &why))
        return ranks_fail(group, "%s", why.text);
    t.results = device_allocate((size_t)(settings->batch * LOSS_VALUES) * sizeof(double));
    t.shared = sharded_open(group);
    const bool good = t.shared && train_all(&t, group, loss);
    sharded_close(t.shared);
    shard_workspace_close(&t.density);
    device_buffer_close(&t.loss_workspace);
    device_free(t.results);
    view_order_close(&t.order);
    return good;
}
