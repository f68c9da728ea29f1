// SPDX-License-Identifier: MIT
// The reduction of each launch: as asked for, or as a tuner (distwar/tune_events.h) finds best while the
// program runs. Nothing is tuned on the CPU, where time says nothing about kernels: there the tuner's first
// candidate stands, REDUCE_TREE at threshold 0.
#ifndef COMMON_REDUCTION_TUNER_H
#define COMMON_REDUCTION_TUNER_H

#include "reduction.h"
#include <distwar/tune_events.h>

typedef struct reduction_tuner {
    bool tunes;
    reduction which; // of the next launch, or of the last
    int threshold;
    tuner t;
    tune_events ring;
} reduction_tuner;

// which: REDUCTIONS to tune; the threshold is then not used. The candidates are those before REDUCE_FIXED, at
// thresholds 0, 2, 4, 6, 8, 12, 16 and 24. Failures of the device end the program, here and below.
void reduction_tuner_open(reduction_tuner *tuner, reduction which, int threshold);
// Right before and right after the launch on the default stream; between, tuner->which and tuner->threshold
// are what it is to use. work: what its time is about proportional to, such as pixels.
void reduction_tuner_begin(reduction_tuner *tuner);
void reduction_tuner_end(reduction_tuner *tuner, double work);
// Sets which and threshold to the best so far.
void reduction_tuner_settle(reduction_tuner *tuner);
// " by the tuner", or that it had too few launches; "" where nothing was tuned. Before it is closed.
const char *reduction_tuner_says(const reduction_tuner *tuner);
void reduction_tuner_close(reduction_tuner *tuner); // harmless on a zeroed one

#endif
