// SPDX-License-Identifier: MIT
// The mean of the parameters over the last steps of training, which replaces them at its end. The rates of a run
// that is still learning fast leave noise in the parameters; the mean has less of it than slower rates would leave.
#pragma once

#include "c_linkage.h"
#include "distwar_gs.h"

C_LINKAGE_BEGIN

typedef struct parameter_average {
    int64_t samples;      // sets of parameters in the mean
    gs_gaussians average; // device; without memory while samples is 0
} parameter_average;      // starts as {0}

// Adds the parameters, whose number stays from the first sample on.
void parameter_average_add(parameter_average *a, const gs_gaussians *now);
// Copies the mean to `to`, of equal shape, if there is one, and closes it.
void parameter_average_take(parameter_average *a, const gs_gaussians *to);
void parameter_average_close(parameter_average *a); // harmless on {0}

C_LINKAGE_END
