// SPDX-License-Identifier: MIT
// Strategies (distwar/strategy.h) for a kernel that adds gradients: memory for its sums, which strategies and thresholds a
// bench measures and a tuner chooses from, and what each costs: times of runs on a GPU; on the CPU, where times say nothing
// about kernels, counts of instructions.
#pragma once

#include "files/json_writer.h"
#include <distwar/strategy.h>
#include <stddef.h>

C_LINKAGE_BEGIN

// What kernels do is counted, and nothing is tuned.
#ifdef DISTWAR_SIMT
enum { KERNELS_ARE_COUNTED = 1 };
#else
enum { KERNELS_ARE_COUNTED = 0 };
#endif

// ---- sums of K values for each key, which commit.cuh fills

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

// ---- candidates

enum {
    MAX_THRESHOLD = 33, // sums nothing in the warp
    MAX_THRESHOLDS = MAX_THRESHOLD + 1,
    MAX_CANDIDATES = DISTWAR_STRATEGY_COUNT * MAX_THRESHOLDS,
    STRATEGY_NAMES = DISTWAR_STRATEGY_COUNT + 2
};

// The strategies of sum_values (commit.cuh), cub on a GPU only. DISTWAR_STRATEGY_COUNT ends them; as a choice it stands for
// all of them, or for the tuner.
extern const distwar_strategy sum_strategies[];

// Fills names[STRATEGY_NAMES] for OPTION_CHOICE and returns it: those of sum_strategies, then `last`, then NULL.
// *last_index: of `last`.
const char *const *strategy_names(const char *last, const char **names, int *last_index);

typedef struct candidate_list {
    int count;
    distwar_policy rows[MAX_CANDIDATES];
} candidate_list;

// One of sum_strategies, or all (DISTWAR_STRATEGY_COUNT), at each of the thresholds; a strategy without a threshold once,
// at 0. Order: that of sum_strategies, then that of the thresholds, "0,8,16": each 0..MAX_THRESHOLD, at most MAX_THRESHOLDS
// of them. Fails, as --thresholds, if they are anything else.
bool candidates_read(distwar_strategy which, const char *thresholds, candidate_list *out, fault *why);
// What a tuner chooses from: tree at threshold 0 first, which is in use until more is known; without fixed, whose sums cost
// more because they are reproducible; and without cub, a rival.
candidate_list tuner_candidates(void);

// ---- what they cost

// What is measured. Work is queued on the default stream.
typedef struct strategy_subject {
    void *context;
    size_t view_count;                           // >= 1
    void (*prepare)(void *context, size_t view); // runs everything before the kernel
    // Runs the kernel on the view prepared last, including the clearing of its sums. lanes: as sum_values has them.
    void (*run)(void *context, distwar_policy policy, lane_histogram *lanes);
} strategy_subject;

// On a GPU times in milliseconds: mean, least and most of the views' medians; the noise of runs, which is the largest
// (slowest - fastest) / median of a view. On the CPU means over the views, rounded down: adds of atomics by lanes, bytes
// of them; instructions of warps, which are atomics, shuffles and votes.
typedef struct strategy_cost {
    double value[5];
} strategy_cost;
enum { COST_MEAN, COST_LEAST, COST_MOST, COST_NOISE };

// Adds view `view` of `views` to the times of all. Sorts the times of its runs; count >= 1.
void strategy_cost_add(strategy_cost *all, size_t view, size_t views, double *milliseconds, size_t count);

typedef struct strategy_costs {
    size_t view_count;
    candidate_list candidates;
    strategy_cost costs[MAX_CANDIDATES];
    lane_histogram lanes; // of all views
} strategy_costs;

enum { MAX_RUNS = 1000 };

// A row for each candidate. On a GPU a view's time is the median of `runs` runs, 1..MAX_RUNS, after one to warm up; before
// each run the L2 cache is overwritten. On the CPU: one run.
void strategy_costs_measure(const strategy_subject *subject, const candidate_list *candidates, int runs,
                            strategy_costs *out);
void strategy_costs_print(const strategy_costs *costs); // on stdout
// Adds its members to the open object.
void strategy_costs_describe(json_writer *json, const strategy_costs *costs);

C_LINKAGE_END
