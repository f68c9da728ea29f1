// SPDX-License-Identifier: MIT
// Cameras for scenes without photographs.
#pragma once

#include "distwar_gs.h"
#include "files/fault.h"

C_LINKAGE_BEGIN

// Places a camera outside the scene, which looks along `direction` (unit length, not along y) at the box between the
// 2nd and the 98th percentile of the means: trained scenes have a few Gaussians far outside. Its size and fy are read.
// Sets pose and near plane. middle: of that box; may be NULL.
bool camera_around(const gs_gaussians *scene, const double direction[3], gs_camera *camera, double middle[3],
                   fault *why);

C_LINKAGE_END
