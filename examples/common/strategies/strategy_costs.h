// SPDX-License-Identifier: MIT
// What a kernel costs with each strategy and threshold: times of runs on a GPU; on the CPU, where times say nothing about
// kernels, counts of instructions. Also how many lanes of its warps are active, and how many different keys they hold.
#pragma once

#include "files/json_writer.h"
#include "strategies.h"

C_LINKAGE_BEGIN

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
