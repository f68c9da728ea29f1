// SPDX-License-Identifier: MIT
// A run of `dsplat train`. train.c has its data and settings, train_run.c what each rank does.
#pragma once

#include "train_depth.h"
#include "train_options.h"
#include "train_poses.h"
#include "dataset.h"
#include "checkpoint.h"
#include "record/run_log.h"
#include "plan.h"
#include "views.h"
#include "start.h"

// A run of the command.
typedef struct train_run {
    const train_options *options;
    const option_spec *table; // of the options, for the checkpoint, the log and the report
    const option_spec *usual; // the same with all defaults
    const bool *changed;      // of each, whether it is not the default
    dataset data;
    view_split split;
    bool at_random;       // the start, because of --random or because there are no points
    stereo_result stereo; // of data without points; 0 views: it was not tried
    double stereo_seconds;
    validation_views validation; // of its training views: --validate
    training_data known;         // of the split
    train_poses poses;
    train_depth depth;
    char *key, *default_key; // the checkpoint's settings
    budget_recipe budget;
    training_settings settings;
    int64_t first_gaussians; // before the first step
    const training_way *way; // of several ranks; NULL: of one
    training_memory memory;  // of a GPU
    training_state state;
    training_report report;
    run_log log;
    saver saver;
    int stopped_by; // the signal that ended training: no scene is written then; or 0
} train_run;

// From the start to the files, which rank 0 writes. run: with the data, whose views are on the host only, and prepared;
// each rank has its own copy. host: the first Gaussians, if the run does not resume. False after ranks_fail.
bool train_as_rank(train_run *run, const gs_gaussians *host, ranks *group);
