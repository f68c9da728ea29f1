// SPDX-License-Identifier: MIT
// Cameras for a flight through a scene, derived from those that photographed it. Both paths are closed.
#ifndef SPLAT_CAMERA_PATH_H
#define SPLAT_CAMERA_PATH_H

#include "fault.h"
#include "gs.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum camera_path_kind {
    // A circle around the point that the cameras look at, at their mean distance and height, upright as they
    // are on average. It begins where the first of them is.
    PATH_ORBIT,
    // For cameras that look in about one direction: two turns around the mean camera, as wide as those are
    // spread, nearer and back, towards the point that they look at.
    PATH_SPIRAL
} camera_path_kind;

typedef struct camera_path {
    camera_path_kind kind;
    double focus[3], up[3];
    double center[3], axes[3][3]; // what the eye moves around, and by
} camera_path;

// Fails if the directions of the cameras do not say where the path should be. count >= 1.
bool camera_path_open(camera_path *path, camera_path_kind kind, const gs_camera *cameras, size_t count,
                      fault *why);
// Puts the camera on the path, 0 <= t <= 1; its lens stays.
void camera_path_place(const camera_path *path, double t, gs_camera *camera);

#ifdef __cplusplus
}
#endif
#endif
