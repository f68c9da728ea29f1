// SPDX-License-Identifier: MIT
#include "state/training_state.h"
#include "arrays.h"
#include "device.h"
#include "frames/device_gaussians.h"
#include "scene.h"
#include <stdlib.h>
#include <string.h>

enum { SETS = 4 };

static void list_sets(training_state *state, gs_gaussians *sets[SETS]) {
    sets[0] = &state->gaussians;
    sets[1] = &state->first_moment;
    sets[2] = &state->second_moment;
    sets[3] = &state->gradients;
}

size_t training_state_density_bytes(int64_t rows) {
    return (size_t)rows * 2 * sizeof(float);
}

bool schedule_place_is_possible(const schedule_place *place, int64_t iteration) {
    return place->before >= -1 && place->before <= place->at && place->at <= SCHEDULE_MOST &&
           place->steps >= 0 && place->steps <= SCHEDULE_MOST && place->progress >= 0 &&
           place->progress <= 1 && place->seconds >= 0 && place->seconds <= SCHEDULE_MOST &&
           place->ended >= 0 && place->ended <= iteration &&
           (place->steps > 0 || place->ended > 0 || place->at == iteration);
}

static float *open_density(int64_t count) {
    float *const density = device_allocate(training_state_density_bytes(count));
    device_clear(density, training_state_density_bytes(count));
    return density;
}

void training_state_open_empty(training_state *state, ranks *group, int64_t count, int sh_degree) {
    const int own = ranks_own(group);
    *state = (training_state){.group = group};
    shard_begin(group, count, state->begin);
    state->capacity = state->begin[own + 1] - state->begin[own];
    gs_gaussians *sets[SETS];
    list_sets(state, sets);
    for (int i = 0; i < SETS; i++) *sets[i] = device_gaussians_open(state->capacity, sh_degree);
    state->density = open_density(state->capacity);
}

void training_state_open(training_state *state, ranks *group, const gs_gaussians *host) {
    training_state_open_empty(state, group, host->count, host->sh_degree);
    const gs_gaussians part = gaussians_rows(host, training_state_first(state), state->gaussians.count);
    device_gaussians_upload(&state->gaussians, &part);
}

bool training_state_copy(const training_state *state, gs_gaussians *out) {
    *out = device_gaussians_open(training_state_count(state), state->gaussians.sh_degree);
    out->antialias = state->gaussians.antialias;
    const gs_arrays from = gs_arrays_of(&state->gaussians), to = gs_arrays_of(out);
    bool done = true;
    for (int a = 0; a < GS_ARRAYS && done; a++)
        done = shard_gather(state->group, state->begin, (int64_t)from.width[a] * (int64_t)sizeof(float),
                            from.of[a], to.of[a], NULL);
    done = done && ranks_wait(state->group, NULL);
    if (!done) device_gaussians_close(out);
    return done;
}

static void clear(const gs_gaussians *gaussians) {
    const gs_arrays a = gs_arrays_of(gaussians);
    for (int i = 0; i < GS_ARRAYS; i++)
        device_clear(a.of[i], (size_t)gaussians->count * (size_t)a.width[i] * sizeof(float));
}

void training_state_open_exposures(training_state *state, int64_t views) {
    const size_t bytes = (size_t)views * GS_EXPOSURE_VALUES * sizeof(float);
    state->exposures = views;
    state->exposure = device_allocate(bytes);
    device_clear(state->exposure, bytes);
}

void training_state_close_exposures(training_state *state) {
    device_free(state->exposure);
    state->exposure = NULL;
    state->exposures = 0;
}

bool training_state_open_poses(training_state *state, int64_t views, fault *why) {
    state->pose = calloc((size_t)views, sizeof *state->pose);
    if (!state->pose) return fail(why, "no memory for the poses of %lld views", (long long)views);
    state->poses = views;
    return true;
}

void training_state_reserve(training_state *state, int64_t count, int64_t most) {
    if (count <= state->capacity) return;
    const int64_t room = 2 * state->capacity < most ? 2 * state->capacity : most;
    if (count < room) count = room;
    gs_gaussians *sets[SETS];
    list_sets(state, sets);
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

static void set_counts(training_state *state, int64_t count) {
    gs_gaussians *sets[SETS];
    list_sets(state, sets);
    for (int i = 0; i < SETS; i++) sets[i]->count = count;
}

void training_state_set_begin(training_state *state, const int64_t *begin) {
    const int own = ranks_own(state->group);
    memcpy(state->begin, begin, (size_t)(ranks_count(state->group) + 1) * sizeof *begin);
    set_counts(state, begin[own + 1] - begin[own]);
}

void training_state_restart(training_state *state, const gs_gaussians *start) {
    int64_t begin[RANKS_MAX + 1];
    shard_begin(state->group, start->count, begin);
    const int own = ranks_own(state->group);
    training_state_reserve(state, begin[own + 1] - begin[own], 0);
    training_state_set_begin(state, begin);
    const gs_gaussians part = gaussians_rows(start, begin[own], state->gaussians.count);
    device_gaussians_copy(&state->gaussians, &part);
    clear(&state->first_moment);
    clear(&state->second_moment);
    device_clear(state->density, training_state_density_bytes(state->gaussians.count));
    parameter_average_close(&state->average);
    state->steps = 0;
}

void training_state_antialias(training_state *state, bool antialias) {
    state->gaussians.antialias = state->lessons.start.antialias = antialias;
    for (int i = 0; i < TEACHERS_MOST; i++) state->lessons.teacher[i].antialias = antialias;
}

int64_t training_state_count(const training_state *state) {
    return state->group ? state->begin[ranks_count(state->group)] : state->gaussians.count;
}

int64_t training_state_first(const training_state *state) {
    return state->group ? state->begin[ranks_own(state->group)] : 0;
}

gs_shared_vectors training_state_vectors(const training_state *state) {
    return (gs_shared_vectors){state->gaussians, state->first_moment, state->second_moment};
}

static gs_shared_vectors open_vectors(int64_t count, const gs_gaussians *like) {
    gs_shared_vectors out = {device_gaussians_open(count, like->sh_degree),
                             device_gaussians_open(count, like->sh_degree),
                             device_gaussians_open(count, like->sh_degree)};
    out.gaussians.antialias = like->antialias;
    return out;
}

// Shares the rows out equally among several ranks.
static bool rebalance(training_state *state, int64_t wanted) {
    const int own = ranks_own(state->group);
    int64_t begin[RANKS_MAX + 1];
    shard_begin(state->group, wanted, begin);
    const size_t bytes = (size_t)(ranks_count(state->group) + 1) * sizeof *begin;
    if (memcmp(begin, state->begin, bytes) == 0) return true;
    const int64_t count = begin[own + 1] - begin[own];
    device_gaussians_close(&state->gradients); // first: the most memory is needed here
    gs_shared_vectors from = training_state_vectors(state);
    const shard_move move = {.from_begin = state->begin,
                             .to_begin = begin,
                             .from = from,
                             .to = open_vectors(count, &state->gaussians),
                             .from_density = state->density,
                             .to_density = open_density(count)};
    const bool moved = shard_rebalance(state->group, &move, NULL) && ranks_wait(state->group, NULL);
    device_gaussians_close(&from.gaussians);
    device_gaussians_close(&from.first_moment);
    device_gaussians_close(&from.second_moment);
    device_free(state->density);
    state->gaussians = move.to.gaussians;
    state->first_moment = move.to.first_moment;
    state->second_moment = move.to.second_moment;
    state->density = move.to_density;
    state->gradients = device_gaussians_open(count, state->gaussians.sh_degree);
    state->capacity = count;
    memcpy(state->begin, begin, bytes);
    return moved;
}

bool training_state_grow(training_state *state, int64_t count, int64_t most) {
    if (ranks_count(state->group) > 1) return rebalance(state, count);
    training_state_reserve(state, count, most);
    training_state_set_begin(state, (const int64_t[]){0, count});
    return true;
}

void training_state_close(training_state *state) {
    gs_gaussians *sets[SETS];
    list_sets(state, sets);
    for (int i = 0; i < SETS; i++) device_gaussians_close(sets[i]);
    scene_close(&state->lessons.start);
    for (int i = 0; i < TEACHERS_MOST; i++) device_gaussians_close(&state->lessons.teacher[i]);
    parameter_average_close(&state->average);
    device_free(state->density);
    device_free(state->exposure);
    free(state->pose);
    *state = (training_state){0};
}
