// SPDX-License-Identifier: MIT
// COLMAP's models, binary (cameras.bin, images.bin, points3D.bin) or text (cameras.txt, images.txt,
// points3D.txt).
#ifndef GAUSSIANS_COLMAP_H
#define GAUSSIANS_COLMAP_H

#include "path.h"
#include "reconstruction.h"

#ifdef __cplusplus
extern "C" {
#endif

// The folder with the model: the first of FOLDER/sparse/0, FOLDER/sparse and FOLDER that has a cameras.bin or
// cameras.txt. False, with nothing said, if there is none.
bool colmap_find(const char *folder, char model_folder[PATH_ROOM]);

// Reads the binary model if there is a cameras.bin, else the text. Camera models PINHOLE, SIMPLE_PINHOLE,
// SIMPLE_RADIAL, RADIAL and OPENCV. Without a points3D file there are no points. On failure *out is empty.
// Refused: no cameras, no images, other camera models, non-finite numbers, sizes or counts the file cannot
// hold, duplicate or empty names, names that leave the images folder, views of an unknown camera. In text
// also: a last line without an end (the file is truncated), and other counts than those COLMAP notes in its
// comments.
bool colmap_load(const char *model_folder, reconstruction *out, fault *why);

#ifdef __cplusplus
}
#endif
#endif
