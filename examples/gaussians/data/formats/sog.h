// SPDX-License-Identifier: MIT
// What reader and writer of SOG share.
#pragma once

#include "formats/formats.h"

C_LINKAGE_BEGIN

enum { VERSION = 2, AXES = 3, PALETTE_COLUMNS = 64, MOST_PALETTE = 65536 };
enum {
    MODES = 252
}; // the alpha of a rotation is this and the index of the component that is left out: w, x, y, z

static inline int rest_of(int degree) { // coefficients after the first
    return coefficients(degree) - 1;
}

bool sog_write(const output_file *file, const gs_gaussians *scene, int variant,
               fault *why); // scene_format.write

C_LINKAGE_END
