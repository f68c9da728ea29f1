// SPDX-License-Identifier: MIT
// Training in a given time: how far the schedules of rates, harmonics and density control move with each step.
// Pure functions of times that the caller measures.
#pragma once

#include "c_linkage.h"
#include <stdbool.h>
#include <stdint.h>

C_LINKAGE_BEGIN

enum { PACE_WINDOW = 32 };

// The time of a step is the median of the last PACE_WINDOW steps: a step that takes a second, because memory grows or
// another program runs, moves no schedule.
typedef struct pace {
    double budget; // seconds of training
    double last;   // seconds spent at the last pace_note
    double recent[PACE_WINDOW];
    int64_t steps; // noted
    // What is done between steps now and then: seconds, the last time, and how often it is still to come. Counted with
    // up to half of the time left.
    double between;
    int64_t between_left;
    double ahead; // the mean time of the steps that are left, in times of a step now; 0 counts as 1
} pace;           // starts as {.budget = ...}

// At the start of each step. spent: seconds of training so far, which do not fall.
void pace_note(pace *p, double spent);
// Whether steps are timed well enough for pace_steps_left: after 50 steps; after a twentieth of the budget if that had
// 8 steps, the first being slow; after a quarter of it in any case.
bool pace_is_known(const pace *p);
// The steps that the time left is worth at the present time of a step, times `ahead`; at most SCHEDULE_MOST.
double pace_steps_left(const pace *p);
// The views that the whole budget is worth: those done, and those of the steps left, of `views` each; at most SCHEDULE_MOST.
double pace_views_in_all(const pace *p, int64_t done, int32_t views);
// Returns the progress of the step that begins now, 0..1, after one of `progress`: the remaining progress divided by the
// steps that the time left is worth. So progress is smooth as far as `ahead` foresees the steps' time, and reaches 1
// with the last step however wrong the estimates were: 1 when stopping after this step lands closer to the budget than
// one more step would.
double pace_next(const pace *p, double progress);
// Whether the time is over before the step that would begin now.
bool pace_is_over(const pace *p);

C_LINKAGE_END
