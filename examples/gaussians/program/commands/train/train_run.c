// SPDX-License-Identifier: MIT
// What a run of `dsplat train` says, on one rank or on several.
#include "train_run.h"
#include <stdio.h>
#include <string.h>

// By default 200 lines in a run, but one every 100 steps at least.
static int64_t log_interval(const train_options *o) {
    if (o->log_every > 0) return o->log_every;
    const int64_t part = o->iterations / 200;
    return o->budget ? 100 : part < 1 ? 1 : part > 100 ? 100 : part;
}

void train_record_settings(run_record *record, const train_run *run) {
    const view_split *split = &run->split;
    run_record_text(record, "data", run->options->data);
    run_record_number(record, "views", (double)split->training);
    run_record_number(record, "held_out", (double)split->held_out);
    run_record_number(record, "width", split->views[0].camera.width);
    run_record_number(record, "height", split->views[0].camera.height);
    run_record_options(record, run->table);
}

enum { SELDOM = 1000000000 }; // iterations

run_log_options train_log_options(const train_run *run) {
    const train_options *o = run->options;
    const bool kept = o->log || o->report; // otherwise training need not wait for values
    run_log_options wanted = {.path = o->log,
                              .append = o->resume != NULL,
                              .every = kept        ? log_interval(o)
                                       : o->budget ? SELDOM
                                                   : o->iterations,
                              .evaluate_every = kept ? o->eval_every : 0,
                              .held_out = run->split.views + run->split.training,
                              .held_out_count = run->split.held_out};
    memcpy(wanted.background, run->background, sizeof wanted.background);
    return wanted;
}

void train_say_stopped(const train_run *run, int64_t iteration) {
    fprintf(
        stderr,
        "dsplat: stopped by a signal after iteration %lld, which is saved; to continue, add --resume %s\n",
        (long long)iteration, run->saver.path);
}
