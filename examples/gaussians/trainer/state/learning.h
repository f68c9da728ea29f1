// SPDX-License-Identifier: MIT
// Whether training still learns what views that it does not see confirm, or only their noise. Pure functions.
#pragma once

#include "c_linkage.h"
#include <stdbool.h>
#include <stdint.h>

C_LINKAGE_BEGIN

enum { LEARNING_MOST = 32 };

// The losses on views that training sees and on views that are set aside, measured now and then on pictures of one size.
typedef struct learning_curve {
    double sum;           // of the losses of the training views since the last measurement
    int64_t seen;         // how many they are
    int32_t count, phase; // of the resolutions
    float trained[LEARNING_MOST], aside[LEARNING_MOST]; // natural logarithms of mean losses
} learning_curve;                                       // starts as {0}

void learning_see(learning_curve *curve, double loss); // of a training view
void learning_begin(learning_curve *curve);            // forgets the losses seen
// Adds a measurement: the mean of the losses seen, which are forgotten, and of the views set aside. A new phase begins anew. A full curve keeps every second measurement.
void learning_note(learning_curve *curve, int phase, double aside);
// Whether the views set aside have a loss that is higher by a fifth, and the training views' loss has fallen by a ninth
// since some measurement, while the lowest loss of the views set aside since then is 0.15 of that lower: the rest of what
// is learned is noise.
bool learning_is_over(const learning_curve *curve);
bool learning_curve_is_possible(const learning_curve *curve); // of one that was read from a file

C_LINKAGE_END
