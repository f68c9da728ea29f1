// SPDX-License-Identifier: MIT
// What training starts from: a Gaussian at every point that structure from motion found.
#ifndef SPLAT_START_H
#define SPLAT_START_H

#include "fault.h"
#include "view/target_view.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Size of the scene, by which the learning rate of means is multiplied: 1.1 times the largest distance of a
// camera from the cameras' mean. 1 if all stand in one place. count >= 1.
double scene_extent(const target_view *views, size_t count);

// The SH coefficient of degree 0 that shows a colour 0..1.
double sh_constant_from_color(double color);

typedef struct start_settings {
    int sh_degree;
    double extent;
    double opacity; // 0..1, exclusive
    double size;    // in mean distances to the three nearest neighbours
} start_settings;

// Mean = point, colour = its colour, all axes equal, and at least a small part of `extent`, because points
// may coincide. Freed by gaussians_free.
bool gaussians_from_points(const float (*points)[3], const uint8_t (*colors)[3], size_t count,
                           const start_settings *settings, gs_gaussians *out, fault *why);

#ifdef __cplusplus
}
#endif
#endif
