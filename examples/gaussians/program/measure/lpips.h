// SPDX-License-Identifier: MIT
// LPIPS of a scene against pictures.
#pragma once

#include "lpips_weights.h"
#include "frames/target_view.h"

// Whether the pictures of all views are large enough; the failure names one that is not.
bool lpips_is_possible(const target_view *views, size_t count, fault *why);

// Renders each view and compares it with its picture (distwar_gs_lpips.h). gaussians: device. count >= 1;
// lpips_is_possible. each: [count]. mean: over the views. Waits for the device.
void lpips_measure(const gs_gaussians *gaussians, const target_view *views, size_t count,
                   const float background[3], const lpips_weights *weights, double *mean, double *each);
