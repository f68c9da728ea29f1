// SPDX-License-Identifier: MIT
// Pictures side by side in one PNG: target, start, result.
#pragma once

#include "image.h"

C_LINKAGE_BEGIN

// Writes what image_beside makes of the pictures.
bool image_write_beside(const char *path, const image *const *pictures, int count, int gap, fault *why);

enum { MAX_PICTURES_IN_ROW = 8 };

// planes[i]: [3][height][width] on the host, as for image_from_planes; 1 <= count <= MAX_PICTURES_IN_ROW.
bool picture_row_write(const char *path, const float *const *planes, int count, int width, int height,
                       fault *why);
// 10 log10(1 / mean square difference) of `count` values; infinite if equal.
double picture_psnr(const float *a, const float *b, long long count);

C_LINKAGE_END
