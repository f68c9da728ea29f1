// SPDX-License-Identifier: MIT
#pragma once

#include "reference.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct reference_fisheye_point {
    double mean[2]; // pixels
    double jacobian[2][3];
    double second[2][3][3]; // derivatives of jacobian by the point
    double distance, angle; // radians off the axis
} reference_fisheye_point;

// A point in the camera's frame, not on its axis.
void reference_fisheye(const reference_camera *camera, const double point[3], reference_fisheye_point *out);

// The angle up to which the camera sees.
double reference_fisheye_limit(const double distortion[4]);

#ifdef __cplusplus
}
#endif
