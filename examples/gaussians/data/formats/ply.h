// SPDX-License-Identifier: MIT
// Points in PLY files; scenes are read through scene.h.
#pragma once

#include "reconstruction.h"

C_LINKAGE_BEGIN

// Appends the vertices of a file, binary little-endian or ASCII with the vertex element first, to the points: x y z and
// red green blue (0..255; 128 where there are none), of any number type. Other properties are skipped. Refused: a file
// without x, y, z, a list, values that are not finite, positions farther than 1e18, a file that ends early.
bool ply_read_points(const char *path, reconstruction *out, fault *why);

C_LINKAGE_END
