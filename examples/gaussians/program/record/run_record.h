// SPDX-License-Identifier: MIT
// The settings and the history of a training run, for its log and its report.
#pragma once

#include "cli/command_line.h"
#include "frame.h"
#include "trainer.h"

C_LINKAGE_BEGIN

// A name with a text, or with a number if text is NULL.
typedef struct run_setting {
    const char *name, *text; // not owned
    double number;
    bool changed; // is not the default
} run_setting;

// The run at a step, with means since the point before.
typedef struct run_point {
    int64_t iteration, gaussians;
    double seconds;              // of training, since the run began
    double loss;                 // mean
    double step_milliseconds;    // mean, on the host's clock
    double wait_milliseconds;    // mean; of these the host waited for the lists' lengths
    bool measured;               // whether `milliseconds` is set
    double milliseconds[STAGES]; // mean of a step, on the GPU
    distwar_policy policy;       // the best known so far
} run_point;

typedef struct run_evaluation {
    int64_t iteration;
    double seconds; // of training
    quality mean;   // over the held-out views
} run_evaluation;

// Means over training views that are set aside, and over as many beside them that are trained on.
typedef struct run_validation {
    int64_t iteration;
    double seconds; // of training
    quality aside, beside;
} run_validation;

enum { RUN_SETTINGS = 144 };

// Starts as {0}.
typedef struct run_record {
    size_t setting_count, point_count, point_room, evaluation_count, evaluation_room, validation_count,
        validation_room;
    run_setting settings[RUN_SETTINGS];
    run_point *points;
    run_evaluation *evaluations;
    run_validation *validations;
} run_record;

// Add a setting, at most RUN_SETTINGS in all. Texts must outlive the record.
void run_record_text(run_record *record, const char *name, const char *text);
void run_record_number(run_record *record, const char *name, double number);
// Adds the current value of every option. The table's texts and names must outlive the record. changed: for each, whether it
// has another value than its default; NULL: unknown.
void run_record_options(run_record *record, const option_spec *table, const bool *changed);
bool run_record_add_point(run_record *record, const run_point *point, fault *why);
bool run_record_add_evaluation(run_record *record, const run_evaluation *evaluation, fault *why);
bool run_record_add_validation(run_record *record, const run_validation *validation, fault *why);
// NULL if there was none.
const quality *run_record_last_quality(const run_record *record);
void run_record_close(run_record *record);

C_LINKAGE_END
