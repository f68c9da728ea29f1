// SPDX-License-Identifier: MIT
// The position and direction of a camera.
#ifndef SPLAT_CAMERA_H
#define SPLAT_CAMERA_H

#include "c_linkage.h"
#include "gs.h"

C_LINKAGE_BEGIN

// The camera's position in the world: -rotation^T translation.
void camera_center(const gs_camera *camera, double center[3]);
// A camera with a vertical field of view in radians, the principal point in the middle, near plane 0.2, no
// pose.
gs_camera camera_with_view_angle(int width, int height, double angle);
// Sets the pose: at `eye`, looking at `target` (another point), with `up` (not parallel to the view) upwards.
void camera_look_at(gs_camera *camera, const double eye[3], const double target[3], const double up[3]);

C_LINKAGE_END
#endif
