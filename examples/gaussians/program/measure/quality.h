// SPDX-License-Identifier: MIT
// The quality of a scene: PSNR and SSIM against pictures.
#pragma once

#include "frames/frame.h"
#include "frames/target_view.h"

typedef struct quality {
    double psnr; // dB, of pictures rounded to 8 bits; infinite if equal
    double ssim; // of pictures before rounding (docs/math.md, section 5)
} quality;

// Compares the image of a frame with the view's picture. device_result: 3 doubles on the device, scratch. Waits for the
// device.
bool quality_of_frame(frame *f, const target_view *view, double *device_result, quality *out, fault *why);

// Renders each view and compares it with its picture. gaussians: device. count >= 1. mean: over the views.
// each: [count], or NULL. Waits for the device.
bool quality_measure(const gs_gaussians *gaussians, const target_view *views, size_t count,
                     const float background[3], quality *mean, quality *each, fault *why);

// Renders the inverse depth of the view and compares it with the view's map: the mean absolute difference over the mean
// of the map, of the pixels that count. NaN without a map. Waits for the device.
// f: with depth; renders. device_result: a double on the device, scratch.
double depth_error_of(frame *f, const gs_gaussians *gaussians, const target_view *view,
                      double *device_result);
