// SPDX-License-Identifier: MIT
#include "progress.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_begin(progress *bar, const char *title, int64_t total) {
    const double now = seconds_now();
    *bar = (progress){.title = title, .total = total, .started = now, .last_shown = now};
}

bool progress_due(progress *bar) {
    const double now = seconds_now(), least = 60;
    if (isatty(STDERR_FILENO)) return now - bar->last_shown >= 0.1;
    return now - bar->started >= least && now - bar->started >= 1.25 * (bar->last_shown - bar->started);
}

void progress_show(progress *bar, int64_t done, double loss) {
    const bool terminal = isatty(STDERR_FILENO);
    if (!terminal && !progress_due(bar)) return;
    bar->last_shown = seconds_now();
    bar->shown = terminal;
    if (bar->since == 0) bar->since = bar->started, bar->at = bar->before;
    // Steps per second, of the whole run and over the last seconds.
    const double window = 5, elapsed = bar->last_shown - bar->started, last = bar->last_shown - bar->since;
    const double rate = elapsed > 0 ? (double)(done - bar->before) / elapsed : 0,
                 recent = last > 0 ? (double)(done - bar->at) / last : 0;
    if (last >= window) bar->since = bar->last_shown, bar->at = done;
    fprintf(stderr, "%s%.30s %" PRId64 "/%" PRId64, terminal ? "\r\033[K" : "", bar->title, done, bar->total);
    if (!isnan(loss)) fprintf(stderr, "  loss %.5f", loss);
    fprintf(stderr, "  %.1f/s", rate);
    if (rate > 0.0) {
        double seconds =
            (double)(bar->total - done) / (recent > 0 ? recent : rate) * (bar->ahead > 0 ? bar->ahead : 1);
        if (bar->time_limit > 0) seconds = fmax(0, fmin(seconds, bar->time_limit - elapsed));
        const int64_t left = (int64_t)(seconds + 0.5);
        fprintf(stderr, "  %" PRId64 ":%02d:%02d left", left / 3600, (int)(left / 60 % 60), (int)(left % 60));
    }
    if (!terminal) fputc('\n', stderr);
    fflush(stderr);
}

void progress_end(progress *bar) {
    if (!bar->shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    bar->shown = false;
}
