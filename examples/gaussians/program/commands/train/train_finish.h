// SPDX-License-Identifier: MIT
// How dsplat train ends: steps of Levenberg-Marquardt, as many as are wanted, as pay, or as there is time for.
#pragma once

#include "train_options.h"
#include "measure/quality.h"
#include "trainer.h"
#include "frames/target_view.h"

C_LINKAGE_BEGIN

typedef struct train_finish_plan {
    const train_options *options;
    target_view *views;  // [count], the spared ones last
    target_view *copies; // of the split's, if some are spared; NULL: views are the split's
    size_t count;
    size_t spared;    // views that decide; 0: none do
    int64_t steps;    // at most; 0: none, or no time for one
    double budget;    // seconds that the steps may take; 0: no limit
    quality reached;  // of the spared views, by the steps that are kept
    double threshold; // dB, of train_finish_decide
    double took;      // seconds of the longest step
} train_finish_plan;

// The number of views that decide under --finish auto: one in 16, evenly spread. 0 if there are fewer than 64; then no
// step is taken.
size_t train_finish_spared(size_t views);

// After the views have their cameras and their depth. Closed also after a failure.
bool train_finish_open(train_finish_plan *plan, const train_options *options, const view_split *split,
                       fault *why);
void train_finish_close(train_finish_plan *plan);

// Under a budget that is worth `steps` steps of training: how many steps of Levenberg-Marquardt have time in it. Sets
// plan->steps; returns their time in times of a step of training.
double train_finish_reserve(train_finish_plan *plan, double steps);

// Takes the steps. gaussians: device. observer: its `decide` is set here. A lack of memory for --finish auto is said on
// stderr, and the Gaussians stay as they are.
bool train_finish_run(train_finish_plan *plan, const gs_gaussians *gaussians, const lm_settings *settings,
                      const lm_observer *observer, fault *why);

C_LINKAGE_END
