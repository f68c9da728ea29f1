// SPDX-License-Identifier: MIT
#include "strategy_options.h"
#include <errno.h>
#include <stdlib.h>

int offered_index(const offered_strategy *offered, distwar_strategy strategy) {
    int i = 0;
    while (offered[i].strategy != strategy && offered[i].strategy != DISTWAR_STRATEGY_COUNT) i++;
    return i;
}

static bool has_threshold(const offered_strategy *row) {
    return distwar_strategy_has_threshold(row->strategy) && !row->ignores_threshold;
}

bool offered_has_threshold(const offered_strategy *offered, distwar_strategy strategy) {
    return has_threshold(&offered[offered_index(offered, strategy)]);
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
    const char *rest = text;
    for (*count = 0; *count < MAX_THRESHOLDS;) {
        char *end;
        errno = 0;
        long value = strtol(rest, &end, 10);
        bool digits = rest[0] >= '0' && rest[0] <= '9' && errno == 0;
        if (!digits || value > MAX_THRESHOLD || (*end != ',' && *end != '\0')) break;
        out[(*count)++] = (int)value;
        if (*end == '\0') return true;
        rest = end + 1;
    }
    return fail(why, "--thresholds needs numbers from 0 to %d with commas between them, at most %d, not '%s'",
                MAX_THRESHOLD, MAX_THRESHOLDS, text);
}

static void add(candidate_list *list, const offered_strategy *row, const int *thresholds, size_t count) {
    if (!has_threshold(row)) {
        list->rows[list->count++] = (strategy_candidate){.policy = {row->strategy, 0}};
        return;
    }
    for (size_t t = 0; t < count; t++)
        list->rows[list->count++] =
            (strategy_candidate){.policy = {row->strategy, thresholds[t]}, .has_threshold = true};
}

candidate_list candidates_of(const offered_strategy *offered, distwar_strategy which, const int *thresholds,
                             size_t threshold_count) {
    candidate_list out = {.count = 0};
    for (; offered->strategy != DISTWAR_STRATEGY_COUNT; offered++)
        if (which == DISTWAR_STRATEGY_COUNT || offered->strategy == which)
            add(&out, offered, thresholds, threshold_count);
    return out;
}

candidate_list tuner_candidates(const offered_strategy *offered, const int *thresholds,
                                size_t threshold_count) {
    const candidate_list all = candidates_of(offered, DISTWAR_STRATEGY_COUNT, thresholds, threshold_count);
    candidate_list out = {.count = 1, .rows = {{.policy = {DISTWAR_TREE, 0}, .has_threshold = true}}};
    for (int i = 0; i < all.count; i++) {
        const distwar_policy p = all.rows[i].policy;
        const bool first = p.strategy == DISTWAR_TREE && p.balance_threshold == 0;
        if (!first && p.strategy != DISTWAR_FIXED && p.strategy != DISTWAR_CUB)
            out.rows[out.count++] = all.rows[i];
    }
    return out;
}

candidate_list candidate_alone(distwar_policy policy) {
    return (candidate_list){.count = 1, .rows = {{.policy = policy}}};
}
