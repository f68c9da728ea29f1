// SPDX-License-Identifier: MIT
// Poses of cameras in double precision: motions, and the similarity between two sets of poses.
#pragma once

#include "c_linkage.h"
#include "distwar_gs.h"
#include <stddef.h>

C_LINKAGE_BEGIN

typedef struct pose {
    double rotation[9], translation[3]; // world to camera, as in gs_camera
} pose;

pose pose_of(const gs_camera *camera);
void pose_to_camera(const pose *from, gs_camera *camera);
void pose_center(const pose *p, double center[3]); // the camera's position in the world
// x' -> exp([w]) x' + v of camera space: the twist (w, v) of gs_camera_gradient.
void pose_move(pose *p, const double twist[6]);
void pose_put_at(pose *p, const double center[3]); // keeps the rotation

// The rotation about a vector of length one, by an angle in radians: Rodrigues' formula.
void rotation_about(const double axis[3], double angle, double out[9]);

// A motion of the world with a change of scale: x -> scale rotation x + translation.
typedef struct similarity {
    double scale, rotation[9], translation[3];
} similarity;

// The camera as it is in the moved world: it sees the same picture. Depths are multiplied by the scale.
void similarity_apply(const similarity *s, pose *p);
// Takes the world of the poses `from` to that of `to`. The rotation is the mean of those that take a camera
// to its counterpart, scale and translation are of least squares between the centres. Scale 1 if all centres
// of `from` or `to` are in one place. count >= 1.
similarity similarity_between(const pose *from, const pose *to, size_t count);

// How far poses are from others, after their similarity: angles of rotations, distances of centres in units
// of the world of `to`.
typedef struct pose_difference {
    double mean_degrees, largest_degrees, mean_distance, largest_distance;
} pose_difference;

pose_difference pose_difference_between(const pose *from, const pose *to, size_t count); // count >= 1

C_LINKAGE_END
