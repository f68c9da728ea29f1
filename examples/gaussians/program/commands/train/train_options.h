// SPDX-License-Identifier: MIT
// The options of `dsplat train`.
#pragma once

#include "commands/on_ranks.h"
#include "plan.h"
#include "frame.h"

C_LINKAGE_BEGIN

typedef struct train_options {
    const char *data, *output, *background, *log, *report, *checkpoint, *resume, *perturb_poses,
        *write_cameras, *listen, *depth, *budget, *resolutions, *from, *validate;
    int64_t downscale, threshold, holdout, sh_degree, random, log_every, eval_every, checkpoint_every,
        align_steps;
    rank_options ranks;
    double memory;
    training_choices recipe;                    // iterations: under a budget, of which they follow, 0
    int reduce;                                 // index into blend_strategies
    const char *strategy_names[STRATEGY_NAMES]; // choices of --reduce
    double perturb_degrees, perturb_extents;    // of --perturb-poses
    bool view, antialias, exposure, reproducible, undistort, mask_from_alpha;
} train_options;

train_options train_options_default(void);
enum { TRAIN_GROUPS = 5 }; // that --help prints
// Adds the rows of all options, which point to `options`. A row is free_on_resume if the option does not
// decide the result of the iterations. A checkpoint does not record such an option, so --resume accepts
// another value.
void train_options_list(train_options *options, option_table *table);
// After parsing: which options of the table have another value than their default. changed: [OPTION_ROOM].
void train_options_changed(const option_table *given, bool *changed);
// After that: fails if the options contradict each other. Completes options->recipe; --reproducible sets
// options->reduce.
bool train_options_check(train_options *options, fault *why);

C_LINKAGE_END
