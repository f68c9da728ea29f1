// SPDX-License-Identifier: MIT
// transforms.json, in the form of NeRF's Blender scenes and in that of instant-ngp.
#ifndef GAUSSIANS_TRANSFORMS_H
#define GAUSSIANS_TRANSFORMS_H

#include "reconstruction.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether the folder has a transforms_train.json or a transforms.json.
bool transforms_are_in(const char *folder);

// Reads FOLDER/transforms_train.json and, if it exists, FOLDER/transforms_test.json, whose views are held
// out; without the former, FOLDER/transforms.json. No points. On failure *out is empty. Keys: frames[] with
// file_path (inside FOLDER; with ".png" added where there is no such file but one of that name) and
// transform_matrix (4 x 4, camera to world, y up and z backward); camera_angle_x, camera_angle_y, or fl_x,
// fl_y, which win; cx, cy, w, h, k1, k2, p1, p2. All of the latter may also stand in a frame, and win there.
// What is not said: fl_y as fl_x, cx and cy in the middle, w and h as the picture has them, no distortion.
// Other keys (aabb_scale, scale, offset, sharpness, ...) are ignored, except that k3, k4 other than 0,
// is_fisheye and a camera_model with another formula are refused. Frames whose picture does not exist are
// skipped, with one line on stderr that counts them and names the first. A matrix whose upper left 3 x 3
// differs from orthonormal by at most 5e-3 (the largest entry of M^T M - 1) is replaced by the nearest
// rotation; others, mirrors, and a last row other than 0 0 0 1 are refused.
bool transforms_load(const char *folder, reconstruction *out, fault *why);

#ifdef __cplusplus
}
#endif
#endif
