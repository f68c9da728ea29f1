// SPDX-License-Identifier: MIT
// The options of `splat train` that are about density control.
#ifndef SPLAT_DENSITY_OPTIONS_H
#define SPLAT_DENSITY_OPTIONS_H

#include "training/density_control.h"
#include "options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct density_options {
    int kind;
    int64_t from, until, every, most_gaussians, reset_every;
    double least_opacity, gradient, split_size, most_size, reset_opacity, growth, noise, opacity_weight,
        scale_weight, start_opacity, start_size;
} density_options;

enum { DENSITY_OPTIONS = 17 };

// The published defaults of both ways.
density_options density_options_default(void);
// DENSITY_OPTIONS entries for a table.
void density_options_list(density_options *options, option_spec *table);
// Of the Gaussians that training starts from: opacity, and size in distances to their neighbours. everywhere:
// they were drawn at random from all that the cameras see. What the published start of MCMC (small and half
// opaque) wins elsewhere it loses there, where it leaves the far away uncovered, and where training ends
// before density control acts, and so before it has filled the gaps.
void density_start(const density_options *options, int64_t iterations, bool everywhere, double *opacity,
                   double *size);
density_settings density_settings_from(const density_options *options, int64_t iterations, double extent);

#ifdef __cplusplus
}
#endif
#endif
