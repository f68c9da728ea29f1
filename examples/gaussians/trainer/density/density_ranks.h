// SPDX-License-Identifier: MIT
// Density control on several ranks: when it acts, as density_control.h and its methods say, with the collectives of
// sharded_density.h. The result has the same bits on any number of ranks.
#pragma once

#include "sharded.h"
#include "density_control.h"
#include "sharded_state.h"

C_LINKAGE_BEGIN

typedef struct density_ranks {
    shard_workspace workspace;
    device_buffer mean2d;
} density_ranks; // starts as {0}

// A step on several views.
typedef struct density_ranks_step {
    const density_settings *settings;
    uint64_t seed;
    float mean_rate; // the learning rate of means in this step
    int64_t views;   // of the step; state->iteration counts them already
    sharded_state *state;
    const sharded *shared; // after sharded_backward
} density_ranks_step;

// Whether the method works on ranks.
bool density_ranks_has(int kind);
// Where sharded_backward writes the absolute screen-space gradients; NULL if the method reads none.
float *density_ranks_mean2d(density_ranks *d, const density_settings *settings, int64_t views,
                            const sharded_state *state);
// Between the backward pass and Adam, when state->iteration does not count the step.
bool density_ranks_before_adam(const density_settings *settings, ranks *group, int64_t views,
                               const sharded_state *state);
bool density_ranks_after_adam(density_ranks *d, ranks *group, const density_ranks_step *step);
void density_ranks_close(density_ranks *d);

C_LINKAGE_END
