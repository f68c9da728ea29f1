// SPDX-License-Identifier: MIT
// Spheres in a text file: the line "spheres 1", a line with count and channels, then a line for each sphere:
// centre, logarithm of the radius, logit of the opacity, feature.
#pragma once

#include "sphere_memory.h"

C_LINKAGE_BEGIN

// Into host memory, to close with sphere_set_close. Refuses a file that is truncated or too long, and values
// that are not finite.
bool sphere_file_read(const char *path, sphere_set *out, fault *why);
bool sphere_file_write(const char *path, const sphere_set *host, fault *why);

C_LINKAGE_END
