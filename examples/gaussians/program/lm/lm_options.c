// SPDX-License-Identifier: MIT
#include "lm/lm_solver.h"
#include <math.h>
#include <stdio.h>

lm_settings lm_settings_default(void) {
    return (lm_settings){.steps = 5,
                         .pcg_iterations = 8,
                         .batch = 100,
                         .damping = 0.1,
                         .by_length = true,
                         .unit_weight = 10,
                         .radius = 0.3,
                         .epsilon = 1e-3,
                         .least_gain = 1e-5,
                         .policy = {DISTWAR_TREE, 0}};
}

void lm_options_list(lm_settings *o, option_table *table) {
    static const char *const rules[] = {"gain", "length", NULL};
    static const char *const preconditioners[] = {"blocks", "diagonal", NULL};
    const option_spec rows[] = {
        OPTION("lm-pcg", &o->pcg_iterations, .minimum = 1, .maximum = 10000,
               .help = "iterations of conjugate gradients in each step"),
        OPTION("lm-preconditioner", &o->diagonal_only, .choices = preconditioners,
               .help = "precondition by each Gaussian's blocks of the matrix, or by its diagonal"),
        OPTION("lm-batch", &o->batch, .minimum = 1, .maximum = 1000000,
               .help = "most views of a step, chosen at random"),
        OPTION("lm-damping", &o->damping, .maximum = 1e6,
               .help = "damping of the first step; doubled after a step that is undone"),
        OPTION(
            "lm-rule", &o->by_length, .choices = rules,
            .help =
                "after a kept step, halve the damping (gain) or divide it by twice the step's length (length)"),
        OPTION("lm-units", &o->unit_weight, .maximum = 1e6,
               .help =
                   "weight of the damping that keeps parameters within a few of their own units; 0: none"),
        OPTION("lm-radius", &o->radius, .maximum = 1e6,
               .help = "limit of a Gaussian's change per step in its own units (axes, radians); 0: none"),
        OPTION("lm-epsilon", &o->epsilon, .minimum = 1e-9, .maximum = 1,
               .help = "number under the roots of the residuals, below which differences count as squares"),
        OPTIONS_END};
    option_table_add(table, rows);
}

int64_t lm_steps_that_fit(const lm_settings *settings, size_t views, double steps, double *reserved) {
    const double most_share = 3, step_cost = 10; // a third; times of a step of training, for each view
    const double each = step_cost * fmin((double)views, (double)settings->batch);
    const double fitting = fmin((double)settings->steps, floor(steps / most_share / each));
    *reserved = fitting * each;
    return (int64_t)fitting;
}

void lm_step_print(const lm_step *step) {
    printf("LM step    %lld: objective %.6f -> %.6f on %lld views, gamma %.3f, damping %g, "
           "gain ratio %.3f%s, %.2f s\n",
           (long long)step->step, step->before, step->after, (long long)step->images, step->gamma,
           step->damping, step->gain, step->kept ? "" : ", undone", step->seconds);
}
