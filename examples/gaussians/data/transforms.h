// SPDX-License-Identifier: MIT
// Reads and writes transforms.json in the forms of NeRF's Blender scenes, of instant-ngp and of nerfstudio.
#pragma once

#include "files/json_writer.h"
#include "reconstruction.h"

C_LINKAGE_BEGIN

// Whether the folder has a transforms_train.json or a transforms.json.
bool transforms_are_in(const char *folder);

// Lists FOLDER/transforms_train.json and, if it exists, FOLDER/transforms_test.json, whose views are held out. Without
// transforms_train.json it lists FOLDER/transforms.json. On failure *out is empty.
//
// Keys:
// - frames[]: each with file_path (inside FOLDER) and transform_matrix (4 x 4, camera to world, y up and z backward);
//   mask_path (inside FOLDER, see dataset.h);
// - camera_angle_x, camera_angle_y, or fl_x, fl_y, which take precedence;
// - cx, cy, w, h, k1 to k4, p1, p2;
// - camera_model, a name of lens_models that can be read, or is_fisheye: a fisheye, which needs fl_x;
// - ply_file_path (inside FOLDER): the points to start from (ply_read_points), in the world of transform_matrix.
//   nerfstudio's applied_transform is in both already, so it is ignored as other keys are. Without that key
//   colmap_load_points of FOLDER.
// - test_filenames, val_filenames: nerfstudio's lists of frames that are held out.
// All but frames and these may also be in a frame, where they take precedence. Defaults: fl_y is fl_x, cx and cy are
// the middle, w and h are the picture's, no distortion. Other keys (aabb_scale, scale, offset, sharpness,
// ...) are ignored.
//
// Refused: distortions other than 0 that the lens does not have (k5, k6; of a fisheye p1, p2 too), any other
// camera_model, a last row other than 0 0 0 1, and what reconstruction_add_view refuses.
bool transforms_load(const char *folder, reconstruction *out, fault *why);

// Writes a transforms.json with the lens of each photograph, which is complete, in its frame: completely or not at all,
// "-" to stdout. transforms_load reads it back if it lies where the paths begin. A name is `folder`/name, or name if the
// folder is "".
bool transforms_save(const char *path, const char *folder, const dataset_view *views, size_t count,
                     fault *why);
// The field transform_matrix of a frame, from a pose as in gs_camera.
void transforms_put_pose(json_writer *json, const double rotation[9], const double translation[3]);

C_LINKAGE_END
