// SPDX-License-Identifier: MIT
#include "training_state.h"
#include "device.h"
#include "frames/device_gaussians.h"
#include <stdlib.h>

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
           (place->steps > 0 || place->at == iteration);
}

void training_state_open(training_state *state, const gs_gaussians *host) {
    *state = (training_state){.capacity = host->count};
    gs_gaussians *sets[SETS];
    list_sets(state, sets);
    for (int i = 0; i < SETS; i++) *sets[i] = device_gaussians_open(host->count, host->sh_degree);
    state->density = device_allocate(training_state_density_bytes(host->count));
    device_clear(state->density, training_state_density_bytes(host->count));
    device_gaussians_upload(&state->gaussians, host);
}

float *training_exposures_open(int64_t views) {
    static const float start[TRAINING_EXPOSURE_FLOATS] = {[0] = 1, [5] = 1, [10] = 1};
    float *const exposure = device_allocate((size_t)views * sizeof start);
    for (int64_t i = 0; i < views; i++)
        device_upload(exposure + i * TRAINING_EXPOSURE_FLOATS, start, sizeof start);
    return exposure;
}

void training_state_open_exposures(training_state *state, int64_t views) {
    state->exposures = views;
    state->exposure = training_exposures_open(views);
}

bool training_state_open_poses(training_state *state, int64_t views, fault *why) {
    state->pose = calloc((size_t)views, sizeof *state->pose);
    if (!state->pose) return fail(why, "no memory for the poses of %lld views", (long long)views);
    state->poses = views;
    return true;
}

void training_state_reserve(training_state *state, int64_t count) {
    if (count <= state->capacity) return;
    if (count < 2 * state->capacity) count = 2 * state->capacity;
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

void training_state_set_count(training_state *state, int64_t count) {
    gs_gaussians *sets[SETS];
    list_sets(state, sets);
    for (int i = 0; i < SETS; i++) sets[i]->count = count;
}

void training_state_close(training_state *state) {
    gs_gaussians *sets[SETS];
    list_sets(state, sets);
    for (int i = 0; i < SETS; i++) device_gaussians_close(sets[i]);
    parameter_average_close(&state->average);
    device_free(state->density);
    device_free(state->exposure);
    free(state->pose);
    *state = (training_state){0};
}
