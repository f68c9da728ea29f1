// SPDX-License-Identifier: MIT
// Strategies (distwar/strategy.h): the options --reduce, --threshold and --thresholds; lists of candidates, which a
// bench measures and a tuner chooses from; the tuner; device memory for sums.
#pragma once

#include "cli/command_line.h"
#include <distwar/strategy.h>
#include <distwar/tune.h>

C_LINKAGE_BEGIN

// On the CPU times say nothing about kernels: there nothing is tuned, and a program's defaults are small.
#ifdef DISTWAR_SIMT
enum { ON_CPU = 1 };
#else
enum { ON_CPU = 0 };
#endif

// ---- on a command line

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

#define THRESHOLD_HELP "least active lanes of a group that is summed in the warp; 33: none is"

// Rows of a table of options. at: int *, an index into the program's list. list: from strategy_names.
#define REDUCE_OPTION(at, list, text) OPTION("reduce", at, .choices = (list), .help = text)
#define AUTO_REDUCE_OPTION(at, list, text)                                                                   \
    REDUCE_OPTION(at, list, text "; auto: the one that a tuner finds fastest; on the CPU tree")
#define THRESHOLD_OPTION(at, text) OPTION("threshold", at, .maximum = MAX_THRESHOLD, .help = text)

// ---- candidates

enum { MAX_CANDIDATES = DISTWAR_STRATEGY_COUNT * MAX_THRESHOLDS };

typedef struct candidate_list {
    int count;
    distwar_policy rows[MAX_CANDIDATES];
} candidate_list;

// One strategy of the list, or all of them (DISTWAR_STRATEGY_COUNT), at each of the thresholds; a strategy
// without a threshold once, at 0. Order: that of the list, then that of the thresholds.
candidate_list candidates_of(const offered_strategy *offered, distwar_strategy which, const int *thresholds,
                             size_t threshold_count);
// What a tuner chooses from: the same without fixed, whose sums cost more because they are reproducible, and without cub,
// a rival. tree at threshold 0 comes first: it is in use until more is known.
candidate_list tuner_candidates(const offered_strategy *offered, const int *thresholds,
                                size_t threshold_count);

// ---- the tuner

// The policy of each launch: the only candidate, or the one that a tuner (distwar/tune.h) finds fastest while the
// program runs. On the CPU the first candidate stays.
typedef struct strategy_tuner {
    bool tunes;
    distwar_policy policy; // of the next launch, or of the last
    tuner t;
    tune_events ring;
} strategy_tuner;

// What tuning has found so far.
typedef struct strategy_report {
    distwar_policy policy; // the best known
    bool tuned;            // false: the policy was given, and all members of `by` are 0
    tuner by;
} strategy_report;

// candidates: 1..TUNE_MAX_CANDIDATES, all different. The first is in use until more is known. With one
// candidate nothing is tuned. Here and below, a failure of the device ends the program.
void strategy_tuner_open(strategy_tuner *tuner, const candidate_list *candidates);
// Right before and right after the launch on the default stream, which uses tuner->policy. work: what the
// launch's time is about proportional to, such as pixels.
void strategy_tuner_begin(strategy_tuner *tuner);
void strategy_tuner_end(strategy_tuner *tuner, double work);
strategy_report strategy_tuner_report(const strategy_tuner *tuner);
void strategy_tuner_close(strategy_tuner *tuner); // harmless on {0}

// ---- sums of K values for each key, which commit.cuh fills

// The strategies of sum_values (commit.cuh). cub: on a GPU only.
extern const offered_strategy sum_strategies[];

typedef struct sum_memory {
    int64_t keys;
    int values;       // K
    int stride;       // from one key to the next: K rounded up to a multiple of 4
    float *sums;      // [keys][stride], 16-byte aligned; the padding is 0
    long long *fixed; // [keys][stride], for DISTWAR_FIXED
    unsigned *flag;   // bits of distwar::fixed_flag, from DISTWAR_FIXED; never cleared
} sum_memory;

sum_memory sum_memory_open(int64_t keys, int values);
void sum_memory_close(sum_memory *memory);
// Fails if DISTWAR_FIXED has met a value that was NaN or too large since the memory was opened. Waits for the
// device.
bool sum_memory_is_exact(const sum_memory *memory, fault *why);

// [n]: the number of commits of a warp that had n active lanes, or n different keys among its active lanes.
typedef struct lane_histogram {
    unsigned long long active_lanes[33], distinct_keys[33];
} lane_histogram;

C_LINKAGE_END
