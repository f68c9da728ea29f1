// SPDX-License-Identifier: MIT
// The options of `dsplat train`.
#pragma once

#include "commands/on_ranks.h"
#include "lm/lm_solver.h"
#include "density/density_options.h"
#include "resolutions.h"
#include "frames/blend_strategies.h"

C_LINKAGE_BEGIN

typedef struct train_options {
    const char *data, *output, *background, *log, *report, *checkpoint, *resume, *perturb_poses,
        *write_cameras, *depth, *budget, *resolutions;
    int64_t downscale, iterations, seed, threshold, holdout, sh_degree, random, log_every, eval_every,
        checkpoint_every, pose_levels, pose_finest, pose_steps, poses_from, align_steps,
        batch; // iterations: under a budget, of which they follow, 0
    rank_options ranks;
    double budget_seconds, seconds, average, dropout, picture_memory, sh_rate, sh_rate_end, pose_rate,
        fine_pose_rate, depth_weight, depth_weight_end;
    int reduce;                                 // index into blend_strategies
    const char *strategy_names[STRATEGY_NAMES]; // choices of --reduce
    double perturb_degrees, perturb_extents;    // of --perturb-poses
    resolution_schedule schedule;               // of --resolutions
    bool antialias, exposure, reproducible, random_background, undistort, mask_from_alpha, refine_poses;
    density_options density;
    lm_settings lm; // steps: of --finish
} train_options;

train_options train_options_default(void);
// Adds the rows of all options, which point to `options`. A row is free_on_resume if the option does not
// decide the result of the iterations. A checkpoint does not record such an option, so --resume accepts
// another value.
void train_options_list(train_options *options, option_table *table);
// After parsing: fails if the options contradict each other. background: from --background. --reproducible
// sets options->reduction.
bool train_options_check(train_options *options, float background[3], fault *why);

C_LINKAGE_END
