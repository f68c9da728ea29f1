// SPDX-License-Identifier: MIT
// The curves of a training run: from the file that `dsplat train --log` wrote (record/run_log.h), or from the run itself.
#pragma once

#include "record/run_record.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

typedef struct history_point {
    double iteration, loss, gaussians; // NaN where the line does not say it, as below
    double psnr, validation, training; // of views held out; of views set aside, and of others beside them
    double milliseconds;               // of a step
} history_point;

typedef struct history {
    size_t count, room;
    history_point *points; // of one kind: iterations do not fall
} history;                 // starts as {0}

// Reads the lines of steps, evaluations and validations. Closed also after a failure.
bool history_read(history *out, const char *path, fault *why);
// Takes the losses of a run's training, and the record's other values. Closed also after a failure.
bool history_of_run(history *out, const training_report *training, const run_record *record, fault *why);
bool history_add(history *out, const history_point *point, fault *why);
void history_close(history *h);

C_LINKAGE_END
