// SPDX-License-Identifier: MIT
// The quality of a scene: PSNR and SSIM, and the error of its depth.
#pragma once

#include "frames/quality.h"

// Renders the inverse depth of the view and compares it with the view's map: the mean absolute difference over the mean
// of the map, of the pixels that count. NaN without a map. Waits for the device.
// f: with depth; renders. device_result: a double on the device, scratch.
double depth_error_of(frame *f, const gs_gaussians *gaussians, const target_view *view,
                      double *device_result);
