// SPDX-License-Identifier: MIT
#include "training/reduction_choice.h"
#include "device.h"
#include "view/reduction_option.h"

static int list_candidates(tune_candidate *candidates) {
    int count = 0;
    candidates[count++] = (tune_candidate){DISTWAR_TREE, 0};
    for (int reduction = 0; reduction < DISTWAR_STRATEGY_COUNT; reduction++) {
        // fixed costs more, for sums that are reproducible
        if (!gs_has_strategy((distwar_strategy)reduction) || reduction == DISTWAR_FIXED) continue;
        for (int threshold = 0; threshold < 32; threshold += 4) {
            if (threshold > 0 && !reduction_has_threshold((distwar_strategy)reduction)) break;
            if (reduction == DISTWAR_TREE && threshold == 0) continue; // the first
            candidates[count++] = (tune_candidate){reduction, threshold};
        }
    }
    return count;
}

void reduction_choice_open(reduction_choice *choice, distwar_strategy reduction, int threshold) {
    *choice = (reduction_choice){.reduction = reduction, .threshold = threshold};
    if (reduction != DISTWAR_STRATEGY_COUNT) return;
    tune_candidate candidates[TUNE_MAX_CANDIDATES];
    _Static_assert(8 * DISTWAR_STRATEGY_COUNT <= TUNE_MAX_CANDIDATES, "candidates");
    tune_init(&choice->t, candidates, list_candidates(candidates));
    tune_launch first = tune_best(&choice->t);
    choice->reduction = (distwar_strategy)first.strategy;
    choice->threshold = first.threshold;
    choice->tunes = strcmp(gs_backend(), "cuda") == 0;
    if (choice->tunes) DEVICE_CHECK(tune_events_open(&choice->ring));
}

void reduction_choice_begin(reduction_choice *choice) {
    if (!choice->tunes) return;
    tune_launch next;
    DEVICE_CHECK(tune_events_begin(&choice->ring, &choice->t, NULL, &next));
    choice->reduction = (distwar_strategy)next.strategy;
    choice->threshold = next.threshold;
}

void reduction_choice_end(reduction_choice *choice, int64_t pairs) {
    if (choice->tunes) DEVICE_CHECK(tune_events_end(&choice->ring, &choice->t, NULL, (double)pairs));
}

reduction_report reduction_choice_report(const reduction_choice *choice) {
    if (!choice->tunes)
        return (reduction_report){.reduction = choice->reduction, .threshold = choice->threshold};
    const tuner *t = &choice->t;
    tune_launch best = tune_best(t);
    return (reduction_report){.reduction = (distwar_strategy)best.strategy,
                              .threshold = best.threshold,
                              .tuned = true,
                              .known = t->known,
                              .measured = t->measured,
                              .examinations = t->examinations,
                              .changes = t->changes,
                              .cost = tune_cost(t)};
}

void reduction_choice_close(reduction_choice *choice) {
    if (choice->tunes) DEVICE_CHECK(tune_events_close(&choice->ring));
    choice->tunes = false;
}
