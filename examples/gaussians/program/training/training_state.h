// SPDX-License-Identifier: MIT
// All that the rest of a training run depends on, beside its settings and its views: whoever has saved this
// can go on from it. Random numbers need no state: each is drawn from the seed, its purpose, the iteration
// and an index (random_at in random.h).
#ifndef SPLAT_TRAINING_STATE_H
#define SPLAT_TRAINING_STATE_H

#include "gs.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct training_state {
    int64_t iteration; // steps done
    int64_t capacity;  // rows that every array has memory for; >= gaussians.count
    // Device. All have one count and one sh_degree.
    gs_gaussians gaussians, first_moment, second_moment;
    float *density; // [count][2], since the last density step: sum of |mean2d_gradient|, views that saw it
    // Device: of each view the matrix that corrects its colours (gs_exposure) and Adam's two moments of it,
    // [exposures][3][GS_EXPOSURE_VALUES]; 0 and NULL where colours are not corrected.
    int64_t exposures;
    float *exposure;
    // Scratch, the one thing here that need not be saved: between steps nothing in it is read.
    gs_gaussians gradients;
} training_state;

// A state before the first step: the Gaussians of `host`, all else zeros.
void training_state_open(training_state *state, const gs_gaussians *host);
// Gives each of `views` views the matrix that changes nothing.
void training_state_open_exposures(training_state *state, int64_t views);
// Memory for `count` rows at least; grows by doubling and keeps the rows there are. Failures of the device
// end the program, here and in all else.
void training_state_reserve(training_state *state, int64_t count);
// Of all arrays; new rows (memory for them must be reserved) are not cleared.
void training_state_set_count(training_state *state, int64_t count);
size_t training_state_density_bytes(int64_t rows); // of `density`
void training_state_close(training_state *state);  // harmless on {0}

#ifdef __cplusplus
}
#endif
#endif
