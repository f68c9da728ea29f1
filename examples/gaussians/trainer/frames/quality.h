// SPDX-License-Identifier: MIT
// The quality of a scene: PSNR and SSIM against pictures.
#pragma once

#include "frames/frame.h"
#include "frames/target_view.h"

C_LINKAGE_BEGIN

typedef struct quality {
    double psnr; // dB, of pictures rounded to 8 bits; infinite if equal
    double ssim; // of pictures before rounding (docs/developers/math.md, section 5)
} quality;

// Compares the image of a frame with the view's picture. device_result: 3 doubles on the device, scratch. Waits for the
// device.
bool quality_of_frame(frame *f, const target_view *view, double *device_result, quality *out, fault *why);

// Renders each view and compares it with its picture. gaussians: device. count >= 1. mean: over the views.
// each: [count], or NULL. Waits for the device.
bool quality_measure(const gs_gaussians *gaussians, const target_view *views, size_t count,
                     const float background[3], quality *mean, quality *each, fault *why);

C_LINKAGE_END
