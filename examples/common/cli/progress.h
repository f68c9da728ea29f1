// SPDX-License-Identifier: MIT
// A line on stderr with the progress of long work: step, loss, rate, time left. If stderr is not a terminal, it gets a line
// after a minute, and another one each time that the work has taken a quarter longer.
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
    double since; // seconds: the rate counts from this time
    int64_t at;   // and from this step
} progress;

double seconds_now(void); // monotonic clock
void progress_begin(progress *bar, const char *title, int64_t total);
// True if the line is due: on a terminal every 0.1 s. Only then the caller needs to fetch the loss.
bool progress_due(progress *bar);
void progress_show(progress *bar, int64_t done, double loss); // loss: NaN if there is none
void progress_end(progress *bar);                             // clears the line

C_LINKAGE_END
