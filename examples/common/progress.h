// SPDX-License-Identifier: MIT
// One line on stderr for long work: step, loss, rate, time left. Silent when stderr is not a terminal.
#ifndef COMMON_PROGRESS_H
#define COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct progress {
    const char *title;
    int64_t total;
    // progress_begin sets these to 0; the caller may change them.
    int64_t before;             // steps done before it began, of a run that was resumed
    double time_limit;          // seconds after which the work ends though steps are left; 0: none
    double started, last_shown; // seconds
    bool shown;
} progress;

double seconds_now(void); // monotonic clock
void progress_begin(progress *bar, const char *title, int64_t total);
// True if a line is due (terminal, and 0.1 s have passed): only then need the caller fetch the loss.
bool progress_due(progress *bar);
void progress_show(progress *bar, int64_t done, double loss); // loss: NaN if there is none
void progress_end(progress *bar);                             // clears the line

#ifdef __cplusplus
}
#endif
#endif
