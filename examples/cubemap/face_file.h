// SPDX-License-Identifier: MIT
// Level 0 of a cubemap as a PNG: its six faces one below the other, in the order of cubemap.h.
#pragma once

#include "files/fault.h"

C_LINKAGE_BEGIN

// texel: [6][size][size][3] on the host; rounded to 8 bits.
bool face_file_write(const char *path, const float *texel, int size, fault *why);
// texel: for the caller to free(). Refuses pictures that are not six squares with sides of a power of two.
bool face_file_read(const char *path, float **texel, int *size, fault *why);

C_LINKAGE_END
