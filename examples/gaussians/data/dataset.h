// SPDX-License-Identifier: MIT
// What a trainer starts from: photographs with their cameras, and the points that structure from motion
// found.
#ifndef GAUSSIANS_DATASET_H
#define GAUSSIANS_DATASET_H

#include "fault.h"
#include "image.h"
#include "gs.h"
#include "path.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dataset_view {
    char *name;       // the picture's path inside its folder
    gs_camera camera; // of the picture as loaded: an ideal pinhole; views may differ in size and all else
    image picture;    // RGB; empty if it was not wanted
    uint8_t *alpha;   // [height][width] of the picture; NULL if it has none, or was not wanted
    bool held_out;    // for measuring only, never for training
} dataset_view;

typedef struct dataset {
    size_t view_count;
    dataset_view *views; // sorted by name
    size_t point_count;  // 0: the data has none
    float (*points)[3];  // world
    uint8_t (*colors)[3];
    bool cut_out; // every picture has an alpha channel: an object, with nothing around it
    size_t file_count;
    file_id *files; // that it consists of: the model's or transforms, and all pictures
} dataset;

typedef struct dataset_options {
    int downscale; // >= 1: divides the pictures both ways as image_downscale does, and the cameras with them
    float background[3]; // 0..1: what transparent pictures are put on
    // Which pictures are wanted; NULL: all. Others are read only where the data does not say their size.
    // Called from several threads.
    bool (*wanted)(size_t index, const char *name, const void *context);
    const void *context;
    bool keep_alpha; // else views have none
} dataset_options;

// Takes the first of these that it finds:
// 1. a COLMAP model in FOLDER/sparse/0, FOLDER/sparse or FOLDER itself (see colmap.h), with pictures in
// FOLDER/images;
// 2. FOLDER/transforms_train.json and FOLDER/transforms_test.json, then FOLDER/transforms.json (see
// transforms.h). Pictures are read in parallel, once each: decoded, put on the background, undistorted at
// full size (see lens.h), downscaled. A camera's fx, cx are divided by the factor exactly, fy, cy likewise;
// rows and columns that do not fill a block are cut off at the bottom and the right. At least one view, or it
// fails. On failure *out is empty.
bool dataset_load(const char *folder, const dataset_options *options, dataset *out, fault *why);
// For dataset_options.wanted, if only cameras are.
bool dataset_no_picture(size_t index, const char *name, const void *context);
// Marks every `every`th view as held out, from the first; none if 0. Does nothing if the data itself names
// its held-out views.
void dataset_hold_out(dataset *data, size_t every);
// Fails if that path (NULL: none) leads to one of its files: asked before anything is written there.
bool dataset_spared(const dataset *data, const char *path, fault *why);
void dataset_close(dataset *data); // harmless twice

#ifdef __cplusplus
}
#endif
#endif
