// SPDX-License-Identifier: MIT
#include "sharded_state.h"
#include "arrays.h"
#include "device.h"
#include "training_state.h"
#include "frames/device_gaussians.h"
#include <string.h>

static gs_shared_vectors open_vectors(int64_t count, int sh_degree, int antialias) {
    gs_shared_vectors out = {device_gaussians_open(count, sh_degree), device_gaussians_open(count, sh_degree),
                             device_gaussians_open(count, sh_degree)};
    out.gaussians.antialias = antialias;
    return out;
}

static void close_vectors(gs_shared_vectors *vectors) {
    device_gaussians_close(&vectors->gaussians);
    device_gaussians_close(&vectors->first_moment);
    device_gaussians_close(&vectors->second_moment);
}

static float *open_density(int64_t count) {
    float *const density = device_allocate(training_state_density_bytes(count));
    device_clear(density, training_state_density_bytes(count));
    return density;
}

int64_t sharded_state_count(const sharded_state *state, const ranks *group) {
    return state->begin[ranks_count(group)];
}

int64_t sharded_state_first(const sharded_state *state, const ranks *group) {
    return state->begin[ranks_own(group)];
}

void sharded_state_open_empty(sharded_state *state, const ranks *group, int64_t count, int sh_degree) {
    const int own = ranks_own(group);
    *state = (sharded_state){0};
    shard_begin(group, count, state->begin);
    const int64_t rows = state->begin[own + 1] - state->begin[own];
    state->own = open_vectors(rows, sh_degree, 0);
    state->gradients = device_gaussians_open(rows, sh_degree);
    state->density = open_density(rows);
}

void sharded_state_open(sharded_state *state, const ranks *group, const gs_gaussians *host) {
    sharded_state_open_empty(state, group, host->count, host->sh_degree);
    const int64_t first = sharded_state_first(state, group);
    gs_gaussians part = *host;
    part.count = state->own.gaussians.count;
    const gs_arrays a = gs_arrays_of(host);
    part.mean += first * a.width[0], part.log_scale += first * a.width[1],
        part.quaternion += first * a.width[2];
    part.opacity_logit += first * a.width[3], part.sh += first * a.width[4];
    device_gaussians_upload(&state->own.gaussians, &part);
}

void sharded_state_open_exposures(sharded_state *state, int64_t views) {
    state->exposures = views;
    state->exposure = training_exposures_open(views);
}

void sharded_state_close(sharded_state *state) {
    close_vectors(&state->own);
    parameter_average_close(&state->average);
    device_gaussians_close(&state->gradients);
    device_free(state->density);
    device_free(state->exposure);
    *state = (sharded_state){0};
}

bool sharded_state_rebalance(sharded_state *state, ranks *group, int64_t wanted) {
    const int own = ranks_own(group);
    const gs_gaussians *const now = &state->own.gaussians;
    int64_t begin[RANKS_MAX + 1];
    shard_begin(group, wanted, begin);
    const size_t bytes = (size_t)(ranks_count(group) + 1) * sizeof *begin;
    if (memcmp(begin, state->begin, bytes) == 0) return true;
    const int64_t count = begin[own + 1] - begin[own];
    device_gaussians_close(&state->gradients); // first: the most memory is needed here
    const shard_move move = {.from_begin = state->begin,
                             .to_begin = begin,
                             .from = state->own,
                             .to = open_vectors(count, now->sh_degree, now->antialias),
                             .from_density = state->density,
                             .to_density = open_density(count)};
    const bool moved = shard_rebalance(group, &move, NULL) && ranks_wait(group, NULL);
    close_vectors(&state->own);
    device_free(state->density);
    state->own = move.to;
    state->density = move.to_density;
    state->gradients = device_gaussians_open(count, move.to.gaussians.sh_degree);
    memcpy(state->begin, begin, bytes);
    return moved;
}
