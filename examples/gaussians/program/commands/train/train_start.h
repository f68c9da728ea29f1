// SPDX-License-Identifier: MIT
// The Gaussians that `dsplat train` starts from: at the data's points, or those of train_points.h.
#pragma once

#include "train_run.h"

// Makes all of them; the caller closes them by scene_close.
bool train_start(const train_run *run, gs_gaussians *host, fault *why);
// Makes at most `most`, of SH degree 0, for pose_levels; context: the run.
bool train_start_small(void *context, size_t most, gs_gaussians *host, fault *why);
