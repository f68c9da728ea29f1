// SPDX-License-Identifier: MIT
// COLMAP's models, binary (cameras.bin, images.bin, points3D.bin) or text (cameras.txt, images.txt,
// points3D.txt).
#pragma once

#include "files/path.h"
#include "reconstruction.h"

C_LINKAGE_BEGIN

// Finds the folder of the model: the first of FOLDER/sparse/0, FOLDER/sparse and FOLDER that has a
// cameras.bin or a cameras.txt. False, without a message, if there is none.
bool colmap_find(const char *folder, char model_folder[PATH_ROOM]);

// Reads the binary model if there is a cameras.bin, otherwise the text. camera_model.c lists the camera
// models that can be read. Without a points3D file there are no points. On failure *out is empty.
//
// Refused: no cameras, no images, other camera models, numbers that are not finite, sizes or counts that
// the file cannot hold, duplicate or empty names, names that leave the folder of images, views of an
// unknown camera. In text also: a last line without an end (the file is truncated), and counts other than
// those in COLMAP's comments.
bool colmap_load(const char *model_folder, reconstruction *out, fault *why);

// Appends the points of FOLDER/points3D.bin or, without it, FOLDER/points3D.txt. Without either there are none.
bool colmap_load_points(const char *folder, reconstruction *out, fault *why);

// Reads the model in FOLDER again (colmap_find) for the tracks of its points: *out has them as sightings, and views
// and points in the order in which dataset_load has them. Without a model *out is empty.
bool colmap_load_tracks(const char *folder, reconstruction *out, fault *why);

C_LINKAGE_END
