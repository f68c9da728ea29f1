// SPDX-License-Identifier: MIT
// The Gaussians that training starts from: one at each point.
#pragma once

#include "files/fault.h"
#include "distwar_gs.h"
#include <stddef.h>

C_LINKAGE_BEGIN

typedef struct start_settings {
    int sh_degree;
    double extent;
    double opacity; // 0..1, exclusive
    double size;    // in mean distances to the three nearest neighbours
} start_settings;

// Makes a Gaussian at each point, with its colour. All axes are equal: settings->size times the mean
// distance to the three nearest points, and at least 1e-4 of the extent, as points may coincide. Closed by
// scene_close.
bool gaussians_from_points(const float (*points)[3], const uint8_t (*colors)[3], size_t count,
                           const start_settings *settings, gs_gaussians *out, fault *why);

// By a k-d tree, O(n log n) for any distribution, also with duplicates.
// distance[i]: the mean distance of point i to its three nearest other points; to all others if there are
// fewer than three; 0 if there is one point. Coordinates must be finite.
bool nearest_mean_distance(const float (*points)[3], size_t count, double *distance, fault *why);

C_LINKAGE_END
