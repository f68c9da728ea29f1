// SPDX-License-Identifier: MIT
// When density control acts, and how its outcome reaches the training state: see gs.h for what it does.
#ifndef SPLAT_DENSITY_CONTROL_H
#define SPLAT_DENSITY_CONTROL_H

#include "device_buffer.h"
#include "view/frame.h"
#include "training/training_state.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum density_kind {
    DENSITY_NONE,     // the Gaussians stay as many as they are
    DENSITY_ADAPTIVE, // clone, split, prune by the screen-space gradient (Kerbl et al. 2023)
    DENSITY_MCMC      // relocation and noise (Kheradmand et al. 2024)
} density_kind;

typedef struct density_settings {
    density_kind kind;
    int64_t from, until, every;  // acts after steps that `every` divides, from < step < until
    int64_t most_gaussians;      // 0: no limit; more than that at the start stay
    double extent;               // of the scene, world units
    float least_opacity;         // less opaque: pruned, or dead
    float gradient_threshold;    // adaptive, from here on; see gs_density_rules
    float split_size, most_size; // in extents; most_size counts after the first reset only
    float split_factor;
    int64_t reset_every; // steps, below `until`; 0: never
    float reset_opacity;
    // MCMC, from here on: of the number, a step of density control; more where most_gaussians would else not
    // be reached half-way between `from` and `until`.
    float growth;
    float noise; // times the means' learning rate
    float opacity_weight,
        scale_weight; // in steps before `until`: they are there to free Gaussians to relocate
} density_settings;

typedef struct density_control {
    device_buffer workspace;
} density_control; // starts as {0}

// Between the backward pass and Adam.
void density_before_adam(const density_settings *settings, training_state *state);
// After Adam, when state->iteration counts the step already; f: the step's frame, back through the
// projection.
void density_after_adam(density_control *control, const density_settings *settings, uint64_t seed,
                        float mean_rate, const frame *f, training_state *state);
void density_control_close(density_control *control);

#ifdef __cplusplus
}
#endif
#endif
