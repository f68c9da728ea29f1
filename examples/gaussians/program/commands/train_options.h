// SPDX-License-Identifier: MIT
// The options of `splat train`.
#ifndef SPLAT_TRAIN_OPTIONS_H
#define SPLAT_TRAIN_OPTIONS_H

#include "lm/lm_options.h"
#include "training/density_options.h"
#include "view/blend_strategies.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct train_options {
    const char *data, *output, *background, *log, *report, *checkpoint, *resume, *perturb_poses,
        *write_cameras;
    int64_t downscale, iterations, warm_up, seed, threshold, holdout, sh_degree, random, log_every,
        eval_every, checkpoint_every;
    double seconds, sh_rate;
    int reduce, finish;                         // reduce: index into blend_strategies; finish: train_finish
    const char *strategy_names[STRATEGY_NAMES]; // choices of --reduce
    double perturb_degrees, perturb_extents;    // of --perturb-poses
    bool antialias, exposure, reproducible, random_background, refine_poses;
    density_options density;
    lm_options lm;
} train_options;

typedef enum train_finish { TRAIN_FINISH_NONE, TRAIN_FINISH_LM } train_finish;

enum { TRAIN_OPTION_ROOM = 32 + DENSITY_OPTION_ROOM + LM_OPTIONS };

// The rows of all options. A row's free_on_resume is true if the option does not decide the result of the
// iterations. A checkpoint does not record such an option, so --resume accepts another value.
typedef struct train_table {
    option_spec options[TRAIN_OPTION_ROOM]; // ends with OPTION_END
    bool free_on_resume[TRAIN_OPTION_ROOM];
    int count;
} train_table;

train_options train_options_default(void);
// The table points to `options`, which must outlive it.
void train_options_list(train_options *options, train_table *table);
// After parsing: fails if the options contradict each other. background: from --background. --reproducible
// sets options->reduction.
bool train_options_check(train_options *options, float background[3], fault *why);

#ifdef __cplusplus
}
#endif
#endif
