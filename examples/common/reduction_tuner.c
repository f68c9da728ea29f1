// SPDX-License-Identifier: MIT
#include "reduction_tuner.h"
#include "device.h"
#include "kernel_counts.h"

// Closer together where groups are small: a warp whose lanes hold several keys has them.
static const int thresholds[] = {0, 2, 4, 6, 8, 12, 16, 24};
enum { THRESHOLDS = sizeof thresholds / sizeof *thresholds };

static int list_candidates(tune_candidate *candidates) {
    int count = 0;
    candidates[count++] = (tune_candidate){REDUCE_TREE, 0};
    for (int which = 0; which < REDUCE_FIXED; which++)
        for (int i = 0; i < (reduction_has_threshold((reduction)which) ? THRESHOLDS : 1); i++)
            if (which != REDUCE_TREE || thresholds[i] > 0)
                candidates[count++] = (tune_candidate){which, thresholds[i]};
    return count;
}

void reduction_tuner_open(reduction_tuner *tuner, reduction which, int threshold) {
    *tuner = (reduction_tuner){.which = which, .threshold = threshold};
    if (which != REDUCTIONS) return;
    tune_candidate candidates[TUNE_MAX_CANDIDATES];
    _Static_assert(THRESHOLDS * REDUCE_FIXED <= TUNE_MAX_CANDIDATES, "candidates");
    tune_init(&tuner->t, candidates, list_candidates(candidates));
    kernel_counts unused;
    tuner->tunes = !kernel_counts_now(&unused);
    if (tuner->tunes) DEVICE_CHECK(tune_events_open(&tuner->ring));
    tune_launch first = tune_best(&tuner->t);
    tuner->which = (reduction)first.strategy;
    tuner->threshold = first.threshold;
}

void reduction_tuner_begin(reduction_tuner *tuner) {
    if (!tuner->tunes) return;
    tune_launch next;
    DEVICE_CHECK(tune_events_begin(&tuner->ring, &tuner->t, NULL, &next));
    tuner->which = (reduction)next.strategy;
    tuner->threshold = next.threshold;
}

void reduction_tuner_end(reduction_tuner *tuner, double work) {
    if (tuner->tunes) DEVICE_CHECK(tune_events_end(&tuner->ring, &tuner->t, NULL, work));
}

void reduction_tuner_settle(reduction_tuner *tuner) {
    if (!tuner->tunes) return;
    tune_launch best = tune_best(&tuner->t);
    tuner->which = (reduction)best.strategy;
    tuner->threshold = best.threshold;
}

const char *reduction_tuner_says(const reduction_tuner *tuner) {
    if (!tuner->tunes) return "";
    return tuner->t.known ? " by the tuner" : " by a tuner that had too few iterations";
}

void reduction_tuner_close(reduction_tuner *tuner) {
    if (tuner->tunes) DEVICE_CHECK(tune_events_close(&tuner->ring));
    tuner->tunes = false;
}
