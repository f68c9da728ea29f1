// SPDX-License-Identifier: MIT
// Pictures of a scene, of errors and of depth, and the sheet of a scene's views.
#pragma once

#include "frame.h"
#include "views.h"
#include "images/image.h"

C_LINKAGE_BEGIN

// A picture of the scene, which is on the device.
bool map_picture(const gs_gaussians *device, const gs_camera *camera, const float background[GS_CHANNELS],
                 image *out, fault *why);
int compare_floats(const void *a, const void *b); // for qsort, rising

enum { FULL_ERROR = 64 }; // of 255: the brightest error

// Perceptually increasing brightness: black, purple, red, orange, pale yellow. part: clamped to 0..1.
void map_color(double part, uint8_t color[GS_CHANNELS]);
// The mean of the channels' absolute differences of two pictures of one size, at 1/divisor of the size, in these colours.
bool map_errors(const image *a, const image *b, int divisor, image *out, fault *why);
// A rendered picture, its photograph and their errors, all at 1/divisor of the size: out[3], to be closed also after a failure.
bool map_trio(const image *rendered, const image *photograph, int divisor, image *out, fault *why);
// Inverse depth of a frame that was rendered with it, summed over the Gaussians by their weights: 0 is empty or far.
bool map_depth(const frame *f, plane *out, fault *why);
// The inverse depths between which colours differ.
typedef struct depth_range {
    double farthest, nearest;
} depth_range;

// In these colours: near is bright, empty black. range: where `nearest` is 0, it becomes what all but 3% of the pixels at
// both ends lie between, of those that are not half empty.
bool map_depth_colors(const frame *f, depth_range *range, image *out, fault *why);

enum { SHEET_MOST = 48, SHEET_WIDTH = 320 }; // views; most pixels of a picture's side

// Writes a PNG with a row for each view: rendered, photograph, error. gaussians: device.
bool sheet_write(const char *path, const gs_gaussians *gaussians, const target_view *const *views,
                 size_t count, const float background[GS_CHANNELS], fault *why);

C_LINKAGE_END
