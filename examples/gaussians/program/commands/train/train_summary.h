// SPDX-License-Identifier: MIT
// What `dsplat train` prints on stdout at its end.
#pragma once

#include "train_depth.h"
#include "train_run.h"
#include "frame.h"
#include "record/run_log.h"
#include "trainer.h"
#include "views.h"

// Prints, before the first step, the data, the device and what is planned.
void train_summary_begin(const train_run *run, int ranks);
// gaussians: those written.
void train_summary_print(const train_run *run, int ranks, const gs_gaussians *gaussians);
void train_summary_print_depth(const train_depth *depth);
void train_summary_print_poses(const run_poses *poses);
