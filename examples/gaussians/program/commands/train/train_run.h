// SPDX-License-Identifier: MIT
// A run of `dsplat train`. Its parts are in train.c, and in train_ranks.c on several ranks.
#pragma once

#include "train_depth.h"
#include "train_options.h"
#include "train_poses.h"
#include "dataset.h"
#include "record/checkpoint.h"
#include "record/run_log.h"
#include "recipe.h"
#include "frames/target_view.h"

// A run of the command.
typedef struct train_run {
    const train_options *options;
    const option_spec *table; // of the options, for the checkpoint, the log and the report
    dataset data;
    view_split split;
    training_data known; // of the split
    train_poses poses;
    train_depth depth;
    char *key; // the checkpoint's settings
    budget_recipe budget;
    training_settings settings;
    int64_t finish_steps; // of --finish; under a budget those that it has time for
    training_state state;
    training_report report;
    run_log log;
    saver saver;
    int stopped_by; // the signal that ended training: no scene is written then; or 0
} train_run;

// What the command's options say about the log.
run_log_options train_log_options(const train_run *run);
// Adds the settings of the run to its record.
void train_record_settings(run_record *record, const train_run *run);
void train_say_stopped(const train_run *run, int64_t iteration); // on stderr
