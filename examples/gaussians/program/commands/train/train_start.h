// SPDX-License-Identifier: MIT
// The Gaussians that `dsplat train` starts from: at the data's points, or at random ones.
#pragma once

#include "train_run.h"

// How many random points the run starts from; 0: it starts from those of the data, or from a scene.
size_t train_start_random(const train_run *run);
// For scene_close.
bool train_start(const train_run *run, gs_gaussians *host, fault *why);
// At most `most`, of SH degree 0, for pose_levels; context: the run.
bool train_start_small(void *context, size_t most, gs_gaussians *host, fault *why);
