// SPDX-License-Identifier: MIT
#include "training_state.h"
#include "arrays.h"
#include "scene.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void parameter_average_take(parameter_average *a, const gs_gaussians *to) {
    if (a->samples > 0) device_gaussians_copy(to, &a->average);
    parameter_average_close(a);
}

void parameter_average_close(parameter_average *a) {
    device_gaussians_close(&a->average);
    *a = (parameter_average){0};
}

enum { SETS = 4 };
#define SETS_OF(state)                                                                                       \
    { &(state)->gaussians, &(state)->first_moment, &(state)->second_moment, &(state)->gradients }

size_t training_state_density_bytes(int64_t rows) {
    return (size_t)rows * 2 * sizeof(float);
}

// The rows first .. first + count - 1 of others, whose memory they are.
static gs_gaussians gaussians_rows(const gs_gaussians *all, int64_t first, int64_t count) {
    gs_gaussians rows = *all;
    const gs_arrays a = gs_arrays_of(all);
    rows.count = count;
    rows.mean += first * a.width[0], rows.log_scale += first * a.width[1],
        rows.quaternion += first * a.width[2];
    rows.opacity_logit += first * a.width[3], rows.sh += first * a.width[4];
    return rows;
}

static row_range rows_of_rank(const training_way *way, const ranks *group, int64_t all) {
    return way->range ? way->range(group, all) : (row_range){0, all};
}

bool training_state_open_empty(training_state *state, const training_place *place, int64_t count,
                               int sh_degree) {
    const training_way *const way = place->way ? place->way : &alone_way;
    const row_range rows = rows_of_rank(way, place->group, count);
    *state = (training_state){
        .group = place->group, .way = way, .first = rows.first, .all = count, .capacity = rows.count};
    gs_gaussians *const sets[] = SETS_OF(state);
    for (int i = 0; i < SETS; i++) *sets[i] = device_gaussians_open(state->capacity, sh_degree);
    state->density = device_allocate(training_state_density_bytes(state->capacity));
    device_clear(state->density, training_state_density_bytes(state->capacity));
    if (way->open) state->kept = way->open(place->group);
    return !way->open || state->kept;
}

bool training_state_open_on(training_state *state, const training_place *place, const gs_gaussians *host) {
    const bool done = training_state_open_empty(state, place, host->count, host->sh_degree);
    const gs_gaussians part = gaussians_rows(host, state->first, state->gaussians.count);
    state->gaussians.antialias = host->antialias;
    device_gaussians_copy(&state->gaussians, &part);
    return done;
}

void training_state_open(training_state *state, ranks *group, const gs_gaussians *host) {
    training_state_open_on(state, &(training_place){group, NULL}, host);
}

bool training_state_copy(const training_state *state, gs_gaussians *out) {
    const row_range all = {0, state->all};
    *out = device_gaussians_open(state->all, state->gaussians.sh_degree);
    out->antialias = state->gaussians.antialias;
    if (!state->way->gather) {
        device_gaussians_copy(out, &state->gaussians);
        return true;
    }
    const gs_arrays from = gs_arrays_of(&state->gaussians), to = gs_arrays_of(out);
    bool done = true;
    for (int a = 0; a < GS_ARRAYS && done; a++)
        done = state->way->gather(state, from.of[a], (int64_t)from.width[a] * (int64_t)sizeof(float), all,
                                  true, to.of[a]);
    done = done && ranks_wait(state->group, NULL);
    if (!done) device_gaussians_close(out);
    return done;
}

const void *training_state_rows(const training_state *state, const void *own, int64_t bytes, row_range rows,
                                device_buffer *block) {
    if (!state->way->gather) return (const char *)own + rows.first * bytes;
    void *const to = device_buffer_reserve(block, (size_t)(rows.count * bytes) + 1);
    return state->way->gather(state, own, bytes, rows, false, to) && ranks_wait(state->group, NULL) ? to
                                                                                                    : NULL;
}

void training_state_open_exposures(training_state *state, int64_t views) {
    const size_t bytes = (size_t)views * GS_EXPOSURE_VALUES * sizeof(float);
    state->exposures = views;
    state->exposure = device_allocate(bytes);
    device_clear(state->exposure, bytes);
}

bool training_state_open_poses(training_state *state, int64_t views, fault *why) {
    state->pose = calloc((size_t)views, sizeof *state->pose);
    if (!state->pose) return fail(why, "no memory for the poses of %lld views", (long long)views);
    state->poses = views;
    return true;
}

// Makes room on this rank for at least `count` rows, see training_state_grow; existing rows are kept.
static void reserve(training_state *state, int64_t count, int64_t most) {
    if (count <= state->capacity) return;
    const int64_t room = 2 * state->capacity < most ? 2 * state->capacity : most;
    if (count < room) count = room;
    gs_gaussians *const sets[] = SETS_OF(state);
    for (int i = 0; i < SETS; i++) {
        gs_gaussians larger = device_gaussians_open(count, sets[i]->sh_degree);
        larger.count = sets[i]->count;
        larger.antialias = sets[i]->antialias;
        device_gaussians_copy(&larger, sets[i]);
        device_gaussians_close(sets[i]);
        *sets[i] = larger;
    }
    float *density = device_allocate(training_state_density_bytes(count));
    DEVICE_CHECK(cudaMemcpy(density, state->density, training_state_density_bytes(state->gaussians.count),
                            cudaMemcpyDeviceToDevice));
    device_free(state->density);
    state->density = density;
    state->capacity = count;
}

void training_state_set_count(training_state *state, int64_t all) {
    const row_range rows = rows_of_rank(state->way, state->group, all);
    gs_gaussians *const sets[] = SETS_OF(state);
    state->first = rows.first, state->all = all;
    for (int i = 0; i < SETS; i++) sets[i]->count = rows.count;
}

void training_state_restart(training_state *state, const gs_gaussians *start) {
    reserve(state, rows_of_rank(state->way, state->group, start->count).count, 0);
    training_state_set_count(state, start->count);
    const gs_gaussians part = gaussians_rows(start, state->first, state->gaussians.count);
    device_gaussians_copy(&state->gaussians, &part);
    const size_t bytes = device_gaussians_bytes(state->capacity, part.sh_degree);
    device_clear(state->first_moment.mean, bytes);
    device_clear(state->second_moment.mean, bytes);
    device_clear(state->density, training_state_density_bytes(state->gaussians.count));
    parameter_average_close(&state->average);
    state->place.steps = 0;
}

void training_state_antialias(training_state *state, bool antialias) {
    state->gaussians.antialias = state->distillation.start.antialias = antialias;
    for (int i = 0; i < TEACHERS_MOST; i++) state->distillation.teacher[i].antialias = antialias;
}

int64_t training_state_count(const training_state *state) {
    return state->group ? state->all : state->gaussians.count;
}

bool training_state_render(const training_state *state, const shown_views *shown, size_t index, frame *f,
                           fault *why) {
    const gs_gaussians *const g = &state->gaussians;
    if (state->way && state->way->render)
        return state->way->render(state, shown, index, f) || fail(why, "%s", ranks_error(state->group));
    frame_render(f, g, g->sh_degree, &shown->views[index].camera, shown->background);
    return true;
}

bool quality_measure(const training_state *state, const shown_views *shown, const size_t *index, size_t first,
                     size_t count, quality *mean, quality *each, fault *why) {
    quality sum = {0, 0};
    frame f = {0};
    double result[3], *const on_device =
                          device_allocate(sizeof result); // loss, mean absolute difference, SSIM
    bool done = true;
    for (size_t i = 0; i < count && done; i++) {
        const size_t k = index ? index[i] : first + i;
        image picture;
        if (shown->pictures) shown->pictures->now++;
        if (!(done = training_state_render(state, shown, k, &f, why))) break;
        const target_view *const view =
            shown->pictures ? picture_cache_view(shown->pictures, k) : &shown->views[k];
        gs_loss_image of = {.images = {.target = view->pixels, .mask = view->mask}, .result = on_device};
        frame_loss(&f, &of, false);
        device_download(result, on_device, sizeof result);
        if (!(done = frame_picture(&f, &picture, why))) break;
        const double ssim =
            isnan(result[2]) ? NAN : result[2]; // of colours that overflow: NaN without a sign
        const quality one = {image_psnr(&picture, view->picture, view->mask_on_host), ssim};
        image_close(&picture);
        if (each) each[i] = one;
        sum.psnr += one.psnr, sum.ssim += one.ssim;
    }
    *mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    device_free(on_device);
    frame_close(&f);
    return done;
}

bool training_state_grow(training_state *state, int64_t count, int64_t most) {
    if (state->way->grow) return state->way->grow(state, count);
    reserve(state, count, most);
    training_state_set_count(state, count);
    return true;
}

void training_state_close(training_state *state) {
    gs_gaussians *const sets[] = SETS_OF(state);
    for (int i = 0; i < SETS; i++) device_gaussians_close(sets[i]);
    scene_close(&state->distillation.start);
    for (int i = 0; i < TEACHERS_MOST; i++) device_gaussians_close(&state->distillation.teacher[i]);
    parameter_average_close(&state->average);
    device_free(state->density);
    device_free(state->exposure);
    free(state->pose);
    if (state->kept) state->way->close(state->kept);
    *state = (training_state){0};
}

int64_t schedule_step(const run_place *place) {
    return place->before < place->at ? place->before + 1 : place->at;
}

bool place_is_possible(const run_place *place) {
    return place->before >= -1 && place->before <= place->at && place->at <= SCHEDULE_MOST &&
           place->length >= 0 && place->length <= SCHEDULE_MOST && place->progress >= 0 &&
           place->progress <= 1 && place->seconds >= 0 && place->seconds <= SCHEDULE_MOST &&
           place->ended >= 0 && place->ended <= place->views && place->first_run >= 0 &&
           place->first_run <= SCHEDULE_MOST && place->first_seconds >= 0 &&
           place->first_seconds <= place->seconds && isfinite(place->validation_loss) &&
           (place->length > 0 || place->ended > 0 || place->first_run > 0 || place->at == place->views);
}
