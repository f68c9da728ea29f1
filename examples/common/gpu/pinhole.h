// SPDX-License-Identifier: MIT
// A pinhole camera.
#pragma once

#include "c_linkage.h"

C_LINKAGE_BEGIN

// The conventions of docs/developers/math.md, section 1.
typedef struct pinhole_camera {
    int width, height;    // pixels
    float focal;          // pixels, both ways
    float center[2];      // of the picture, in pixels; pixel (i, j) has its centre at (i + 0.5, j + 0.5)
    float rotation[9];    // world to camera, row-major; +x right, +y down, +z forward
    float translation[3]; // x' = rotation x + translation
} pinhole_camera;

// World to camera, of a camera at `eye` that looks at `target`, with `up` upwards in the picture. target
// differs from eye; up is not parallel to the view direction.
void look_at(const double eye[3], const double target[3], const double up[3], float rotation[9],
             float translation[3]);
// A camera with that pose. angle: the vertical field of view in radians.
pinhole_camera pinhole_look_at(int width, int height, double angle, const double eye[3],
                               const double target[3], const double up[3]);

C_LINKAGE_END
