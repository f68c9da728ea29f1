// SPDX-License-Identifier: MIT
// The points that `dsplat train` starts from where the data has none, or where random ones are asked for.
#pragma once

#include "train_run.h"

// If run->at_random: gives run->data points, in place of its own, and clears at_random if stereo finds them. Stereo is
// tried unless random points are asked for or poses, too far off for it, are to be refined. Called before the settings,
// which depend on at_random. A resumed run gets no random points.
bool train_points_find(train_run *run, fault *why);
