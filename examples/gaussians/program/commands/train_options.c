// SPDX-License-Identifier: MIT
// The options of `dsplat train`: one table for --help, the man page, completions, checkpoints, logs and reports.
#include "commands/train.h"
#include "frame.h"
#include "live/server.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BUDGET = 1000000 }; // seconds

train_options train_options_default(void) {
    return (train_options){.background = "0,0,0",
                           .resolutions = "auto",
                           .schedule = "auto",
                           .validate = "auto",
                           .listen = LISTEN_DEFAULT,
                           .downscale = 1,
                           .holdout = 8,
                           .align_steps = 100,
                           .reduce = offered_index(blend_strategies, DISTWAR_STRATEGY_COUNT),
                           .recipe = training_settings_default()};
}

// docs/photographs.md has the rules of what is automatic. The first TRAIN_GROUPS groups are those of --help.
void train_options_list(train_options *o, option_table *table) {
    training_settings *const settings = &o->recipe;
    const option_spec rows[] = {
        OPTION("background", &o->background, .group = "input",
               .help = "R,G,B behind the scene and transparent pictures, each 0..1"),
        DOWNSCALE_OPTION(&o->downscale, "pictures"),
        MASK_FROM_ALPHA_OPTION(&o->mask_from_alpha),
        OPTION("depth", &o->depth, .help = "a folder of depth maps to learn from, NAME.png or NAME.pfm"),
        OPTION("random", &o->random, .maximum = 50000000, .automatic = true,
               .help = "start from this many random points; auto: from the data's points, if it has any"),
        OPTION("from", &o->from, .help = "start from the Gaussians of this scene file"),

        QUALITY_OPTIONS(settings),
        OPTION("budget", &o->budget,
               .help = "train for this time, such as 30s or 2m, and fit everything else to it"),
        OPTION("memory", &o->memory, .maximum = 1e9, .free_on_resume = true, .automatic = true,
               .help = "MB that training may take of a GPU; auto: all photographs stay there"),
        OPTION("gpus", &o->gpus, .maximum = RANKS_MAX, .free_on_resume = true, .automatic = true,
               .help = "train across N GPUs of this host; auto: one, or as mpirun, srun or torchrun says"),

        CAMERA_OPTIONS(settings),
        UNDISTORT_OPTION(&o->undistort),
        OPTION("holdout", &o->holdout, .maximum = INFINITY,
               .help = "measure every Nth view by name and do not train on it; 0: train on all views"),
        OPTION(
            "validate", &o->validate,
            .help =
                "set N training views aside, to end where only noise is learned; auto: 1/16 from 40 views on; 0: none"),

        OUTPUT_OPTION(&o->output, .help = "the scene file to write: .ply, .spz or .sog; required",
                      .free_on_resume = true, .group = "output"),
        OPTION("report", &o->report, .free_on_resume = true,
               .help = "write the page of the scene, with curves and held-out views, to this folder"),
        OPTION("view", &o->view, .free_on_resume = true,
               .help = "serve that page while training runs; it follows the scene"),
        OPTION("log", &o->log, .free_on_resume = true,
               .help = "write the progress to this file as lines of JSON"),
        OPTION("checkpoint-every", &o->checkpoint_every, .maximum = 10000000, .free_on_resume = true,
               .help = "iterations between checkpoints; 0: only when a signal ends training"),
        OPTION("resume", &o->resume, .free_on_resume = true,
               .help = "continue the run of this checkpoint, with its data and options"),

        STEP_OPTIONS(settings),
        OPTION(
            "resolutions", &o->resolutions,
            .help =
                "train on smaller pictures first: 2:50 means 1/2 of the size until 50% of the run; auto; none"),
        OPTION("schedule", &o->schedule,
               .help = "experiment: when density control acts, and parts of the run, such as "
                       "from=500,until=5833,every=100,retire=1000,average=0.1,dropout=0,weights=0.01; auto"),
        AUTO_REDUCE_OPTION(&o->reduce, strategy_names(blend_strategies, "auto", o->strategy_names),
                           BLEND_REDUCE_HELP),

        LOSS_OPTIONS(settings),
        LOSS_TERMS(WEIGHT_OPTION) OPTION(
            "align-steps", &o->align_steps, .maximum = 100000, .free_on_resume = true,
            .help = "with --refine-poses: steps that refine a held-out view's pose before it is measured"),
        OPTION("perturb-poses", &o->perturb_poses,
               .help = "experiment: turn and move every training view by DEGREES,EXTENTS first"),
        OPTION("write-cameras", &o->write_cameras, .free_on_resume = true, .group = "more output",
               .help = "write the cameras of all views to this file, as a transforms.json for DATA"),
        OPTION("check-finite", &o->recipe.check_finite, .free_on_resume = true,
               .help = "end at the first number that is not finite; slow"),
        OPTION("eval-every", &o->eval_every, .maximum = 10000000, .free_on_resume = true,
               .help = "iterations between measurements of the held-out views; 0: only at the end"),
        LISTEN_OPTION(&o->listen),
        OPTION("nccl", &o->nccl, .free_on_resume = true,
               .help = "the path of libnccl.so.2, if the loader does not find it"),
        OPTIONS_END};
    option_table_add(table, rows);
    density_options_list(&o->recipe.density, table);
}

uint64_t train_hash(uint64_t hash, const void *bytes, size_t count) {
    for (size_t k = 0; k < count; k++) hash = (hash ^ ((const unsigned char *)bytes)[k]) * 0x100000001b3;
    return hash;
}

// Looks for a launcher.
static bool find_ranks(train_options *o, int argc, char **argv, fault *why) {
    const ranks_found found = ranks_find_place(&o->place, why);
    if (found == RANKS_WRONG) return false;
    o->arguments = train_hash(TRAIN_HASH_START, gs_version(), strlen(gs_version()) + 1);
    for (int k = 0; k < argc; k++) o->arguments = train_hash(o->arguments, argv[k], strlen(argv[k]) + 1);
    o->launched = found == RANKS_FOUND;
    if (!o->launched) return o->gpus > 0 || !o->nccl || fail(why, "--nccl needs --gpus");
    if (o->gpus > 0)
        return fail(why, "--gpus starts ranks of its own, and this is one of %d that a launcher has started",
                    o->place.count);
    o->gpus = o->place.count;
    return true;
}

// A run must not write a file that it reads or writes under another option.
static bool files_differ(const train_options *o, fault *why) {
    enum { WRITTEN = 3, FILES = 6 }; // the checkpoint may be the one that --resume names
    const char *const is[FILES] = {"-o", "--log", "--write-cameras", "the checkpoint", "--resume", "--from"};
    const char *const path[FILES] = {o->output, o->log, o->write_cameras, o->checkpoint, o->resume, o->from};
    for (int a = 0; a < WRITTEN; a++)
        for (int b = a + 1; b < FILES; b++)
            if (!are_two_files(is[a], path[a], is[b], path[b], why)) return false;
    return true;
}

// "10", "10s", "2m", "1h".
static bool read_budget(train_options *o, fault *why) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
    char *end;
    if (!o->budget) return true;
    const double value = strtod(o->budget, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units && end != o->budget; i++)
        if (strcmp(end, units[i].name) == 0) o->recipe.budget = value * units[i].seconds;
    if (!(o->recipe.budget > 0 && o->recipe.budget <= MOST_BUDGET))
        return fail(why, "--budget %s: must be a time such as 30, 30s or 2m: more than 0, at most %ds",
                    o->budget, MOST_BUDGET);
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
    double v[2] = {0, 0};
    if (o->perturb_poses &&
        !(parse_numbers(o->perturb_poses, v, 2) && v[0] >= 0 && v[0] <= 180 && v[1] >= 0 && v[1] <= 1000))
        return fail(why,
                    "--perturb-poses %s: must be DEGREES,EXTENTS, such as 1,0.01: 0 to 180, and 0 to 1000",
                    o->perturb_poses);
    o->perturb_degrees = v[0], o->perturb_extents = v[1];
    return true;
}

bool train_options_check(train_options *o, int argc, char **argv, fault *why) {
    if (!find_ranks(o, argc, argv, why)) return false;
    if (!o->output) return fail(why, "-o is missing: the scene file to write");
    distwar_strategy strategy = blend_strategies[o->reduce].strategy; // that AUTO_REDUCE_OPTION has read
    if (o->recipe.reproducible) {
        if (strategy != DISTWAR_STRATEGY_COUNT && strategy != DISTWAR_FIXED)
            return fail(why, "--reproducible needs --reduce fixed, not %s", distwar_strategy_name(strategy));
        strategy = DISTWAR_FIXED;
        o->reduce = offered_index(blend_strategies, strategy);
    }
    o->recipe.tune = strategy == DISTWAR_STRATEGY_COUNT;
    if (!o->recipe.tune) o->recipe.policy = (distwar_policy){strategy, BLEND_THRESHOLD};
    o->recipe.ranks = o->gpus;
    o->recipe.from = o->from, o->recipe.random = o->random > 0;
    o->recipe.depth = o->depth, o->recipe.view = o->view;
    if (!(parse_color(o->background, o->recipe.background, why) &&
          resolution_schedule_read(o->resolutions, &o->recipe.resolutions, why) &&
          training_schedule_read(o->schedule, &o->recipe, why) && read_perturbation(o, why) &&
          read_validate(o, why) && read_budget(o, why) && training_settings_combine(&o->recipe, why) &&
          files_differ(o, why)))
        return false;
    if (!o->budget && o->recipe.iterations == 0) o->recipe.iterations = DEFAULT_ITERATIONS;
    return true;
}
