// SPDX-License-Identifier: MIT
// Statistics of times in milliseconds: of one view over its runs, and of a scene over its views.
#pragma once

#include "c_linkage.h"
#include <stddef.h>

C_LINKAGE_BEGIN

typedef struct timing {
    double median, minimum, maximum; // over runs
} timing;

// Sorts the times. count >= 1.
timing timing_of_runs(double *milliseconds, size_t count);

typedef struct timing_summary {
    double mean, minimum, maximum; // of the medians, over views
    double spread;                 // of runs: the largest (maximum - minimum) / median of a view
} timing_summary;

timing_summary timing_over_views(const timing *views, size_t count); // count >= 1

C_LINKAGE_END
