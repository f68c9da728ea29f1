// SPDX-License-Identifier: MIT
// The depth maps of `dsplat train --depth`.
#pragma once

#include "dataset.h"
#include "views.h"

typedef struct train_depth {
    size_t maps, fitted;
    double mean_points, mean_error; // of the fitted (depth_fit.h)
} train_depth;

// Fits the map of each training view to the points that it sees, where its camera now is, and uploads it. Points of
// a COLMAP model are seen as their tracks say, if the view is in any; others as depth_samples finds. folder: of the
// maps. A map that cannot be fitted is left out; one line on stderr counts these and names the first. Fails, naming the folder, if none
// is left. The views of the split are those of the data, which must outlive it.
bool train_depth_open(train_depth *d, const dataset *data, view_split *split, const char *folder, fault *why);
