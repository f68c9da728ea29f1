// SPDX-License-Identifier: MIT
// The ray of a place in a picture, in the world and in double precision.
#ifndef TESTS_CAMERA_RAY_H
#define TESTS_CAMERA_RAY_H

#include "gpu/pinhole.h"

// The camera's place, and a direction with 1 along the viewing axis. (x, y): pixels.
static inline void camera_ray(const pinhole_camera *camera, double x, double y, double origin[3],
                              double direction[3]) {
    const double in_camera[3] = {(x - camera->center[0]) / camera->focal,
                                 (y - camera->center[1]) / camera->focal, 1};
    const double translation[3] = {camera->translation[0], camera->translation[1], camera->translation[2]};
    for (int i = 0; i < 3; i++) {
        const double column[3] = {camera->rotation[i], camera->rotation[3 + i], camera->rotation[6 + i]};
        origin[i] = -dot(column, translation);
        direction[i] = dot(column, in_camera);
    }
}

#endif
