// SPDX-License-Identifier: MIT
// A camera and the picture to fit.
#pragma once

#include "images/image.h"
#include "distwar_gs.h"
#include "dataset.h"

C_LINKAGE_BEGIN

typedef struct target_view {
    gs_camera camera;
    const image *picture; // RGB, of the camera's size; not owned
    uint8_t *pixels;      // the same on the device; owned
    uint8_t *alpha;       // [height][width], device; NULL: opaque; owned
    uint8_t *mask;        // [height][width], device: pixels with 0 do not count; NULL: all count; owned
    const uint8_t *mask_on_host; // the same; not owned
    int64_t counted;             // pixels that count
    float *depth;                // [height][width], device: inverse depth, NaN: unknown; NULL: none; owned
    const float *depth_on_host;  // the same; not owned
    const char *name;            // not owned; NULL if it has none
    const uint8_t *outline;      // alpha in host memory, for random_points; NULL: opaque; not owned
    bool set_aside;              // to be measured: see training_settings.set_aside_until
} target_view;

// Uploads the picture.
bool target_view_open(target_view *view, const gs_camera *camera, const image *picture, fault *why);
// Uploads a mask, [height][width], of a view that has none. NULL: none.
void target_view_set_mask(target_view *view, const uint8_t *mask);
// Uploads alpha, [height][width]. NULL: opaque.
void target_view_set_alpha(target_view *view, const uint8_t *alpha);
// Uploads a map of inverse depth, [height][width].
void target_view_set_depth(target_view *view, const float *depth);
// A view of a dataset, which must outlive it, without a call to the device. Failures name it.
bool target_view_list(target_view *view, const dataset_view *source, fault *why);
// Uploads its picture, mask and depth, and its alpha if with_alpha.
void target_view_upload(target_view *view, bool with_alpha);
void target_view_release(target_view *view); // what it has on the device; harmless if that is nothing
// The view at 1/factor of its size (distwar_gs_shrink.h), on the device alone: it has no picture.
void target_view_shrink(target_view *small, const target_view *view, int factor);
// The view with rows and columns added at the bottom and at the right that a mask takes out, on the device alone.
// width, height: at least its own. Reads the view's host arrays. Fails if there is no memory.
bool target_view_pad(target_view *padded, const target_view *view, int width, int height, bool with_alpha,
                     fault *why);
void target_view_close(target_view *view); // harmless on {0}

// The views of a dataset, split into those to train on and those held out.
typedef struct view_split {
    target_view *views; // [training + held_out], those to train on first
    size_t training, held_out;
} view_split; // starts as {0}

// Uploads the pictures of all views, and their alpha if with_alpha. The dataset must outlive the split.
// Fails, naming `source`, if no view is left to train on. Closed also after a failure.
bool view_split_open(view_split *split, const dataset *data, const char *source, bool with_alpha, fault *why);
// The same, but for the upload: all views are as target_view_list leaves them.
bool view_split_list(view_split *split, const dataset *data, const char *source, fault *why);
void view_split_close(view_split *split);

C_LINKAGE_END
