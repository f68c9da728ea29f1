// SPDX-License-Identifier: MIT
// How close a scene comes to pictures.
#ifndef SPLAT_QUALITY_H
#define SPLAT_QUALITY_H

#include "view/target_view.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quality {
    double psnr; // dB, of pictures rounded to 8 bits; infinite if equal
    double ssim; // of the pictures before rounding, docs/math.md section 5
} quality;

// count >= 1; gaussians: device. mean: over the views. each: [count], or NULL.
bool quality_measure(const gs_gaussians *gaussians, const target_view *views, size_t count,
                     const float background[3], quality *mean, quality *each, fault *why);

#ifdef __cplusplus
}
#endif
#endif
