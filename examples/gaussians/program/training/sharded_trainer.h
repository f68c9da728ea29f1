// SPDX-License-Identifier: MIT
// The training loop on several ranks: a batch of views a step, Gaussians shared out among the ranks (sharded.h). The
// number of ranks does not change the result if the policy is DISTWAR_FIXED.
#pragma once

#include "ranks.h"
#include "sharded_density.h"
#include "training/trainer.h"

C_LINKAGE_BEGIN

// What a rank has.
typedef struct sharded_state {
    int64_t iteration;            // views seen by all ranks together
    int64_t steps;                // of Adam
    int64_t begin[RANKS_MAX + 1]; // where each rank's Gaussians begin among all, and their number
    gs_shared_vectors own;
    parameter_average average; // of own.gaussians
    gs_gaussians gradients;    // scratch
} sharded_state;

// host: all Gaussians; the same on all ranks. Failures of the device end the program.
void sharded_state_open(sharded_state *state, const ranks *group, const gs_gaussians *host);
void sharded_state_close(sharded_state *state);
// On rank 0 *host becomes all Gaussians, one rank's array after another's; elsewhere nothing. Closed by scene_close.
bool sharded_state_gather(const sharded_state *state, ranks *group, gs_gaussians *host);

typedef struct sharded_settings {
    const target_view *views; // the same on all ranks
    size_t view_count;
    const training_settings *training; // iterations count views; density: DENSITY_NONE or DENSITY_MCMC
    int64_t batch; // views a step, 1..GS_MAX_VIEWS; with more than 1 all views have one size
} sharded_settings;

// A step on B views has sqrt(B) times the learning rates, and the sum of the views' gradients. *loss: the mean over the
// views of the last step.
bool sharded_train(sharded_state *state, ranks *group, const sharded_settings *settings, double *loss);

C_LINKAGE_END
