// SPDX-License-Identifier: MIT
// What an adjoint costs with each reduction and threshold: time on a GPU, where it also lets a tuner choose
// and says how good its choice was; counts on the CPU. And what its warps meet: how many lanes are active,
// how many keys they hold.
//
// Times are GPU times by events: the median over the runs of a view, after one to warm up, then the mean over
// views. Before each run twice the L2 cache is overwritten.
#ifndef COMMON_REDUCTION_BENCH_H
#define COMMON_REDUCTION_BENCH_H

#include "json_writer.h"
#include "kernel_counts.h"
#include "reduction.h"
#include "sum_memory.h"
#include "timing.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_RUNS = 1000 };

// The adjoint to measure. Work is queued on the default stream.
typedef struct bench_subject {
    void *context;
    size_t view_count; // >= 1
    // Everything before the adjoint; returns what its time is about proportional to.
    double (*prepare)(void *context, size_t view);
    // The adjoint of the view prepared last, with the clearing of its sums.
    void (*run)(void *context, reduction which, int threshold);
    // The same with commit_lane_counts.
    void (*count_lanes)(void *context, lane_histogram *device);
} bench_subject;

typedef struct bench_settings {
    reduction which; // REDUCTIONS: all of them, and the tuner
    int thresholds[MAX_THRESHOLDS];
    size_t threshold_count;
    int runs; // of everything timed, for the median; 1..MAX_RUNS
} bench_settings;

typedef struct bench_row {
    reduction which;
    int threshold;         // 0 if it has none
    timing *times;         // [view_count], on a GPU
    kernel_counts *counts; // [view_count], on the CPU
} bench_row;

typedef struct reduction_bench {
    bool counts; // as on the CPU; else times
    size_t view_count, row_count;
    bench_row *rows;
    lane_histogram lanes; // of all views
    bool tuned;           // the next three are known
    size_t tuner_row;     // the tuner's choice
    int64_t tuner_launches;
    double tuner_cost; // milliseconds, see tune_cost
} reduction_bench;

// Closed also after a failure.
bool reduction_bench_run(const bench_subject *subject, const bench_settings *settings, reduction_bench *out,
                         fault *why);
void reduction_bench_close(reduction_bench *bench);
void reduction_bench_print(const reduction_bench *bench); // on stdout
// Adds its members to the open object.
void reduction_bench_describe(json_writer *json, const reduction_bench *bench);

#ifdef __cplusplus
}
#endif
#endif
