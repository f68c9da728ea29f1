// SPDX-License-Identifier: MIT
// What an adjoint costs with each candidate: times on a GPU, counts on the CPU (strategy_costs.h). It also
// counts what the adjoint's warps meet: how many lanes are active, and how many different keys they hold. On
// a GPU a tuner can then choose a candidate, and the report says how good its choice was.
#pragma once

#include "strategy_costs.h"
#include "sum_memory.h"

C_LINKAGE_BEGIN

// The adjoint to measure. Work is queued on the default stream.
typedef struct bench_subject {
    void *context;
    size_t view_count; // >= 1
    // Runs everything before the adjoint; returns what the adjoint's time is about proportional to.
    double (*prepare)(void *context, size_t view);
    // Runs the adjoint of the view prepared last, including the clearing of its sums.
    void (*run)(void *context, distwar_policy policy);
    // Runs the same with commit_lane_counts.
    void (*count_lanes)(void *context, lane_histogram *device);
} bench_subject;

typedef struct bench_plan {
    candidate_list measured;
    candidate_list tuned; // what the tuner chooses from; count 0: no tuner
    int runs;             // timed runs of a candidate and view, 1..MAX_RUNS
} bench_plan;

typedef struct strategy_bench {
    cost_table table;
    lane_histogram lanes; // of all views
    // On a GPU, if there was a tuner:
    bool tuned;
    size_t tuner_row;   // the tuner's choice
    size_t fastest_row; // the fastest row of a strategy that the tuner chose from
    int64_t tuner_launches;
    double tuner_cost; // milliseconds, see tune_cost
} strategy_bench;

// Close it also after a failure.
bool strategy_bench_run(const bench_subject *subject, const bench_plan *plan, strategy_bench *out,
                        fault *why);
void strategy_bench_close(strategy_bench *bench);
void strategy_bench_print(const strategy_bench *bench); // on stdout
// Adds its members to the open object.
void strategy_bench_describe(json_writer *json, const strategy_bench *bench);

C_LINKAGE_END
