// SPDX-License-Identifier: MIT
// What a kernel costs with each strategy and threshold: times of runs on a GPU; on the CPU, where times say nothing about
// kernels, counts of instructions. Also how many lanes of its warps are active, and how many different keys they hold.
#pragma once

#include "cli/options.h"
#include "files/json_writer.h"
#include "kernel_counts.h"
#include "strategy_options.h"
#include "sum_memory.h"
#include "timing.h"

C_LINKAGE_BEGIN

// What is measured. Work is queued on the default stream.
typedef struct strategy_subject {
    void *context;
    size_t view_count; // >= 1
    // Runs everything before the kernel.
    void (*prepare)(void *context, size_t view);
    // Runs the kernel on the view prepared last, including the clearing of its sums.
    void (*run)(void *context, distwar_policy policy);
    // Runs the same with commit_lane_counts; NULL: lanes are not counted.
    void (*count_lanes)(void *context, lane_histogram *device);
} strategy_subject;

typedef struct strategy_cost {
    strategy_candidate candidate;
    timing_summary time;  // on a GPU, over the views
    kernel_counts counts; // on the CPU, means over the views
} strategy_cost;

typedef struct strategy_costs {
    bool counted; // on the CPU; else timed
    bool has_lanes;
    size_t view_count;
    int count;
    strategy_cost *rows;  // [count]
    lane_histogram lanes; // of all views
} strategy_costs;

enum { MAX_RUNS = 1000 };

// A row for each candidate. On a GPU a view's time is the median of `runs` runs, 1..MAX_RUNS, after one to warm up; before
// each run the L2 cache is overwritten. On the CPU: one run. Close it also after a failure.
bool strategy_costs_measure(const strategy_subject *subject, const candidate_list *candidates, int runs,
                            strategy_costs *out, fault *why);
void strategy_costs_close(strategy_costs *costs);
void strategy_costs_print(const strategy_costs *costs, const char *title); // on stdout; title: "One run"
// Adds its members to the open object.
void strategy_costs_describe(json_writer *json, const strategy_costs *costs);

// The options of a command that measures.
typedef struct cost_options {
    const char *thresholds;
    const char *json; // NULL: no --json
    int64_t runs;
    int reduce; // index into sum_strategies
    const char *names[STRATEGY_NAMES];
} cost_options;

cost_options cost_options_default(void);
// Adds --reduce, --thresholds, --repeat and --json.
void cost_options_add(cost_options *options, option_table *table);
// What the options ask for. Fails if --thresholds is not a list of thresholds.
bool cost_options_read(const cost_options *options, candidate_list *out, fault *why);

C_LINKAGE_END
