// SPDX-License-Identifier: MIT
// Distances to the nearest neighbours among points, by a k-d tree. O(n log n) for any distribution, also
// with duplicates.
#ifndef SPLAT_NEAREST_H
#define SPLAT_NEAREST_H

#include "fault.h"
#include <stddef.h>

C_LINKAGE_BEGIN

// distance[i]: the mean distance of point i to its three nearest other points; to all others if there are
// fewer than three; 0 if there is one point. Coordinates must be finite.
bool nearest_mean_distance(const float (*points)[3], size_t count, double *distance, fault *why);

C_LINKAGE_END
#endif
