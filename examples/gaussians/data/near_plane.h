// SPDX-License-Identifier: MIT
// Near planes for photographs whose unit of length is not known.
#pragma once

#include "c_linkage.h"
#include "distwar_gs.h"
#include <stddef.h>

C_LINKAGE_BEGIN

// A near plane for `count` cameras, `stride` bytes apart: half the distance from a camera to the next one, in the median,
// as photographs that overlap stand closer to each other than to what they show. At most a 30th of the largest distance
// of a camera from the mean of all: Gaussians nearer than that are mostly errors. At least a 100,000th of it; 0.01 if all
// are in one place. Of many cameras about 500 are asked. Only poses are read.
float near_plane_of(const gs_camera *cameras, size_t stride, size_t count);

C_LINKAGE_END
