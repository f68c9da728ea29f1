// SPDX-License-Identifier: MIT
// What a trainer starts from: photographs with their cameras, and the points that structure from motion
// found.
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
    char *name;       // the image's file name
    gs_camera camera; // of the image as loaded, after downscaling
    image picture;    // RGB
    bool held_out;    // for measuring only, never for training
} dataset_view;

typedef struct dataset {
    size_t view_count;
    dataset_view *views; // sorted by name
    size_t point_count;
    float (*points)[3]; // world
    uint8_t (*colors)[3];
} dataset;

typedef struct dataset_options {
    int downscale; // >= 1: divides the pictures both ways as image_downscale does, and the cameras with them
    float background[3]; // 0..1: what transparent pictures are put on
} dataset_options;

// A folder with images/ and sparse/0/{cameras,images,points3D}.bin (COLMAP). At least one view, or it fails.
// On failure *out is empty. Decodes on all CPU cores.
bool dataset_load(const char *folder, const dataset_options *options, dataset *out, fault *why);
// Marks every `every`th view as held out, from the first; none if 0. Does nothing if the data itself names
// its held-out views.
void dataset_hold_out(dataset *data, size_t every);
void dataset_free(dataset *data); // harmless twice

#ifdef __cplusplus
}
#endif
#endif
