// SPDX-License-Identifier: MIT
// The record of a training run: what was seen of it. A run_log observes a run, keeps its record, measures the
// held-out views, and writes all to a file as JSON, one line for each event:
//   {"event": "start", "dsplat": "0.3.0", "backend": "cuda", "gpu": "NVIDIA H200", "settings": {...}}
//   {"event": "step", "iteration": 200, "seconds": 1.25, "loss": 0.0412, "gaussians": 100000, "iteration_ms": 5.9,
//    "wait_ms": 2.1, "gpu_ms": {"project": 0.11, ...}, "reduce": "tree", "threshold": 0}
//   {"event": "density", "iteration": 600, "gaussians_before": 100000, "gaussians": 120311}
//   {"event": "evaluation", "iteration": 1000, "seconds": 6.1, "views": 20, "psnr": 27.31, "ssim": 0.8412}
//   {"event": "validation", "iteration": 1000, "seconds": 6.1, "views": 6, "psnr": 24.1, "ssim": 0.79,
//    "training_psnr": 30.2, "training_ssim": 0.91}
//   {"event": "checkpoint", "iteration": 1000, "file": "scene.checkpoint"}
//   {"event": "poses", "iteration": 7000, "views": 17, "seconds": 2.1, "before": {"mean_degrees": 1.0,
//    "largest_degrees": 1.0, "mean_extents": 0.01, "largest_extents": 0.01}, "sizes": [{"divided_by": 8,
//    "mean_degrees": 0.1, ...}, ...], "after": {...}}
//   {"event": "end", "iteration": 7000, "seconds": 41.3, "gaussians": 310544}
//
// step: means since the step line before. An iteration is one view; a step changes the scene once, after one view or several.
// iteration_ms, wait_ms: of an iteration, and what of it the host waited for the lists' lengths. gpu_ms: of a step; not on the
// CPU and on several ranks. validation: means over the validation views, and over as many that are trained on, without
// --exposure; none once the validation views are trained on. density: the number of Gaussians changed since the step line
// before. seconds: of training, without evaluations. psnr and ssim are those of held-out views, if they were measured.
// poses: how far those of the training views are from the data's, after the similarity between both: at the start, after
// refinement on each smaller size, which took `seconds`, and at the end.
#pragma once

#include "camera.h"
#include "cli/command_line.h"
#include "files/json_writer.h"
#include "frame.h"
#include "trainer.h"
#include <stdio.h>

C_LINKAGE_BEGIN

// ---- the record

typedef enum run_event { RUN_STEP, RUN_EVALUATION, RUN_VALIDATION } run_event;

// What was seen at an iteration. Members of other events are 0.
typedef struct run_point {
    run_event event;
    int64_t iteration;
    double seconds; // of training
    // RUN_STEP: means since the point before.
    double gaussians, loss;        // NaN: unknown, as of a file's line
    double iteration_milliseconds; // likewise; on the host's clock
    double wait_milliseconds;      // of an iteration; of these the host waited for the lists' lengths
    bool measured;                 // whether `milliseconds` is set
    double milliseconds[STAGES];   // of a step, on the GPU
    distwar_policy policy;         // the best known so far
    quality mean;                  // of the held-out views; RUN_VALIDATION: of the validation views
    quality training;              // RUN_VALIDATION: of as many views that are trained on
} run_point;

typedef struct run_record {
    size_t count, room;
    run_point *points; // [count]; of one event iterations do not fall
} run_record;          // starts as {0}

bool run_record_add(run_record *record, const run_point *point, fault *why);
// The last point of an event. NULL if there was none.
const run_point *run_record_last(const run_record *record, run_event event);
void run_record_close(run_record *record);

// ---- the log

typedef struct run_log_options {
    const char *path;       // NULL: no file
    bool append;            // to an existing file, for a resumed run
    int64_t every;          // iterations between step lines, >= 1
    int64_t evaluate_every; // iterations between evaluations; 0: at the end only
    shown_views shown;      // all views, which must outlive the log
    size_t first, held_out; // those held out, from the first on; none: nothing is evaluated
    int64_t validate_every; // iterations between measurements of the validation views; 0: there are none
    const validation_views *validation; // of `shown`: these, and as many that are trained on
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
    training_report last; // at the last point; its losses are not there
    int64_t last_gaussians;
    bool moved; // of the caller: the held-out cameras or the Gaussians have moved since the last evaluation
} run_log;

// A name with a text, or with a number if text is NULL.
typedef struct run_setting {
    const char *name, *text;
    double number;
} run_setting;

bool run_log_open(run_log *log, const run_log_options *options, fault *why);
// Writes the first line. state: the start of training. more: settings beside the options of the table, up to one without a
// name.
void run_log_start(run_log *log, const training_state *state, const run_setting *more,
                   const option_spec *table);
// run_log_observe must be called at least at every step that reaches or passes a multiple of this number.
int64_t run_log_interval(const run_log *log);
// For training_observer.observe.
bool run_log_observe(run_log *log, const training_state *state, const training_report *report, fault *why);
// Call after training. Adds the last point and the last evaluation if they are missing, and writes the last line.
bool run_log_finish(run_log *log, const training_state *state, const training_report *report, fault *why);
void run_log_poses(run_log *log, int64_t iteration, const run_poses *poses);
// Records an evaluation of the held-out views: iteration, seconds and mean are read.
bool run_log_evaluation(run_log *log, const run_point *evaluation, fault *why);
// A line of another event, between these two calls. False: there is no file, or an earlier line could not be written.
bool run_log_begin_line(const run_log *log, const char *event, json_writer *json);
void run_log_end_line(run_log *log, json_writer *json);
void run_log_checkpoint(run_log *log, int64_t iteration, const char *file);
// Fails if the file is incomplete. Harmless on {0}.
bool run_log_close(run_log *log, fault *why);

// The greatest common divisor of two intervals. 0: no interval.
static inline int64_t common_divisor(int64_t a, int64_t b) {
    return b == 0 ? a : common_divisor(b, a % b);
}

C_LINKAGE_END
