// SPDX-License-Identifier: MIT
// GPU time of each stage of a training step. Events are read two steps later, so nothing waits for them.
// Measures nothing on the CPU.
#pragma once

#include "c_linkage.h"
#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdint.h>

C_LINKAGE_BEGIN

typedef enum stage {
    STAGE_PROJECT,
    STAGE_BIN,
    STAGE_RENDER,
    STAGE_LOSS,
    STAGE_RENDER_BACKWARD,
    STAGE_PROJECT_BACKWARD,
    STAGE_ADAM, // this and the following stages are part of training only
    STAGE_DENSITY,
    STAGES
} stage;

typedef struct stage_clock {
    bool measures; // false on the CPU
    int current;   // which of the two sets of events this step records
    bool complete[2];
    cudaEvent_t marks[2][STAGES + 1];
    double milliseconds[STAGES]; // sums over `steps`
    int64_t steps;
} stage_clock;

const char *stage_name(stage which);
void stage_clock_open(stage_clock *clock);
// Call before the first stage of a step.
void stage_clock_start(stage_clock *clock);
// Call after each stage is queued, in order. NULL is harmless.
void stage_clock_mark(stage_clock *clock, stage which);
// Waits for the last step and frees the events. The sums stay valid.
void stage_clock_close(stage_clock *clock);

C_LINKAGE_END
