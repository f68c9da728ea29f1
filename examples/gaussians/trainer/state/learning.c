// SPDX-License-Identifier: MIT
#include "state/learning.h"
#include <math.h>

// In logarithms: what training must gain between two measurements that are compared, so that the views set aside could
// show it: a decibel; and the part of it that they must gain too: 0.1 was judgement, with which one of three runs of
// statue went past its peak.
static const double least_gain = 0.12, least_part = 0.15;
// And what the views set aside must be worse by, so that noise can be what keeps them: while rates are high they gain
// little on any scene. bonsai had at most 0.16 in three quarters of 70,000 views, beer and statue 0.31 when they ended.
static const double least_apart = 0.2;

static void halve(learning_curve *curve) {
    for (int32_t i = 1, to = 0; i < curve->count; i += 2, to++)
        curve->trained[to] = curve->trained[i], curve->aside[to] = curve->aside[i];
    curve->count /= 2;
}

void learning_see(learning_curve *curve, double loss) {
    curve->sum += loss;
    curve->seen++;
}

void learning_begin(learning_curve *curve) {
    curve->sum = 0;
    curve->seen = 0;
}

void learning_note(learning_curve *curve, int phase, double aside) {
    const double trained = curve->sum / (double)curve->seen;
    learning_begin(curve);
    if (curve->phase != phase) *curve = (learning_curve){.phase = phase};
    if (curve->count == LEARNING_MOST) halve(curve);
    curve->trained[curve->count] = (float)log(fmax(trained, 1e-30));
    curve->aside[curve->count++] = (float)log(fmax(aside, 1e-30));
}

bool learning_is_over(const learning_curve *curve) {
    const int32_t last = curve->count - 1;
    if (last < 0 || (double)curve->aside[last] - (double)curve->trained[last] < least_apart) return false;
    double least = INFINITY;
    for (int32_t from = last; from >= 0; from--) {
        const double gain = curve->trained[from] - curve->trained[last];
        if (from < last - 1 && gain >= least_gain && curve->aside[from] - least < least_part * gain)
            return true;
        least = fmin(least, curve->aside[from]);
    }
    return false;
}

bool learning_curve_is_possible(const learning_curve *curve) {
    if (curve->count < 0 || curve->count > LEARNING_MOST || curve->seen < 0 || !isfinite(curve->sum))
        return false;
    for (int32_t i = 0; i < curve->count; i++)
        if (!isfinite(curve->trained[i]) || !isfinite(curve->aside[i])) return false;
    return true;
}
