// SPDX-License-Identifier: MIT
// Moves, turns and scales Gaussians.
#pragma once

#include "distwar_gs.h"
#include "c_linkage.h"
#include <stdbool.h>

C_LINKAGE_BEGIN

// x' = scale rotation x + translation
typedef struct similarity {
    double rotation[9]; // row-major
    double scale;       // > 0
    double translation[3];
} similarity;

// Of a rotation, row-major: w, x, y, z, of length 1.
void quaternion_of_rotation(const double m[9], double q[4]);
// Of w, x, y, z, of length 1.
void rotation_of_quaternion(const double q[4], double m[9]);
// From the rows of a 3x4 matrix. False: its left part is not a rotation times a scale, to 1e-3.
bool similarity_of(const double rows[12], similarity *out);
// Means, scales, rotations and the colours' dependence on the direction. Host memory. A camera that is moved with the
// Gaussians, its near plane with the scale, sees the same picture.
void gaussians_move(gs_gaussians *gaussians, const similarity *by);

C_LINKAGE_END
