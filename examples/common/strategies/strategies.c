// SPDX-License-Identifier: MIT
#include "strategies.h"
#include "device.h"
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>

int offered_index(const offered_strategy *offered, distwar_strategy strategy) {
    int i = 0;
    while (offered[i].strategy != strategy && offered[i].strategy != DISTWAR_STRATEGY_COUNT) i++;
    return i;
}

bool offered_has_threshold(const offered_strategy *offered, distwar_strategy strategy) {
    const offered_strategy *const row = &offered[offered_index(offered, strategy)];
    return distwar_strategy_has_threshold(row->strategy) && !row->ignores_threshold;
}

const char *const *strategy_names(const offered_strategy *offered, const char *last, const char **names) {
    int i = 0;
    for (; offered[i].strategy != DISTWAR_STRATEGY_COUNT; i++)
        names[i] = distwar_strategy_name(offered[i].strategy);
    names[i] = last;
    names[i + 1] = NULL;
    return names;
}

bool parse_thresholds(const char *text, int out[MAX_THRESHOLDS], size_t *count, fault *why) {
    char *end;
    *count = 0;
    for (const char *rest = text; *count < MAX_THRESHOLDS; rest = end + 1) {
        const long value = strtol(rest, &end, 10); // LONG_MAX is too large too
        if (!isdigit((unsigned char)*rest) || value > MAX_THRESHOLD || (*end != ',' && *end != '\0')) break;
        out[(*count)++] = (int)value;
        if (*end == '\0') return true;
    }
    return fail(why, "--thresholds needs numbers from 0 to %d with commas between them, at most %d, not '%s'",
                MAX_THRESHOLD, MAX_THRESHOLDS, text);
}

// ---- candidates

candidate_list candidates_of(const offered_strategy *offered, distwar_strategy which, const int *thresholds,
                             size_t threshold_count) {
    candidate_list out = {.count = 0};
    for (const offered_strategy *row = offered; row->strategy != DISTWAR_STRATEGY_COUNT; row++) {
        if (which != DISTWAR_STRATEGY_COUNT && row->strategy != which) continue;
        const bool has_threshold = offered_has_threshold(offered, row->strategy);
        for (size_t t = 0; t < (has_threshold ? threshold_count : 1); t++)
            out.rows[out.count++] = (distwar_policy){row->strategy, has_threshold ? thresholds[t] : 0};
    }
    return out;
}

candidate_list tuner_candidates(const offered_strategy *offered, const int *thresholds,
                                size_t threshold_count) {
    const candidate_list all = candidates_of(offered, DISTWAR_STRATEGY_COUNT, thresholds, threshold_count);
    candidate_list out = {.count = 1, .rows = {{DISTWAR_TREE, 0}}};
    for (int i = 0; i < all.count; i++) {
        const distwar_policy p = all.rows[i];
        const bool first = p.strategy == DISTWAR_TREE && p.balance_threshold == 0;
        if (!first && p.strategy != DISTWAR_FIXED && p.strategy != DISTWAR_CUB) out.rows[out.count++] = p;
    }
    return out;
}

// ---- the tuner

static distwar_policy policy_of(const tune_launch *launch) {
    return (distwar_policy){(distwar_strategy)launch->strategy, launch->threshold};
}

void strategy_tuner_open(strategy_tuner *tuner, const candidate_list *candidates) {
    assert(candidates->count >= 1 && candidates->count <= TUNE_MAX_CANDIDATES);
    *tuner = (strategy_tuner){.policy = candidates->rows[0]};
    tune_candidate all[TUNE_MAX_CANDIDATES];
    for (int i = 0; i < candidates->count; i++)
        all[i] = (tune_candidate){candidates->rows[i].strategy, candidates->rows[i].balance_threshold};
    const bool different = tune_init(&tuner->t, all, candidates->count);
    assert(different);
    (void)different;
    tuner->tunes = candidates->count > 1 && !ON_CPU;
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
    return (strategy_report){policy_of(&best), true, tuner->t};
}

void strategy_tuner_close(strategy_tuner *tuner) {
    if (tuner->tunes) DEVICE_CHECK(tune_events_close(&tuner->ring));
    tuner->tunes = false;
}

// ---- sums

const offered_strategy sum_strategies[] = {DISTWAR_STRATEGIES(OFFERED_ROW) // of reduce<>
                                           {.strategy = DISTWAR_VECTOR},
                                           {.strategy = DISTWAR_FIXED},
#ifndef DISTWAR_SIMT
                                           {.strategy = DISTWAR_CUB},
#endif
                                           {.strategy = DISTWAR_STRATEGY_COUNT}};

sum_memory sum_memory_open(int64_t keys, int values) {
    const int stride = (values + 3) / 4 * 4;
    const size_t count = (size_t)keys * (size_t)stride;
    sum_memory out = {.keys = keys,
                      .values = values,
                      .stride = stride,
                      .sums = device_allocate(count * sizeof *out.sums),
                      .fixed = device_allocate(count * sizeof *out.fixed),
                      .flag = device_allocate(sizeof *out.flag)};
    device_clear(out.sums, count * sizeof *out.sums);
    device_clear(out.flag, sizeof *out.flag);
    return out;
}

void sum_memory_close(sum_memory *memory) {
    device_free(memory->flag);
    device_free(memory->fixed);
    device_free(memory->sums);
    *memory = (sum_memory){0};
}

bool sum_memory_is_exact(const sum_memory *memory, fault *why) {
    unsigned flag;
    device_download(&flag, memory->flag, sizeof flag);
    return flag == 0 ||
           fail(why, "a gradient was NaN or too large for its fixed-point sum; --reduce tree has no limit");
}
