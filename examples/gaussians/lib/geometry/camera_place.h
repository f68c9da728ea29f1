// SPDX-License-Identifier: MIT
// Where cameras are, on the host.
#pragma once

#include "distwar_gs.h"
#include <math.h>

// The camera's position in the world: -rotation^T translation.
static inline void camera_center(const gs_camera *camera, double center[3]) {
    for (int axis = 0; axis < 3; axis++) {
        center[axis] = 0;
        for (int row = 0; row < 3; row++)
            center[axis] -= (double)camera->rotation[3 * row + axis] * (double)camera->translation[row];
    }
}

// The distance of their positions.
static inline double camera_separation(const gs_camera *a, const gs_camera *b) {
    double p[3], q[3];
    camera_center(a, p);
    camera_center(b, q);
    return hypot(hypot(p[0] - q[0], p[1] - q[1]), p[2] - q[2]);
}
