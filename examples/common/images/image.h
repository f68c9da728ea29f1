// SPDX-License-Identifier: MIT
// 8-bit images in host memory. Reads and writes PNG and JPEG.
#pragma once

#include "files/fault.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

enum { IMAGE_MAX_SIZE = 16384 }; // of each side

typedef struct image {
    int width, height, channels; // channels: 3 (RGB) or 4 (RGBA)
    uint8_t *pixels;             // [height][width][channels], top row first; malloc'ed
    bool mended;                 // its file is damaged, but no row of it
} image;

bool image_open(image *out, int width, int height, int channels, fault *why); // all 0
void image_close(image *picture);                                             // harmless twice
// Reads PNG or JPEG; the first bytes say which. Gray and palette become RGB, 16 bits become 8, alpha is kept.
// The values are the file's own: no gamma, no colour profile, no orientation tag is applied. Refuses CMYK.
bool image_read(const char *path, image *out, fault *why);
bool image_write_png(const char *path, const image *picture, fault *why);
// Makes the bytes of the PNG file, for the caller to free().
bool image_encode_png(const image *picture, uint8_t **bytes, size_t *count, fault *why);
// A JPEG file of an RGB picture, likewise. quality: 1..100, as libjpeg has it.
bool image_encode_jpeg(const image *picture, int quality, uint8_t **bytes, size_t *count, fault *why);
// Means over factor x factor blocks. Incomplete blocks at the right and bottom are cut off, but each side
// stays at least 1.
bool image_downscale(const image *picture, int factor, image *out, fault *why);
// Puts pictures side by side, with a white gap of `gap` pixels. All have the same height and channel count.
bool image_beside(const image *const *pictures, int count, int gap, image *out, fault *why);
// From planes [3][height][width] of floats on the host: times 255, rounded to nearest, clamped to 0..255. NaN
// becomes 0.
bool image_from_planes(const float *planes, int width, int height, image *out, fault *why);
// 10 log10(255^2 / mean square error) over all channels: infinite if equal, NaN if the sizes differ.
double image_psnr(const image *a, const image *b);
// image_psnr over the pixels where the mask, [height][width], is not 0; NULL: over all.
double image_masked_psnr(const image *a, const image *b, const uint8_t *mask);
// In parts: the sum of squared differences and the number of values that count, of pictures of one size; then the PSNR
// of the sums of all parts.
void image_squared_error(const image *a, const image *b, const uint8_t *mask, uint64_t *sum,
                         uint64_t *counted);
double image_psnr_of(double sum, double counted);

C_LINKAGE_END
