// SPDX-License-Identifier: MIT
// Camera paths for a flight through a scene, from the cameras of its photographs, both closed; and a camera for a
// scene without photographs.
#pragma once

#include "views.h"

C_LINKAGE_BEGIN

typedef enum camera_path_kind {
    // A circle around the point that the cameras look at, at their mean distance and height, with their
    // mean up direction. It begins on the side of the first camera.
    PATH_ORBIT,
    // For cameras with nearly one direction: two turns around the mean camera while the path goes forward
    // and back. Its radii are the standard deviations of the cameras' positions. It looks at the point that
    // they look at.
    PATH_SPIRAL
} camera_path_kind;

typedef struct camera_path {
    camera_path_kind kind;
    double focus[3], up[3];
    double center[3], axes[3][3]; // the eye is at center plus multiples of the axes
} camera_path;

// Reads the views' cameras alone. Fails if their directions do not determine the path. count >= 1.
bool camera_path_open(camera_path *path, camera_path_kind kind, const target_view *views, size_t count,
                      fault *why);
// The cameras of the data as views, for that, for the caller to free(). NULL: *why is set.
target_view *views_of_data(const dataset *data, fault *why);
// Sets the pose of the camera on the path, 0 <= t <= 1. Its lens is unchanged.
void camera_path_place(const camera_path *path, double t, gs_camera *camera);

// Places a camera outside the scene, which looks along `direction` (unit length, not along y) at the box between the
// 2nd and the 98th percentile of the means: trained scenes have a few Gaussians far outside. Its size and fy are read.
// Sets pose and near plane. middle: of that box; may be NULL.
bool camera_around(const gs_gaussians *scene, const double direction[3], gs_camera *camera, double middle[3],
                   fault *why);

C_LINKAGE_END
