// SPDX-License-Identifier: MIT
// Finishes training by a few steps of Levenberg and Marquardt's method (docs/developers/math.md, section 8). The
// number of Gaussians stays.
#pragma once

#include "c_linkage.h"
#include "view.h"
#include "cli/command_line.h"

C_LINKAGE_BEGIN

// Types are those of options; an int is the index of a choice.
typedef struct lm_settings {
    int64_t steps, pcg_iterations; // >= 1
    int objective;                 // gs_lm_objective
    int centre_only;               // of lm_scene
    int form;                      // lm_form
    int start_preconditioned;      // conjugate gradients start at P right, as in the paper, not at 0
    int diagonal_only;      // preconditions with the diagonal, as in the paper, not with gs_lm_precondition
    int64_t batch, batches; // most images that are solved for together, and most such batches of a step; >= 1
    int strided;            // a batch is every n-th image, not random images
    double memory;          // most GiB on the device, which may make batches smaller; 0: no limit
    double search_share;    // of the step's images, for the line search; in (0, 1]
    double epsilon;         // of gs_lm_gauss_newton_metric and gs_lm_weights
    double unit_weight;     // of gs_lm_add_units; 0: not called
    double radius;          // of gs_lm_limit; 0: no limit
    double damping;         // at first
    double least_damping, most_damping; // of later steps; the range is widened to hold the first
    int by_length;                      // a kept step divides the damping by 2 gamma (in 1/8..4), not by 2
    double least_gain;                  // a step whose gain ratio is smaller is undone; not an option
    bool published;                     // lm_settings_published was the start
    distwar_policy policy;              // atomic, serial, bfly or tree
    uint64_t seed;
    float background[GS_CHANNELS];
} lm_settings;

lm_settings lm_settings_default(void);
// The settings of 3DGS-LM (Hoellein et al. 2024) with damping by units added; math.md lists the other differences.
lm_settings lm_settings_published(void);
// Adds the rows of the settings that are options.
void lm_options_list(lm_settings *settings, option_table *table);
// Fails if options exclude each other.
bool lm_settings_check(const lm_settings *settings, fault *why);

// The objective is loss + epsilon, the mean over this step's images.
typedef struct lm_step {
    int64_t step; // 1, 2, ...
    int64_t images, batches;
    double before, after; // the objective; after: at the end of the line search, also if the step is undone
    double gamma, damping, gain;
    bool kept;
    double seconds;                // since the first step began, without the time of the observer
    size_t bytes;                  // most bytes on the device so far
    double milliseconds[LM_PARTS]; // sums so far; zeros on the CPU
} lm_step;

// Changes the values of gaussians (device, not antialiased) to fit view_count >= 1 views. observe: called after every step; it
// may read the Gaussians, and false ends finish_lm as a failure. Fails if the objective is not finite at the start, or if the
// memory allowed has no room for one view.
bool finish_lm(const gs_gaussians *gaussians, const target_view *views, size_t view_count,
               const lm_settings *settings, bool (*observe)(void *context, const lm_step *step, fault *why),
               void *context, fault *why);

C_LINKAGE_END
