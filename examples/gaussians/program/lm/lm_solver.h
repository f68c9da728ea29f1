// SPDX-License-Identifier: MIT
// Finishes training by a handful of steps of Levenberg and Marquardt's method (docs/math.md, section 8). The
// number of Gaussians stays.
#ifndef SPLAT_FINISH_LM_H
#define SPLAT_FINISH_LM_H

#include "lm/lm_view.h"

typedef struct lm_settings {
    int64_t steps, pcg_iterations; // >= 1
    bool diagonal_only;     // preconditions conjugate gradients, as in the paper, not gs_lm_precondition
    int64_t batch, batches; // images a subset, at most, and subsets a step; >= 1
    bool strided;           // subsets are every so-manieth image instead of random ones
    lm_form form;
    size_t memory; // bytes on the device that all this may take; 0: what it takes. Decides subsets' sizes too
    gs_lm_objective objective;
    bool centre_only;  // of lm_scene
    float epsilon;     // of gs_lm_weights
    float unit_weight; // of gs_lm_add_units: what the damping adds to diag(J^T J); 0: nothing
    float radius;      // of gs_lm_limit; 0: no limit
    double damping, least_damping, most_damping;
    bool by_length;         // a kept step divides the damping by 2 gamma (1/4 to 8 times) instead of by 2
    double least_gain;      // a step that gains less of what the model promised is undone
    gs_reduction reduction; // atomic, serial, bfly or tree
    int threshold;
    uint64_t seed;
    float background[3];
} lm_settings;

// The objective is the mean over values, for GS_LM_L1_SSIM loss + epsilon, over this step's images.
typedef struct lm_step {
    int64_t step; // 1, 2, ...
    int64_t images, subsets;
    double before, after; // of the objective; after: at the end of the search, even where that was undone
    double gamma, damping, gain;
    bool kept;
    double seconds;             // since the first step began, without the observer's
    size_t bytes;               // on the device, at most so far
    const double *milliseconds; // [LM_PARTS], sums so far; zeros on the CPU
} lm_step;

typedef struct lm_observer {
    // Called after every step; the Gaussians may be read. False ends it all as a failure.
    bool (*observe)(void *context, const lm_step *step, fault *why);
    void *context;
} lm_observer;

// Changes the values of gaussians (device, not antialiased) to fit view_count >= 1 views. observer may be
// NULL. Fails if not even one view fits into the memory, or if the objective is not finite at the start.
bool finish_lm(const gs_gaussians *gaussians, const target_view *views, size_t view_count,
               const lm_settings *settings, const lm_observer *observer, fault *why);

#endif
