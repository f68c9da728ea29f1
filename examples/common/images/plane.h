// SPDX-License-Identifier: MIT
// Pictures of one float per pixel in host memory, such as depth maps.
#pragma once

#include "files/fault.h"
#include <stddef.h>

C_LINKAGE_BEGIN

typedef struct plane {
    int width, height; // 1..IMAGE_MAX_SIZE
    float *values;     // [height][width], top row first; malloc'ed
} plane;

bool plane_open(plane *out, int width, int height, fault *why); // all 0
void plane_close(plane *p);                                     // harmless twice
size_t plane_size(const plane *p);                              // pixels

// Reads one of these; the first bytes say which:
// - a gray PNG of 16 bits per value, as value / 65535. The values are the file's own: no gamma is applied.
// - a gray PFM (Debevec): "Pf", width, height and scale as text, one white space, then floats, the bottom row
//   first. A negative scale means little-endian, a positive one big-endian; its size is ignored. Values may be
//   anything, NaN included.
// Refused: other PNG (8 bits, colours, palette, alpha), colour PFM (PF), a file too short or too long for its
// size.
bool plane_read(const char *path, plane *out, fault *why);
// A gray PNG of 16 bits: values times 65535, rounded to nearest, clamped to 0..65535. NaN becomes 0.
bool plane_write_png(const char *path, const plane *p, fault *why);
// A little-endian PFM.
bool plane_write_pfm(const char *path, const plane *p, fault *why);
// Means over blocks, of the size that image_downscale gives. A block with a NaN becomes NaN.
bool plane_downscale(const plane *p, int factor, plane *out, fault *why);

C_LINKAGE_END
