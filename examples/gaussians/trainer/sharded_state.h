// SPDX-License-Identifier: MIT
// What training on several ranks depends on: each rank has neighbouring Gaussians (sharded.h), with all that belongs to
// them. As training_state is without ranks.
#pragma once

#include "ranks.h"
#include "sharded_density.h"
#include "parameter_average.h"

C_LINKAGE_BEGIN

// What a rank has.
typedef struct sharded_state {
    int64_t iteration;            // views seen by all ranks together
    int64_t steps;                // of Adam
    int64_t begin[RANKS_MAX + 1]; // where each rank's Gaussians begin among all, and their number
    gs_shared_vectors own;
    parameter_average average; // of own.gaussians
    float *density;            // device, [own count][2]: see training_state.density
    // Device: see training_state.exposure; the same on all ranks. 0 and NULL if colours are not corrected.
    int64_t exposures;
    float *exposure;
    gs_gaussians gradients; // scratch
} sharded_state;            // starts as {0}

// Failures of the device end the program, in all functions here.

// The state before the first step. host: all Gaussians; the same on all ranks.
void sharded_state_open(sharded_state *state, const ranks *group, const gs_gaussians *host);
// Room for `count` Gaussians of all ranks together, zeros.
void sharded_state_open_empty(sharded_state *state, const ranks *group, int64_t count, int sh_degree);
// Gives each of `views` views the identity as its matrix.
void sharded_state_open_exposures(sharded_state *state, int64_t views);
void sharded_state_close(sharded_state *state);

int64_t sharded_state_count(const sharded_state *state, const ranks *group); // Gaussians of all ranks
int64_t sharded_state_first(const sharded_state *state,
                            const ranks *group); // the place of this rank's first one

// A collective: shares the rows out equally among the ranks, with room for new ones at the end: `wanted` in all, at
// least those that there are. Cost: for its time the memory of three vectors more, if the shares change.
bool sharded_state_rebalance(sharded_state *state, ranks *group, int64_t wanted);

C_LINKAGE_END
