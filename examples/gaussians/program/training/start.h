// SPDX-License-Identifier: MIT
// What training starts from: a Gaussian at every point that structure from motion found.
#ifndef SPLAT_START_H
#define SPLAT_START_H

#include "fault.h"
#include "gs.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct start_settings {
    int sh_degree;
    double extent;
    double opacity; // 0..1, exclusive
    double size;    // in mean distances to the three nearest neighbours
} start_settings;

// Mean = point, colour = its colour, all axes equal, and at least a small part of `extent`, because points
// may coincide. Freed by scene_close.
bool gaussians_from_points(const float (*points)[3], const uint8_t (*colors)[3], size_t count,
                           const start_settings *settings, gs_gaussians *out, fault *why);

#ifdef __cplusplus
}
#endif
#endif
