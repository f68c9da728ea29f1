// SPDX-License-Identifier: MIT
// A line on stderr that shows the progress of long work: step, loss, rate, time left. Where stderr is not a terminal, a
// line now and then: after a minute, and then each time that the work has taken a quarter longer.
#pragma once

#include "c_linkage.h"
#include <stdbool.h>
#include <stdint.h>

C_LINKAGE_BEGIN

typedef struct progress {
    const char *title;
    int64_t total;
    // progress_begin sets these to 0; the caller may change them.
    int64_t before;             // steps done before this run, if it was resumed
    double time_limit;          // seconds after which the work ends early; 0: none
    double ahead;               // the mean time of a step that is left, in times of one now; 0 counts as 1
    double started, last_shown; // seconds
    bool shown;
    double since; // the rate is that since this time and step
    int64_t at;
} progress;

double seconds_now(void); // monotonic clock
void progress_begin(progress *bar, const char *title, int64_t total);
// True if the last line is 0.1 s old on a terminal, or if one is due elsewhere. Only then the caller needs to fetch the
// loss.
bool progress_due(progress *bar);
void progress_show(progress *bar, int64_t done, double loss); // loss: NaN if there is none
void progress_end(progress *bar);                             // clears the line

C_LINKAGE_END
