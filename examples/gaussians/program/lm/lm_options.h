// SPDX-License-Identifier: MIT
// The options of finishing by Levenberg-Marquardt.
#ifndef SPLAT_LM_OPTIONS_H
#define SPLAT_LM_OPTIONS_H

#include "lm/lm_solver.h"
#include "options.h"

typedef struct lm_options {
    int64_t steps, pcg_iterations, batch, batches;
    double memory, damping, unit_weight, radius, epsilon; // memory: GiB
    int form, objective, choice, ssim, rule, preconditioner;
} lm_options;

lm_options lm_options_default(void);
void lm_options_list(lm_options *options, option_table *table);
// Without background, seed and reduction.
lm_settings lm_settings_from(const lm_options *options);
// One line on stdout.
void lm_step_print(const lm_step *step);

#endif
