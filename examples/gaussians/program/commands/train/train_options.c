// SPDX-License-Identifier: MIT
#include "train_options.h"
#include "cli/command_line.h"
#include "ranks.h"
#include "frames/blend_strategies.h"
#include "measure/shared_options.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BUDGET = 1000000 }; // seconds

train_options train_options_default(void) {
    train_options out = {.background = "0,0,0",
                         .resolutions = "auto",
                         .validate = "auto",
                         .downscale = 1,
                         .threshold = BLEND_THRESHOLD,
                         .holdout = 8,
                         .sh_degree = GS_MAX_SH_DEGREE,
                         .align_steps = 100,
                         .reduce = offered_index(blend_strategies, DISTWAR_STRATEGY_COUNT),
                         .recipe = training_choices_default(),
                         .lm = lm_settings_default()};
    out.lm.steps = 0;
    return out;
}

// The data, the scene file, and how long to train.
static void list_run(train_options *o, option_table *table) {
    const option_spec rows[] = {
        OUTPUT_OPTION(&o->output, .help = "the scene file to write; required", .free_on_resume = true),
        DOWNSCALE_OPTION(&o->downscale, "pictures"),
        UNDISTORT_OPTION(&o->undistort),
        MASK_FROM_ALPHA_OPTION(&o->mask_from_alpha),
        OPTION(
            "iterations", &o->recipe.iterations, .maximum = 10000000, .free_on_resume = true,
            .help =
                "training views to see, each as often as the others; a step sees --batch of them; 0: 7000, or as many as --budget has time for; with fewer than 40 "
                "training views, learning rates are lower for more than 7000, with up to 20 in proportion, down "
                "to 0.3"),
        OPTION("budget", &o->budget,
               .help =
                   "train for this time, such as 30s or 2m, with --finish and without loading: the number "
                   "of steps, all schedules and, by default, the limit of Gaussians are fitted to it"),
        GPUS_OPTION(&o->ranks.gpus, "share the scene out"),
        NCCL_OPTION(&o->ranks.nccl),
        OPTION(
            "batch", &o->recipe.batch, .maximum = GS_MAX_VIEWS,
            .help =
                "views of a step, whose learning rates are multiplied by the square root of it; "
                "--iterations counts views; 0: as many as have about 2.5 million pixels together, at most 4 and a "
                "quarter of all views; 1 with --refine-poses"),
        OPTION(
            "resolutions", &o->resolutions,
            .help =
                "begin on smaller pictures: FACTOR:PERCENT,..., such as 4:20,2:50: a quarter of the size until "
                "20% of the iterations, half until 50%; FACTOR:PERCENT:VIEWS has another --batch; none; "
                "auto: 2:50 if such pictures have a pixel for each of --max-gaussians, 2:90 if whole ones have "
                "over 1.7 million, but none with --refine-poses"),
        OPTION(
            "memory", &o->memory, .maximum = 1e9, .free_on_resume = true,
            .help =
                "MB that training may take of a GPU: photographs that do not fit wait on the host; 0: all of them "
                "stay on the GPU, with --gpus in a quarter of its memory"),
        OPTION(
            "average", &o->recipe.average, .maximum = 1,
            .help =
                "part of the iterations, at the end, whose parameters are averaged, from the end of density "
                "control on; 0: the scene is what the last step left"),
        OPTION(
            "dropout", &o->recipe.dropout, .minimum = -1, .maximum = 0.9,
            .help =
                "share of the Gaussians that the last step leaves out, in earlier steps less, in proportion; -1: "
                "with V training views 0.2 from 16 V V iterations on, less down to 4 V V, none below; over "
                "30000 iterations count as 30000"),
        OPTION("seconds", &o->recipe.seconds, .maximum = 1e9, .free_on_resume = true,
               .help = "stop after this time of training, without --finish; learning rates still "
                       "follow --iterations; 0: no limit"),
        OPTIONS_END};
    option_table_add(table, rows);
}

// Random numbers, the reduction, the views held out, the start.
static void list_choices(train_options *o, option_table *table) {
    const option_spec rows[] = {
        OPTION("seed", &o->recipe.seed, .maximum = INFINITY,
               .help = "of all random numbers: the order of views, --random, density control"),
        AUTO_REDUCE_OPTION(&o->reduce, strategy_names(blend_strategies, "auto", o->strategy_names),
                           BLEND_REDUCE_HELP),
        THRESHOLD_OPTION(&o->threshold, THRESHOLD_HELP "; ignored by auto"),
        OPTION("holdout", &o->holdout, .maximum = INFINITY,
               .help = "hold out every Nth view, by name, for measuring; 0: none; ignored if the data has "
                       "test views"),
        OPTION(
            "validate", &o->validate,
            .help =
                "set this many training views aside, which cover the scene, until three quarters of the training, "
                "and end it early where they gain under 0.15 of what training views do; auto: 1/16, 4 to 16, none "
                "of fewer than 40 views or with --refine-poses; 0: none"),
        OPTION("from", &o->from,
               .help = "start from the Gaussians of this scene file, with --sh-degree that of the file"),
        OPTION("random", &o->random, .maximum = 50000000,
               .help =
                   "start from this many random points instead of the data's; 0: from the data's, or, if it "
                   "has none, from 100000, or as many as --max-gaussians allows"),
        OPTIONS_END};
    option_table_add(table, rows);
}

// What is trained: colours, background, corrections.
static void list_model(train_options *o, option_table *table) {
    const option_spec rows[] = {
        OPTION("sh-degree", &o->sh_degree, .maximum = GS_MAX_SH_DEGREE,
               .help = "degree of the colours' spherical harmonics; training uses one more every 1000 "
                       "iterations"),
        OPTION("sh-rate", &o->recipe.sh_rate, .maximum = 1e6,
               .help =
                   "learning rate of spherical harmonics above degree 0 at the first step, as a multiple "
                   "of the published rate; 0: 1/25 of the number of training views, but 1 to 8; less at the "
                   "end of more than 7000 iterations, in proportion, down to 1"),
        OPTION("background", &o->background,
               .help = "R,G,B, each 0..1; also put behind transparent pictures"),
        OPTION("random-background", &o->recipe.random_background,
               .help = "use a random background in each step, so that no transparent part takes the colour "
                       "of --background"),
        OPTION("antialias", &o->antialias,
               .help = "lower the opacity of small Gaussians by as much as the width of a pixel enlarges "
                       "them; the scene file records it"),
        OPTION("exposure", &o->exposure,
               .help = "learn a colour correction for every view; held-out views are measured without"),
        OPTION("depth", &o->depth,
               .help =
                   "the folder of the training views' depth maps: NAME.png, gray with 16 bits, or NAME.pfm, "
                   "inverse depth of unknown scale and shift, which are fitted to the data's points"),
        OPTION(
            "depth-weight", &o->recipe.depth_weight, .minimum = 1e-6, .maximum = 1e6,
            .help =
                "weight of the mean difference of inverse depth in the loss at the first step; at the last "
                "--depth-weight-end, exponential between"),
        OPTION("depth-weight-end", &o->recipe.depth_weight_end, .minimum = 1e-6, .maximum = 1e6,
               .help = "that weight at the last step"),
        OPTION(
            "refine-poses", &o->recipe.refine_poses,
            .help =
                "refine the poses of the training views: first on pictures of 1/16, 1/8, 1/4 and 1/2 of the size, "
                "which neither --iterations nor --seconds count, then with the scene"),
        OPTION("align-steps", &o->align_steps, .maximum = 100000, .free_on_resume = true,
               .help = "with --refine-poses, steps that refine the pose of each held-out view on the final "
                       "scene, before it is measured"),
        OPTION("perturb-poses", &o->perturb_poses,
               .help =
                   "DEGREES,EXTENTS: first turn every training view by this angle and move it by this part "
                   "of the scene's extent, in random directions; an experiment"),
        OPTION("reproducible", &o->reproducible,
               .help = "the same command gives the same bytes on the same kind of GPU; implies --reduce "
                       "fixed, which is slower"),
        OPTIONS_END};
    option_table_add(table, rows);
}

// What is written beside the scene, and how training ends.
static void list_records(train_options *o, option_table *table) {
    const option_spec rows[] = {
        OPTION("checkpoint-every", &o->checkpoint_every, .maximum = 10000000, .free_on_resume = true,
               .help = "steps between checkpoints; 0: only when SIGINT or SIGTERM ends training"),
        OPTION("checkpoint", &o->checkpoint, .free_on_resume = true,
               .help = "the checkpoint file to write; default: the name of -o and '.checkpoint'"),
        OPTION("resume", &o->resume, .free_on_resume = true,
               .help = "continue from this checkpoint; data and options must be those of its run, "
                       "except times, files and --finish"),
        OPTION("log", &o->log, .free_on_resume = true,
               .help = "write the progress to this file as lines of JSON: steps, evaluations, checkpoints, "
                       "steps of --finish"),
        OPTION("report", &o->report, .free_on_resume = true,
               .help = "write a page with pictures and curves to this folder: index.html"),
        OPTION("write-cameras", &o->write_cameras, .free_on_resume = true,
               .help =
                   "write the cameras of all views to this file, as a transforms.json for the folder DATA"),
        OPTION("log-every", &o->log_every, .maximum = 10000000, .free_on_resume = true,
               .help = "steps between lines of the log and points of the curves; 0: 1/200 of the "
                       "iterations, at most 100"),
        OPTION("eval-every", &o->eval_every, .maximum = 10000000, .free_on_resume = true,
               .help = "steps between measurements of the held-out views, for --log and --report; 0: only "
                       "at the end"),
        OPTION(
            "finish", &o->lm.steps, .maximum = 100000, .free_on_resume = true,
            .help =
                "experimental: end with this many steps of Levenberg-Marquardt, during which a signal ends the "
                "program without a file"),
        OPTIONS_END};
    option_table_add(table, rows);
}

void train_options_list(train_options *o, option_table *table) {
    list_run(o, table);
    list_choices(o, table);
    list_model(o, table);
    list_records(o, table);
    density_options_list(&o->recipe.density, table);
}

static bool make_reproducible(train_options *o, fault *why) {
    if (!o->reproducible) return true;
    const distwar_strategy strategy = blend_strategies[o->reduce].strategy;
    if (strategy != DISTWAR_STRATEGY_COUNT && strategy != DISTWAR_FIXED)
        return fail(why, "--reproducible needs --reduce fixed, not %s", distwar_strategy_name(strategy));
    if (o->recipe.seconds > 0) return fail(why, "--reproducible excludes --seconds");
    // Levenberg-Marquardt sums floats by atomics.
    if (o->lm.steps > 0) return fail(why, "--reproducible excludes --finish");
    if (o->budget) return fail(why, "--reproducible excludes --budget, whose steps depend on the clock");
    o->reduce = offered_index(blend_strategies, DISTWAR_FIXED);
    return true;
}

// A run must not write a file that it reads or writes under another option.
static bool files_differ(const train_options *o, fault *why) {
    const struct {
        const char *first_name, *first, *second_name, *second;
    } pairs[] = {{"-o", o->output, "--checkpoint", o->checkpoint},
                 {"-o", o->output, "--resume", o->resume},
                 {"-o", o->output, "--log", o->log},
                 {"-o", o->output, "--from", o->from},
                 {"--log", o->log, "--checkpoint", o->checkpoint},
                 {"--log", o->log, "--resume", o->resume},
                 {"-o", o->output, "--write-cameras", o->write_cameras},
                 {"--log", o->log, "--write-cameras", o->write_cameras},
                 {"--checkpoint", o->checkpoint, "--write-cameras", o->write_cameras},
                 {"--resume", o->resume, "--write-cameras", o->write_cameras}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!are_two_files(pairs[i].first_name, pairs[i].first, pairs[i].second_name, pairs[i].second, why))
            return false;
    return true;
}

// Each step of --finish solves for all Gaussians at once, and reads all pictures on the device.
static bool finish_is_possible(const train_options *o, fault *why) {
    if (o->lm.steps == 0 || (o->ranks.gpus <= 1 && o->memory == 0)) return true;
    return fail(why, "%s excludes --finish", o->ranks.gpus > 1 ? "--gpus" : "--memory");
}

// "10", "10s", "2m", "1h".
static bool read_budget(train_options *o, fault *why) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
    char *end;
    if (!o->budget) {
        if (o->recipe.iterations == 0) o->recipe.iterations = 7000;
        return true;
    }
    const double value = strtod(o->budget, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units && end != o->budget; i++)
        if (strcmp(end, units[i].name) == 0) o->recipe.budget = value * units[i].seconds;
    if (!(o->recipe.budget > 0 && o->recipe.budget <= MOST_BUDGET))
        return fail(why, "--budget %s: must be a time such as 30, 30s or 2m: more than 0, at most %ds",
                    o->budget, MOST_BUDGET);
    if (o->recipe.iterations > 0)
        return fail(why, "--budget excludes --iterations: their number follows from the time");
    if (o->recipe.seconds > 0) return fail(why, "--budget excludes --seconds");
    if (o->recipe.refine_poses) return fail(why, "--budget excludes --refine-poses");
    return true;
}

// "auto" or a number.
static bool read_validate(train_options *o, fault *why) {
    char *end;
    errno = 0;
    const bool chosen = strcmp(o->validate, "auto") == 0;
    const long long count = chosen ? -1 : strtoll(o->validate, &end, 10);
    if (!chosen && (end == o->validate || *end || count < 0 || errno == ERANGE))
        return fail(why, "--validate %s: must be a number of views, or auto", o->validate);
    o->recipe.validate = count;
    return true;
}

// "1,0.01": degrees, extents.
static bool read_perturbation(train_options *o, fault *why) {
    double values[2] = {0};
    char *end = NULL;
    const char *text = o->perturb_poses;
    if (!text) return true;
    values[0] = strtod(text, &end);
    const bool first = end != text && *end == ',';
    text = end + first;
    if (first) values[1] = strtod(text, &end);
    if (!first || end == text || *end || !(values[0] >= 0 && values[0] <= 180) ||
        !(values[1] >= 0 && values[1] <= 1000))
        return fail(why,
                    "--perturb-poses %s: must be DEGREES,EXTENTS, such as 1,0.01: 0 to 180, and 0 to 1000",
                    o->perturb_poses);
    o->perturb_degrees = values[0];
    o->perturb_extents = values[1];
    return true;
}

// What AUTO_REDUCE_OPTION has read.
static void choose_policy(train_options *o) {
    const distwar_strategy strategy = blend_strategies[o->reduce].strategy;
    o->recipe.tune = strategy == DISTWAR_STRATEGY_COUNT;
    if (!o->recipe.tune) o->recipe.policy = (distwar_policy){strategy, (int)o->threshold};
}

bool train_options_check(train_options *o, fault *why) {
    if (o->lm.steps > 0 && (o->antialias || o->exposure))
        return fail(why, "--finish excludes --antialias and --exposure");
    if (!o->output) return fail(why, "-o is missing: the scene file to write");
    if (!make_reproducible(o, why)) return false;
    choose_policy(o);
    if (o->from && o->random > 0) return fail(why, "--from excludes --random");
    return parse_color(o->background, o->recipe.background, why) &&
           resolution_schedule_read(o->resolutions, &o->recipe.resolutions, why) &&
           finish_is_possible(o, why) && read_perturbation(o, why) && read_validate(o, why) &&
           read_budget(o, why) && files_differ(o, why);
}
