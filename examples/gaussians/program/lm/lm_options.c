// SPDX-License-Identifier: MIT
#include "lm/lm_options.h"
#include <math.h>
#include <stdio.h>

lm_options lm_options_default(void) {
    return (lm_options){.steps = 5,
                        .pcg_iterations = 8,
                        .batch = 100,
                        .batches = 1,
                        .damping = 0.1,
                        .rule = 1,
                        .unit_weight = 10,
                        .radius = 0.3,
                        .epsilon = 1e-3,
                        .form = LM_FREE,
                        .objective = GS_LM_L1_SSIM};
}

void lm_options_list(lm_options *o, option_spec *table) {
    static const char *const forms[] = {"free", "cached", NULL};
    static const char *const objectives[] = {"l1-ssim", "l2", NULL};
    static const char *const ssims[] = {"full", "centre", NULL};
    static const char *const rules[] = {"gain", "length", NULL};
    static const char *const preconditioners[] = {"blocks", "diagonal", NULL};
    static const char *const choices[] = {"random", "strided", NULL};
    const option_spec options[LM_OPTIONS] = {
        {OPTION_INT, "lm-steps", 0, &o->steps, 1, 100000, NULL, "steps of Levenberg-Marquardt"},
        {OPTION_INT, "lm-pcg", 0, &o->pcg_iterations, 1, 10000, NULL,
         "iterations of conjugate gradients in each step"},
        {OPTION_CHOICE, "lm-preconditioner", 0, &o->preconditioner, 0, 0, preconditioners,
         "of conjugate gradients: each Gaussian's own blocks of the matrix, or its diagonal"},
        {OPTION_INT, "lm-batch", 0, &o->batch, 1, 1000000, NULL,
         "most views in one subset, which is solved together"},
        {OPTION_INT, "lm-batches", 0, &o->batches, 1, 1000000, NULL,
         "subsets in one step, as far as there are views; their updates are combined"},
        {OPTION_CHOICE, "lm-choice", 0, &o->choice, 0, 0, choices, "how a step's views are chosen"},
        {OPTION_CHOICE, "lm-form", 0, &o->form, 0, 0, forms,
         "cached: keep every pair of pixel and splat that contributes; free: find them again for every "
         "product"},
        {OPTION_REAL, "lm-memory", 0, &o->memory, 0, 1e6, NULL,
         "most GiB on the device; a limit may make subsets smaller; 0: no limit"},
        {OPTION_CHOICE, "lm-objective", 0, &o->objective, 0, 0, objectives, "what is minimised"},
        {OPTION_CHOICE, "lm-ssim", 0, &o->ssim, 0, 0, ssims,
         "slope of SSIM by all pixels of its window, or by the centre alone"},
        {OPTION_REAL, "lm-damping", 0, &o->damping, 0, 1e6, NULL,
         "damping of the first step; doubled after a step that is undone"},
        {OPTION_CHOICE, "lm-rule", 0, &o->rule, 0, 0, rules,
         "after a kept step, halve the damping (gain), or divide it by twice the step's length (length)"},
        {OPTION_REAL, "lm-units", 0, &o->unit_weight, 0, 1e6, NULL,
         "weight of the damping that keeps parameters within a few of their own units; 0: none"},
        {OPTION_REAL, "lm-radius", 0, &o->radius, 0, 1e6, NULL,
         "most that a Gaussian changes in one step, in its own units (axes, radians); 0: no limit"},
        {OPTION_REAL, "lm-epsilon", 0, &o->epsilon, 1e-9, 1, NULL,
         "added under the roots of the residuals: much smaller differences count as squares"}};
    for (int i = 0; i < LM_OPTIONS; i++) table[i] = options[i];
}

lm_settings lm_settings_from(const lm_options *o) {
    return (lm_settings){.steps = o->steps,
                         .pcg_iterations = o->pcg_iterations,
                         .diagonal_only = o->preconditioner == 1,
                         .batch = o->batch,
                         .batches = o->batches,
                         .strided = o->choice == 1,
                         .form = (lm_form)o->form,
                         .memory = (size_t)(o->memory * 0x1p30),
                         .objective = (gs_lm_objective)o->objective,
                         .centre_only = o->ssim == 1,
                         .epsilon = (float)o->epsilon,
                         .damping = o->damping,
                         .by_length = o->rule == 1,
                         .unit_weight = (float)o->unit_weight,
                         .radius = (float)o->radius,
                         .least_damping = fmin(1e-4, o->damping),
                         .most_damping = fmax(1e4, o->damping),
                         .least_gain = 1e-5,
                         .policy = {DISTWAR_TREE, 0}};
}

void lm_step_print(const lm_step *step) {
    printf("LM step    %lld: objective %.6f -> %.6f on %lld views in %lld subset%s, gamma %.3f, damping %g, "
           "gain ratio %.3f%s, %.2f s\n",
           (long long)step->step, step->before, step->after, (long long)step->images,
           (long long)step->subsets, step->subsets == 1 ? "" : "s", step->gamma, step->damping, step->gain,
           step->kept ? "" : ", undone", step->seconds);
}
