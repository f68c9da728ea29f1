// SPDX-License-Identifier: MIT
// Strategies (distwar/strategy.h) on a command line: the options --reduce, --threshold and --thresholds, and
// the lists of candidates that a bench measures and a tuner chooses from.
#pragma once

#include "cli/options.h"
#include <distwar/strategy.h>
#include <stddef.h>

C_LINKAGE_BEGIN

// A strategy that a program offers. A program's list ends with a row {DISTWAR_STRATEGY_COUNT}. As a choice,
// that row stands for all strategies ("all") or for the tuner ("auto").
typedef struct offered_strategy {
    distwar_strategy strategy;
    bool ignores_threshold; // the program's kernels ignore the threshold that strategy.h gives the strategy
} offered_strategy;

// DISTWAR_STRATEGIES(OFFERED_ROW): rows for the strategies of reduce<>, for a program's list.
#define OFFERED_ROW(name, NAME, has_threshold, has_call) DISTWAR_IF_##has_call({.strategy = DISTWAR_##NAME}, )

// True if a threshold changes what the strategy does in the program that offers it.
bool offered_has_threshold(const offered_strategy *offered, distwar_strategy strategy);
// The index of the strategy's row, as OPTION_CHOICE stores it. DISTWAR_STRATEGY_COUNT: the last row.
int offered_index(const offered_strategy *offered, distwar_strategy strategy);

enum { STRATEGY_NAMES = DISTWAR_STRATEGY_COUNT + 2 };

// Fills names[STRATEGY_NAMES] for OPTION_CHOICE and returns it: the names in the order of the list, then
// `last` ("all" or "auto"; NULL: none), then NULL.
const char *const *strategy_names(const offered_strategy *offered, const char *last, const char **names);

enum {
    MAX_THRESHOLD = 33, // sums nothing in the warp
    MAX_THRESHOLDS = MAX_THRESHOLD + 1
};

// Reads --thresholds: "0,8,16", each 0..MAX_THRESHOLD, at most MAX_THRESHOLDS of them.
bool parse_thresholds(const char *text, int out[MAX_THRESHOLDS], size_t *count, fault *why);

#define REDUCE_HELP "strategy by which the adjoint adds gradients"
#define THRESHOLD_HELP "least active lanes of a group that is summed in the warp; 33: none is"

// Rows of a table of options. at: int *, an index into the program's list. list: from strategy_names.
#define REDUCE_OPTION(at, list, text) OPTION("reduce", at, .choices = (list), .help = text)
#define AUTO_REDUCE_OPTION(at, list, text)                                                                   \
    REDUCE_OPTION(at, list, text "; auto: as a tuner finds while training runs, on the CPU tree")
#define THRESHOLD_OPTION(at, text) OPTION("threshold", at, .maximum = MAX_THRESHOLD, .help = text)

typedef struct strategy_candidate {
    distwar_policy policy;
    bool has_threshold; // else policy.balance_threshold is 0
} strategy_candidate;

enum { MAX_CANDIDATES = DISTWAR_STRATEGY_COUNT * MAX_THRESHOLDS };

typedef struct candidate_list {
    int count;
    strategy_candidate rows[MAX_CANDIDATES];
} candidate_list;

// One strategy of the list, or all of them (DISTWAR_STRATEGY_COUNT), at each of the thresholds; a strategy
// without a threshold once. Order: that of the list, then that of the thresholds.
candidate_list candidates_of(const offered_strategy *offered, distwar_strategy which, const int *thresholds,
                             size_t threshold_count);
// What a tuner chooses from: the same, but tree at threshold 0 comes first, which is in use until more is
// known; without fixed, whose sums cost more because they are reproducible; and without cub, a rival.
candidate_list tuner_candidates(const offered_strategy *offered, const int *thresholds,
                                size_t threshold_count);
// The one candidate.
candidate_list candidate_alone(distwar_policy policy);

C_LINKAGE_END
