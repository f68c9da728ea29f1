// SPDX-License-Identifier: MIT
// The mean of the parameters over the last steps of training, which replaces them at its end. The rates of a run
// that is still learning fast leave noise in the parameters; the mean has less of it than slower rates would leave.
#pragma once

#include "c_linkage.h"
#include "gs.h"

C_LINKAGE_BEGIN

typedef struct parameter_average {
    int64_t samples;      // sets of parameters in the mean
    gs_gaussians average; // device; without memory while samples is 0
} parameter_average;      // starts as {0}

enum { AVERAGE_EVERY = 5 }; // steps between samples: neighbouring steps say the same

// After step `step` of Adam, which made `iteration` the last one done: adds the parameters, if the iteration is after
// `from` and it is the turn of the step. The rows keep their Gaussians from then on.
void parameter_average_add(parameter_average *a, const gs_gaussians *now, int64_t from, int64_t iteration,
                           int64_t step);
// Copies the mean to `to`, of equal shape, if there is one, and closes it.
void parameter_average_take(parameter_average *a, const gs_gaussians *to);
void parameter_average_close(parameter_average *a); // harmless on {0}

C_LINKAGE_END
