// SPDX-License-Identifier: MIT
// Measures what each stage of a training step costs on a scene. The protocol is in dsplat bench --help.
#pragma once

#include "strategies/strategy_costs.h"
#include "frames/frame.h"
#include "measure/bench_views.h"
#include "files/json_writer.h"

typedef struct bench_settings {
    const candidate_list *candidates; // of the backward blend
    int runs;                         // timed runs of each measurement, for the median; 1..MAX_RUNS
    float background[3];
} bench_settings;

#define BLEND_TITLE "The backward blend of one view"
// Runs the backward blend of the view that `f` has rendered, from the gradient that `f` has.
strategy_runner blend_runner(frame *f);

// What is timed beside the stages. STAGE_DENSITY is not.
enum { BENCH_SUM = STAGES, BENCH_END_TO_END, BENCH_TIMES };

typedef struct bench_view {
    int64_t visible; // splats that were not culled
    int64_t pairs;   // entries of all tiles' lists
} bench_view;

typedef struct bench_result {
    size_t view_count;
    bench_view *views; // [view_count]
    cost_table table;
    // Device memory a stage writes to, with its workspace, after all views; gradients count as project
    // backward's, its moments as Adam's.
    size_t bytes[STAGES], parameter_bytes;
    // On a GPU, of the fastest row of the table:
    size_t fastest;
    timing *times[BENCH_TIMES]; // [view_count] each; NULL where nothing is timed
} bench_result;

// gaussians: device, count >= 1; view_count >= 1. Every SH degree that is stored. Closed also after a
// failure.
bool bench_run(const gs_gaussians *gaussians, const gs_camera *cameras, size_t view_count,
               const bench_settings *settings, bench_result *out, fault *why);
void bench_result_close(bench_result *result);

// The results, for people and for programs.
typedef struct bench_report {
    const char *path;          // of the scene
    const gs_gaussians *scene; // count and sh_degree, which is evaluated, are read
    const bench_view_options *options;
    const bench_views *views;
    const bench_settings *settings;
    const bench_result *result;
} bench_report;

void bench_report_print(const bench_report *report); // on stdout
void bench_report_describe(json_writer *json, const void *report);
// The members of both benches: what is measured, and on what.
void bench_subject_describe(json_writer *json, const char *path, const gs_gaussians *scene,
                            const char *cameras);
