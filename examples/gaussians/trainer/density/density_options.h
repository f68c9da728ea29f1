// SPDX-License-Identifier: MIT
// The options of `dsplat train` for density control.
#pragma once

#include "cli/options.h"
#include "density_control.h"

C_LINKAGE_BEGIN

enum { DENSITY_AUTO = DENSITY_KINDS }; // of density_options: a kind that the data decides

typedef struct density_options {
    density_settings settings; // without extent; until and most_gaussians are 0, retired is
                               // negative where the default is meant
} density_options;

// The published defaults of all methods.
density_options density_options_default(void);
// Adds the rows of all methods.
void density_options_list(density_options *options, option_table *table);

// What defaults depend on.
typedef struct density_data {
    int64_t iterations;
    double extent;   // of the scene
    int64_t pixels;  // of the training views, that count
    bool everywhere; // training starts from random points of a scene that is not a cut-out object
    size_t views;    // of the training
} density_data;

// The Gaussians that training starts from: their opacity, and their size in mean distances to their
// neighbours. The published start of MCMC (small and half opaque) is not used everywhere, as it leaves distant
// parts uncovered. It is not used either if training ends before density control acts, as nothing would fill
// the gaps.
void density_start(const density_options *options, const density_data *data, double *opacity, double *size);
density_settings density_settings_from(const density_options *options, const density_data *data);

C_LINKAGE_END
