// SPDX-License-Identifier: MIT
// Where a camera stands and what it looks at.
#ifndef SPLAT_CAMERA_H
#define SPLAT_CAMERA_H

#include "gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// In world coordinates: -rotation^T translation.
void camera_center(const gs_camera *camera, double center[3]);
// Size and focal length from a vertical field of view in radians; principal point in the middle, near plane
// 0.2.
gs_camera camera_with_view_angle(int width, int height, double angle);
// Sets rotation and translation: from `eye` towards `target` (another point), `up` (not parallel to that)
// upwards.
void camera_look_at(gs_camera *camera, const double eye[3], const double target[3], const double up[3]);

#ifdef __cplusplus
}
#endif
#endif
