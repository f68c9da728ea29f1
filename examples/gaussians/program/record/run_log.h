// SPDX-License-Identifier: MIT
// Observes a training run: keeps its record, measures the held-out views, and writes both to a file as
// JSON, one line for each event:
//   {"event": "start", "splat": "0.1.0", "backend": "cuda", "gpu": "NVIDIA H200", "settings": {...}}
//   {"event": "step", "iteration": 200, "seconds": 1.25, "loss": 0.0412, "gaussians": 100000,
//    "step_ms": 5.9, "wait_ms": 2.1, "gpu_ms": {"project": 0.11, ...}, "reduce": "tree", "threshold": 0}
//   {"event": "density", "iteration": 600, "gaussians_before": 100000, "gaussians": 120311}
//   {"event": "evaluation", "iteration": 1000, "seconds": 6.1, "psnr": 27.31, "ssim": 0.8412, "views": 20}
//   {"event": "validation", "iteration": 1000, "seconds": 6.1, "views": 6, "psnr": 24.1, "ssim": 0.79,
//    "training_psnr": 30.2, "training_ssim": 0.91}
//   {"event": "checkpoint", "iteration": 1000, "file": "scene.checkpoint"}
//   {"event": "poses", "iteration": 7000, "views": 17, "seconds": 2.1, "before": {"mean_degrees": 1.0,
//    "largest_degrees": 1.0, "mean_extents": 0.01, "largest_extents": 0.01}, "sizes": [{"divided_by": 8,
//    "mean_degrees": 0.1, ...}, ...], "after": {...}}
//   {"event": "end", "iteration": 7000, "seconds": 41.3, "gaussians": 310544}
//
// step: means since the step line before. wait_ms: of step_ms the host waited for the lists' lengths. Without gpu_ms on
// the CPU and on several ranks. validation: means over the training views that are set aside, and over as many beside
// them that are trained on, without --exposure; none after those that were set aside are trained on. density: the number of Gaussians changed since the step line before. seconds: of
// training, without evaluations. psnr and ssim are those of held-out views, if they were measured. poses: how far those of the
// training views are from the data's, after the similarity between both: at the start, after refinement on each smaller
// size, which took `seconds`, and at the end.
#pragma once

#include "files/json_writer.h"
#include "record/run_record.h"
#include "trainer.h"
#include "camera.h"
#include <stdio.h>

typedef struct run_log_options {
    const char *path;       // NULL: no file
    bool append;            // to an existing file, for a resumed run
    int64_t every;          // steps between step lines, >= 1
    int64_t evaluate_every; // steps between evaluations; 0: at the end only
    const target_view *held_out;
    size_t held_out_count; // 0: nothing is evaluated
    float background[3];
    // Measures the held-out views; NULL: quality_measure of the state's Gaussians.
    bool (*measure)(void *context, quality *mean, fault *why);
    int64_t validate_every; // steps between measurements of the views that are set aside; 0: none is
    size_t set_aside;       // how many these are
    // Measures them, and as many beside them.
    bool (*validate)(void *context, quality *aside, quality *beside, fault *why);
    void *context;
} run_log_options;

// How the training views' poses changed; distances in extents of the scene.
typedef struct run_poses {
    size_t views;
    pose_difference before, after;
    int sizes;                                    // pictures on which poses were refined before
    int levels[POSE_MAX_LEVELS + 1];              // [sizes]: pictures were divided by 2^level
    pose_difference settled[POSE_MAX_LEVELS + 1]; // [sizes]: after each
    double seconds;                               // of these
} run_poses;

typedef struct run_log {
    run_log_options options;
    FILE *stream;
    int error; // errno of the first line that was not written; nothing is written after it; 0: none
    run_record record;
    int64_t last_step; // of the last point
    double last_seconds, last_waited;
    stage_clock last_clock;
    int64_t last_gaussians;
    bool moved; // of the caller: the held-out cameras or the Gaussians have moved since the last evaluation
} run_log;

// Add the settings to log->record before run_log_start.
bool run_log_open(run_log *log, const run_log_options *options, fault *why);
// Writes the first line. state: the start of training. If options.measure is given, this and the calls below read only
// the number of Gaussians and the iteration of a state.
void run_log_start(run_log *log, const training_state *state);
// run_log_observe must be called at least at every step that reaches or passes a multiple of this number.
int64_t run_log_interval(const run_log *log);
// For training_observer.observe.
bool run_log_observe(run_log *log, const training_state *state, const training_report *report, fault *why);
// Call after training. Adds the last point and the last evaluation if they are missing, and writes the last
// line.
bool run_log_finish(run_log *log, const training_state *state, const training_report *report, fault *why);
void run_log_poses(run_log *log, int64_t iteration, const run_poses *poses);
// Records an evaluation of the held-out views.
bool run_log_evaluation(run_log *log, const run_evaluation *evaluation, fault *why);
// A line of another event, between these two calls. False: there is no file, or an earlier line could not be written.
bool run_log_begin_line(const run_log *log, const char *event, json_writer *json);
void run_log_end_line(run_log *log, json_writer *json);
void run_log_checkpoint(run_log *log, int64_t iteration, const char *file);
// Fails if the file is incomplete. Harmless on {0}.
bool run_log_close(run_log *log, fault *why);

// The greatest common divisor of two intervals of steps. 0: no interval.
static inline int64_t common_divisor(int64_t a, int64_t b) {
    return b == 0 ? a : common_divisor(b, a % b);
}
