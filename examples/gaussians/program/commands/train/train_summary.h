// SPDX-License-Identifier: MIT
// What `dsplat train` prints on stdout at its end.
#pragma once

#include "train_depth.h"
#include "train_options.h"
#include "measure/quality.h"
#include "record/run_log.h"
#include "trainer.h"
#include "frames/target_view.h"

// gaussians: those written. held_out: the quality of the held-out views; NULL: not measured.
void train_summary_print(const train_options *options, const view_split *split, const gs_gaussians *gaussians,
                         const training_report *report, const quality *held_out);
void train_summary_print_depth(const train_depth *depth);
void train_summary_print_poses(const run_poses *poses);
