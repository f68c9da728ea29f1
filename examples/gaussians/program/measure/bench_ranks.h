// SPDX-License-Identifier: MIT
// Measures what a training step costs on several ranks: the stages of sharded_backward.
#pragma once

#include "files/json_writer.h"
#include "sharded.h"
#include "timing.h"

typedef struct rank_bench_settings {
    distwar_policy policy;
    int views; // of a step, 1..GS_MAX_VIEWS; 0: one per rank
    int runs;  // timed runs of each step, for the median; 1..MAX_RUNS
    float background[GS_CHANNELS];
} rank_bench_settings;

// The times of SHARDED_STAGES, and of a step that does not wait after each stage.
enum { RANK_BENCH_STEP = SHARDED_STAGES, RANK_BENCH_TIMES };

// A step on some views.
typedef struct rank_bench_step {
    size_t first;
    int views;
    int64_t bytes_sent, pairs;      // of all ranks
    timing times[RANK_BENCH_TIMES]; // of the slowest rank
} rank_bench_step;

typedef struct rank_bench_result {
    size_t step_count;
    rank_bench_step *steps;
} rank_bench_result;

// A collective. host: the whole scene, the same on all ranks. A step takes views that follow each other and have one
// size and model; fewer at the end. All ranks get the result. Closed also after a failure, which is
// told by ranks_fail.
bool rank_bench_run(ranks *group, const gs_gaussians *host, const gs_camera *cameras, size_t view_count,
                    const rank_bench_settings *settings, rank_bench_result *out);
void rank_bench_result_close(rank_bench_result *result);

const char *rank_bench_name(int time); // of 0..RANK_BENCH_TIMES - 1
timing_summary rank_bench_summary(const rank_bench_result *result, int time);
