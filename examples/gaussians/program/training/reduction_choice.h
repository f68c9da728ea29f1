// SPDX-License-Identifier: MIT
// How each step's backward blend adds gradients: as asked for, or as a tuner finds best while training runs.
// Nothing is tuned on the CPU, where time says nothing about kernels: there the tuner's first candidate
// stands, DISTWAR_TREE at threshold 0.
#ifndef SPLAT_REDUCTION_CHOICE_H
#define SPLAT_REDUCTION_CHOICE_H

#include "gs.h"
#include <distwar/tune_events.h>

typedef struct reduction_choice {
    bool tunes;
    distwar_strategy reduction; // of the next step, or of the last
    int threshold;
    tuner t;
    tune_events ring;
} reduction_choice;

// What tuning came to.
typedef struct reduction_report {
    distwar_strategy reduction; // the last choice
    int threshold;
    bool tuned; // the rest is of a tuner
    bool known; // else the first exploration did not come to its end
    int64_t measured, examinations,
        changes; // launches; how often it looked again; how often it changed its mind
    double cost; // milliseconds, see tune_cost
} reduction_report;

// reduction: DISTWAR_STRATEGY_COUNT to tune; the threshold is then not used. Failures of the device end the program,
// here and below.
void reduction_choice_open(reduction_choice *choice, distwar_strategy reduction, int threshold);
// Right before and right after the backward blend is queued on the default stream; between, choice->reduction
// and choice->threshold are what it is to use. pairs: entries of the lists, what its time is about
// proportional to.
void reduction_choice_begin(reduction_choice *choice);
void reduction_choice_end(reduction_choice *choice, int64_t pairs);
reduction_report reduction_choice_report(const reduction_choice *choice);
// Harmless on a zeroed one.
void reduction_choice_close(reduction_choice *choice);

#endif
