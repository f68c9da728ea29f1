// SPDX-License-Identifier: MIT
// The quality of a scene: PSNR and SSIM, and the error of its depth.
#pragma once

#include "frames/quality.h"

// Renders the inverse depth of each view that has a map of it, and compares both: the mean absolute difference
// over the mean of the map, of the pixels that count. mean: over these views. each: [count], NaN without a map.
// False: no view has a map. Waits for the device.
bool depth_error_measure(const gs_gaussians *gaussians, const target_view *views, size_t count, double *mean,
                         double *each);
