// SPDX-License-Identifier: MIT
// The settings of Levenberg-Marquardt: defaults, those of 3DGS-LM, options, and the options that exclude each other.
#include "solver.h"

lm_settings lm_settings_default(void) {
    return (lm_settings){.steps = 5,
                         .pcg_iterations = 8,
                         .batch = 100,
                         .batches = 1,
                         .damping = 0.1,
                         .least_damping = 1e-4,
                         .most_damping = 1e4,
                         .by_length = true,
                         .unit_weight = 10,
                         .radius = 0.3,
                         .epsilon = 1e-3,
                         .search_share = 1.0 / 3,
                         .least_gain = 1e-5,
                         .policy = {DISTWAR_TREE, 0}};
}

lm_settings lm_settings_published(void) {
    lm_settings published = lm_settings_default();
    published.diagonal_only = published.start_preconditioned = published.centre_only = published.strided =
        true;
    published.form = LM_CACHED;
    published.batch = 70;
    published.batches = 4;
    published.search_share = 0.3;
    published.by_length = false;
    published.unit_weight = 1; // the paper has none: math.md says what happens then
    published.radius = 0;
    return published;
}

void lm_options_list(lm_settings *o, option_table *table) {
    static const char *const objectives[] = {"l1-ssim", "l2", NULL};
    static const char *const ssims[] = {"full", "centre", NULL};
    static const char *const forms[] = {"free", "cached", NULL};
    static const char *const choices[] = {"random", "strided", NULL};
    static const char *const rules[] = {"gain", "length", NULL};
    static const char *const preconditioners[] = {"blocks", "diagonal", NULL};
    static const char *const starts[] = {"zero", "preconditioned", NULL};
    const option_spec rows[] = {
        OPTION("lm-published", &o->published,
               .help = "begin with the settings of 3DGS-LM; other options still change them"),
        OPTION("lm-objective", &o->objective, .choices = objectives, .help = "what is minimised"),
        OPTION("lm-ssim", &o->centre_only, .choices = ssims,
               .help = "differentiate SSIM by all pixels of its window, or by the centre alone"),
        OPTION("lm-form", &o->form, .choices = forms,
               .help =
                   "find the pairs of pixel and splat again for every product (free), or keep them (cached)"),
        OPTION("lm-pcg", &o->pcg_iterations, .minimum = 1, .maximum = 10000,
               .help = "iterations of conjugate gradients in each step"),
        OPTION("lm-pcg-start", &o->start_preconditioned, .choices = starts,
               .help = "start conjugate gradients at 0, or at the preconditioned right-hand side"),
        OPTION("lm-preconditioner", &o->diagonal_only, .choices = preconditioners,
               .help = "precondition by each Gaussian's blocks of the matrix, or by its diagonal"),
        OPTION("lm-batch", &o->batch, .minimum = 1, .maximum = 1000000,
               .help = "most views of a batch, which are solved for together"),
        OPTION("lm-batches", &o->batches, .minimum = 1, .maximum = 1000000,
               .help = "most batches of a step, which takes the weighted mean of their updates"),
        OPTION("lm-choice", &o->strided, .choices = choices,
               .help = "choose the views of a step at random, or at equal distances"),
        OPTION("lm-memory", &o->memory, .maximum = 1e6,
               .help = "most GiB on the device, into which batches are fitted; 0: no limit"),
        OPTION("lm-search", &o->search_share, .minimum = 1e-6, .maximum = 1,
               .help = "share of a step's views that the line search renders"),
        OPTION("lm-damping", &o->damping, .maximum = 1e6,
               .help = "damping of the first step; doubled after a step that is undone"),
        OPTION("lm-damping-min", &o->least_damping, .maximum = 1e6,
               .help = "least damping of later steps, unless --lm-damping is less"),
        OPTION("lm-damping-max", &o->most_damping, .maximum = 1e9,
               .help = "most damping of later steps, unless --lm-damping is more"),
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
               .help = "added under the residuals' roots; smaller differences count as squares"),
        OPTIONS_END};
    option_table_add(table, rows);
}

bool lm_settings_check(const lm_settings *o, fault *why) {
    if (o->objective == GS_LM_L2 && o->centre_only)
        return fail(why, "--lm-objective l2 excludes --lm-ssim centre: it has no SSIM");
    return o->least_damping <= o->most_damping ||
           fail(why, "--lm-damping-min must not be above --lm-damping-max");
}
