// SPDX-License-Identifier: MIT
// How a small motion of a camera moves what it sees: the measure of a step of its pose.
#pragma once

#include "c_linkage.h"
#include "distwar_gs.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

enum { POSE_METRIC_VALUES = 21 };

// Points of the world, each with a weight >= 0.
typedef struct weighted_points {
    size_t count;
    const float (*points)[3];
    const float *weights; // NULL: all 1
} weighted_points;

// What is known of the scene and its poses beforehand.
typedef struct pose_scale {
    double focus[3];          // a point of the world that the cameras look at
    double radians, distance; // by which poses are expected to be wrong
} pose_scale;

// L, lower triangle, row by row, of the factorisation H = L L^T. H is the weighted mean over the points that
// the camera sees of J^T J, J the derivative of a point's pixel by the camera's twist (gs_camera_gradient),
// plus a diagonal of (0.3 pixels / expected error)^2. So a step L^-T y moves points by up to |y| pixels, root
// mean square, and turns and moves the camera by up to |y| / 0.3 expected errors: little moves at a size where
// pictures say less than is known. Points nearer than a sixteenth of the focus are left out; of many a part is
// used.
void pose_metric(const gs_camera *camera, const weighted_points *points, const pose_scale *scale,
                 double factor[POSE_METRIC_VALUES]);

// Solve L x = b and L^T x = b in place.
void pose_metric_solve(const double factor[POSE_METRIC_VALUES], double x[6]);
void pose_metric_solve_transposed(const double factor[POSE_METRIC_VALUES], double x[6]);

C_LINKAGE_END
