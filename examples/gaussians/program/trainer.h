// SPDX-License-Identifier: MIT
// The training loop: one random view a step, forward, loss, backward, Adam. Knows nothing of files.
#ifndef SPLAT_TRAINER_H
#define SPLAT_TRAINER_H

#include "reduction_choice.h"
#include "stage_clock.h"
#include "target_view.h"

typedef struct training_settings {
    int64_t iterations;     // >= 1; learning rates follow it
    double seconds;         // stop after the step during which so many have passed; 0: never
    uint64_t seed;          // of the order of the views
    gs_reduction reduction; // GS_REDUCTIONS: chosen while training runs, see reduction_choice.h
    int threshold;          // 0..33, gs_render_backward's balance_threshold
    float background[3];
    gs_adam_rates rates;   // rates.mean at the first step, in world units
    float final_mean_rate; // at the last step; exponential between
    int sh_interval; // steps before the SH degree in use rises by one; 0: all degrees from the first step on
} training_settings;

typedef struct training_report {
    int64_t iterations;  // done
    int64_t loss_window; // steps in each of the two means below: min(100, iterations / 10 + 1)
    double first_loss, last_loss;
    double seconds;
    stage_clock clock; // sums of GPU time; closed
    reduction_report reduction;
} training_report;

// Trains gaussians (device) in place on view_count >= 1 views. Fails if the loss stops being finite.
bool train(const gs_gaussians *gaussians, const target_view *views, size_t view_count,
           const training_settings *settings, training_report *report, fault *why);

#endif
