// SPDX-License-Identifier: MIT
// COLMAP's binary model: cameras.bin, images.bin, points3D.bin.
#ifndef GAUSSIANS_COLMAP_H
#define GAUSSIANS_COLMAP_H

#include "dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

// Fills views (name and full-size camera with near_plane 0.2, no picture yet; sorted by name) and points of *out. On
// failure *out is empty.
// Refused: camera models other than PINHOLE, non-finite numbers, sizes or counts the file cannot hold, duplicate or
// empty names, names that leave the images folder, views of an unknown camera.
bool colmap_load(const char *model_folder, dataset *out, fault *why);

#ifdef __cplusplus
}
#endif
#endif
