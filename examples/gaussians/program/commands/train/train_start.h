// SPDX-License-Identifier: MIT
// The Gaussians that `dsplat train` starts from: at the data's points, or those of train_points.h.
#pragma once

#include "train_run.h"

// For scene_close.
bool train_start(const train_run *run, gs_gaussians *host, fault *why);
// At most `most`, of SH degree 0, for pose_levels; context: the run.
bool train_start_small(void *context, size_t most, gs_gaussians *host, fault *why);
