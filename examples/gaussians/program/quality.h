// SPDX-License-Identifier: MIT
// How close a scene comes to pictures.
#ifndef SPLAT_QUALITY_H
#define SPLAT_QUALITY_H

#include "target_view.h"
#include <stddef.h>

typedef struct quality {
    double psnr; // dB, of pictures rounded to 8 bits; mean over the views
    double ssim; // of the pictures before rounding, docs/math.md section 5; mean over the views
} quality;

// count >= 1; gaussians: device.
bool quality_measure(const gs_gaussians *gaussians, const target_view *views, size_t count,
                     const float background[3], quality *out, fault *why);

#endif
