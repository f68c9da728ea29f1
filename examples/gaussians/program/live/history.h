// SPDX-License-Identifier: MIT
// The curves of a training run, from the file that `dsplat train --log` wrote (record/run_log.h).
#pragma once

#include "files/fault.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

typedef struct history_point {
    double iteration, loss, gaussians, psnr; // NaN where the line does not say it
} history_point;

typedef struct history {
    size_t count, room;
    history_point *points; // iterations do not fall
} history;                 // starts as {0}

// Reads the lines of steps and of evaluations. Closed also after a failure.
bool history_read(history *out, const char *path, fault *why);
void history_close(history *h);

C_LINKAGE_END
