// SPDX-License-Identifier: MIT
// Reads transforms.json in the forms of NeRF's Blender scenes and of instant-ngp.
#pragma once

#include "files/json_writer.h"
#include "reconstruction.h"

C_LINKAGE_BEGIN

// Whether the folder has a transforms_train.json or a transforms.json.
bool transforms_are_in(const char *folder);

// Reads FOLDER/transforms_train.json and, if it exists, FOLDER/transforms_test.json, whose views are held
// out. Without transforms_train.json it reads FOLDER/transforms.json. On failure *out is empty.
//
// Keys:
// - frames[]: each with file_path (inside FOLDER; ".png" is added if only that file exists) and
//   transform_matrix (4 x 4, camera to world, y up and z backward); mask_path (inside FOLDER, see dataset.h);
// - camera_angle_x, camera_angle_y, or fl_x, fl_y, which take precedence;
// - cx, cy, w, h, k1, k2, p1, p2;
// - camera_model, a name that camera_model.c can read, or is_fisheye: a fisheye, which has k1 to k4 and needs
//   fl_x;
// - ply_file_path (inside FOLDER): the points to start from (ply_read_points), in the world of transform_matrix.
//   nerfstudio's applied_transform is in both already, so it is ignored as other keys are.
// All but frames may also be in a frame, where they take precedence. Defaults: fl_y is fl_x, cx and cy are
// the middle, w and h are the picture's, no distortion. Other keys (aabb_scale, scale, offset, sharpness,
// ...) are ignored.
//
// Refused: distortions other than 0 that the lens does not have (k3 to k6; of a fisheye p1, p2, k5, k6), any
// other camera_model, mirrors, a last row other than 0 0 0 1, and a matrix whose upper left 3 x 3 is not
// nearly orthonormal. Nearly: the largest entry of M^T M - 1 is at most 5e-3; then the nearest rotation is
// used.
//
// Frames whose picture does not exist are skipped. One line on stderr counts them and names the first.
bool transforms_load(const char *folder, reconstruction *out, fault *why);

// A photograph to write.
typedef struct transforms_frame {
    const char *folder, *name;          // its path is folder/name, or name if the folder is ""
    const char *mask;                   // its mask's path; NULL: it has none
    const lens *optics;                 // complete
    double rotation[9], translation[3]; // as in gs_camera
} transforms_frame;

// Writes a transforms.json with the lens of each photograph in its frame: completely or not at all, "-" to
// stdout. transforms_load reads it back if it lies where the paths begin.
bool transforms_save(const char *path, const transforms_frame *frames, size_t count, fault *why);
// The field transform_matrix of a frame, from a pose as in gs_camera.
void transforms_put_pose(json_writer *json, const double rotation[9], const double translation[3]);

C_LINKAGE_END
