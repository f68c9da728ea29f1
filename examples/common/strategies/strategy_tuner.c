// SPDX-License-Identifier: MIT
#include "strategy_tuner.h"
#include "device.h"
#include "kernel_counts.h"
#include <assert.h>

static distwar_policy policy_of(const tune_launch *launch) {
    return (distwar_policy){(distwar_strategy)launch->strategy, launch->threshold};
}

void strategy_tuner_open(strategy_tuner *tuner, const candidate_list *candidates) {
    assert(candidates->count >= 1 && candidates->count <= TUNE_MAX_CANDIDATES);
    *tuner = (strategy_tuner){.policy = candidates->rows[0].policy};
    tune_candidate all[TUNE_MAX_CANDIDATES];
    for (int i = 0; i < candidates->count; i++) {
        const distwar_policy *policy = &candidates->rows[i].policy;
        all[i] = (tune_candidate){policy->strategy, policy->balance_threshold};
    }
    const bool different = tune_init(&tuner->t, all, candidates->count);
    assert(different);
    (void)different;
    kernel_counts unused;
    tuner->tunes = candidates->count > 1 && !kernel_counts_now(&unused);
    if (tuner->tunes) DEVICE_CHECK(tune_events_open(&tuner->ring));
}

void strategy_tuner_begin(strategy_tuner *tuner) {
    if (!tuner->tunes) return;
    tune_launch next;
    DEVICE_CHECK(tune_events_begin(&tuner->ring, &tuner->t, NULL, &next));
    tuner->policy = policy_of(&next);
}

void strategy_tuner_end(strategy_tuner *tuner, double work) {
    if (tuner->tunes) DEVICE_CHECK(tune_events_end(&tuner->ring, &tuner->t, NULL, work));
}

strategy_report strategy_tuner_report(const strategy_tuner *tuner) {
    if (!tuner->tunes) return (strategy_report){.policy = tuner->policy};
    const tune_launch best = tune_best(&tuner->t);
    return (strategy_report){.policy = policy_of(&best),
                             .tuned = true,
                             .known = tuner->t.known,
                             .measured = tuner->t.measured,
                             .examinations = tuner->t.examinations,
                             .changes = tuner->t.changes,
                             .cost = tune_cost(&tuner->t)};
}

const char *strategy_report_source(const strategy_report *report) {
    if (!report->tuned) return "";
    return report->known ? " by the tuner" : " by a tuner that had too few iterations";
}

void strategy_tuner_close(strategy_tuner *tuner) {
    if (tuner->tunes) DEVICE_CHECK(tune_events_close(&tuner->ring));
    tuner->tunes = false;
}
