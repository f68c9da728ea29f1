// SPDX-License-Identifier: MIT
// The orbit of a flight around what the cameras of photographs look at; and a camera for a scene without photographs.
#pragma once

#include "views.h"

C_LINKAGE_BEGIN

// A circle around the point that the cameras look at, at their mean distance and height, with their mean up direction. It
// begins on the side of the first camera.
typedef struct camera_orbit {
    double focus[3], up[3];
    double center[3], axes[2][3]; // the eye is at center plus multiples of the axes
} camera_orbit;

// Reads the views' cameras alone. Fails, with the focus alone, if their directions do not determine the orbit. count >= 1.
bool camera_orbit_open(camera_orbit *orbit, const target_view *views, size_t count, fault *why);
// The cameras of the data as views, for that, for the caller to free(). NULL: *why is set.
target_view *views_of_data(const dataset *data, fault *why);
// Sets the pose of the camera on the orbit, which is closed: 0 <= t <= 1. Its lens is unchanged.
void camera_orbit_place(const camera_orbit *orbit, double t, gs_camera *camera);

// Places a camera outside the scene, which looks along `direction` (unit length, not along y) at the box between the
// 2nd and the 98th percentile of the means: trained scenes have a few Gaussians far outside. Its size and fy are read.
// Sets pose and near plane. middle: of that box; may be NULL.
bool camera_around(const gs_gaussians *scene, const double direction[3], gs_camera *camera, double middle[3],
                   fault *why);

C_LINKAGE_END
