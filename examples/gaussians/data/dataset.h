// SPDX-License-Identifier: MIT
// What a trainer starts from: photographs with their cameras, and the points that structure from motion found.
#ifndef GAUSSIANS_DATASET_H
#define GAUSSIANS_DATASET_H

#include "fault.h"
#include "image.h"
#include "gs.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dataset_view {
    char *name;        // the image's file name
    gs_camera camera;  // of the image as loaded, after downscaling
    image picture;     // RGB
} dataset_view;

typedef struct dataset {
    size_t view_count;
    dataset_view *views;   // sorted by name
    size_t point_count;
    float (*points)[3];    // world
    uint8_t (*colors)[3];
} dataset;

// A folder with images/ and sparse/0/{cameras,images,points3D}.bin (COLMAP). The pictures are loaded, put on black where
// they are transparent, and divided by `downscale` (>= 1) both ways as image_downscale does, and the cameras with them.
// At least one view, or it fails. On failure *out is empty. Decodes on all CPU cores.
bool dataset_load(const char *folder, int downscale, dataset *out, fault *why);
void dataset_free(dataset *data); // harmless twice

#ifdef __cplusplus
}
#endif
#endif
