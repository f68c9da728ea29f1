// SPDX-License-Identifier: MIT
// A line on stderr that shows the progress of long work: step, loss, rate, time left. Prints nothing if
// stderr is not a terminal.
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
    double started, last_shown; // seconds
    bool shown;
} progress;

double seconds_now(void); // monotonic clock
void progress_begin(progress *bar, const char *title, int64_t total);
// True if stderr is a terminal and the last line is 0.1 s old. Only then the caller needs to fetch the loss.
bool progress_due(progress *bar);
void progress_show(progress *bar, int64_t done, double loss); // loss: NaN if there is none
void progress_end(progress *bar);                             // clears the line

C_LINKAGE_END
