// SPDX-License-Identifier: MIT
// Pictures in host memory: images of 8 bits, as PNG and JPEG; planes of one float per pixel, such as depth maps, as PNG and
// PFM.
#pragma once

#include "files/fault.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

enum { IMAGE_MAX_SIZE = 16384 }; // of each side

typedef struct image {
    int width, height, channels; // channels: 3 (RGB), 4 (RGBA), or 1, which no file has
    uint8_t *pixels;             // [height][width][channels], top row first; malloc'ed
    bool mended;                 // its file is damaged, but all rows are whole
} image;

bool image_open(image *out, int width, int height, int channels, fault *why); // all 0; channels: 1, 3 or 4
void image_close(image *picture);                                             // harmless twice
// Reads PNG or JPEG; the first bytes say which. Gray and palette become RGB, 16 bits become 8, alpha is kept.
// The values are the file's own: no gamma, no colour profile, no orientation tag is applied. Refuses CMYK.
bool image_read(const char *path, image *out, fault *why);
bool image_write_png(const char *path, const image *picture, fault *why);
// Makes the bytes of the PNG file, for the caller to free().
bool image_encode_png(const image *picture, uint8_t **bytes, size_t *count, fault *why);
// A JPEG file of an RGB picture, likewise. quality: 1..100, as libjpeg has it.
bool image_encode_jpeg(const image *picture, int quality, uint8_t **bytes, size_t *count, fault *why);
// Means over factor x factor blocks, factor >= 1. Incomplete blocks at the right and bottom are cut off, but each side
// stays at least 1.
bool image_downscale(const image *picture, int factor, image *out, fault *why);
// Writes a PNG of 1 to 8 pictures side by side, with a white gap of `gap` pixels. All have the same height and channel
// count.
bool image_write_beside(const char *path, const image *const *pictures, int count, int gap, fault *why);
// From planes [3][height][width] of floats on the host: times 255, rounded to nearest, clamped to 0..255. NaN
// becomes 0.
bool image_from_planes(const float *planes, int width, int height, image *out, fault *why);
// 10 log10(255^2 / mean square error) over all channels of the pixels where the mask, [height][width], is not 0; NULL:
// over all pixels. Infinite if equal, NaN if the sizes differ.
double image_psnr(const image *a, const image *b, const uint8_t *mask);

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
