// SPDX-License-Identifier: MIT
// The points that `dsplat train` starts from where the data has none, or where random ones are asked for.
#pragma once

#include "train_run.h"

// If run->at_random: gives run->data points, in place of its own, and clears at_random if stereo finds them. That is
// tried unless random ones are asked for or poses are to be refined, which are too far off. Before the settings, which
// depend on at_random. A resumed run gets no random points.
bool train_points_find(train_run *run, fault *why);
