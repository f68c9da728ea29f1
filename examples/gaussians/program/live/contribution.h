// SPDX-License-Identifier: MIT
// Leaves out the Gaussians that a scene's pictures miss least.
#pragma once

#include "scene.h"

C_LINKAGE_BEGIN

// Keeps the `most` Gaussians that contribute most to the pictures of cameras, in their order; all, if they are no more.
// A contribution is the sum over pixels of transmittance times alpha: the part of the pixel that is the Gaussian's.
// scene: host; its memory stays as large as it was. device: the same on the device; NULL: it is copied there. camera_count
// >= 1. Renders each camera forward and backward.
bool keep_contributing(gs_gaussians *scene, const gs_gaussians *device, int64_t most,
                       const gs_camera *cameras, size_t camera_count, fault *why);

C_LINKAGE_END
