// SPDX-License-Identifier: MIT
// GPU time of the parts of a Levenberg-Marquardt step, by events between them. Measures nothing on the CPU.
#pragma once

#include "c_linkage.h"
#include <cuda_runtime.h>
#include <stdbool.h>

C_LINKAGE_BEGIN

typedef enum lm_part {
    LM_PICTURES,   // project, bin, render, residuals: of steps and of line searches
    LM_DIAGONAL,   // diag(J^T J)
    LM_FORWARD,    // J p: through the projection and the blend
    LM_BACKWARD,   // J^T u: from pixels to splats
    LM_PROJECTION, // J^T u: from splats to parameters and over the images
    LM_SOLVER,     // conjugate gradients
    LM_PARTS
} lm_part;

enum { LM_CLOCK_MARKS = 4096 };

typedef struct lm_clock {
    bool measures;
    int marks;
    cudaEvent_t at[LM_CLOCK_MARKS];
    lm_part part[LM_CLOCK_MARKS]; // that ended here
    double milliseconds[LM_PARTS];
} lm_clock;

const char *lm_part_name(lm_part part);
void lm_clock_open(lm_clock *clock);
void lm_clock_close(lm_clock *clock); // the sums stay
// Begins to count.
void lm_clock_start(lm_clock *clock);
// The work queued since the last mark belongs to this part.
void lm_clock_mark(lm_clock *clock, lm_part part);
// Waits, and adds the times to the sums.
void lm_clock_stop(lm_clock *clock);

C_LINKAGE_END
