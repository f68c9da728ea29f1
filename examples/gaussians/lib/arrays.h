// SPDX-License-Identifier: MIT
// The arrays of a gs_gaussians as a list, for code that treats them alike.
#pragma once

#include "distwar_gs.h"

enum { GS_ARRAYS = 5 };

typedef struct gs_arrays {
    float *of[GS_ARRAYS];
    int width[GS_ARRAYS]; // floats of a Gaussian
} gs_arrays;

static inline gs_arrays gs_arrays_of(const gs_gaussians *g) {
    const gs_arrays out = {{g->mean, g->log_scale, g->quaternion, g->opacity_logit, g->sh},
                           {3, 3, 4, 1, GS_CHANNELS * (g->sh_degree + 1) * (g->sh_degree + 1)}};
    return out;
}
