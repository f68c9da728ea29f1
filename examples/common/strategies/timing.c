// SPDX-License-Identifier: MIT
#include "timing.h"
#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

timing timing_of_runs(double *milliseconds, size_t count) {
    qsort(milliseconds, count, sizeof *milliseconds, compare);
    return (timing){(milliseconds[(count - 1) / 2] + milliseconds[count / 2]) / 2, milliseconds[0],
                    milliseconds[count - 1]};
}

timing_summary timing_over_views(const timing *views, size_t count) {
    timing_summary out = {.minimum = INFINITY};
    for (size_t i = 0; i < count; i++) {
        out.mean += views[i].median / (double)count;
        out.minimum = fmin(out.minimum, views[i].median);
        out.maximum = fmax(out.maximum, views[i].median);
        if (views[i].median > 0)
            out.spread = fmax(out.spread, (views[i].maximum - views[i].minimum) / views[i].median);
    }
    return out;
}
