// SPDX-License-Identifier: MIT
#include "commands/train_options.h"
#include "command_line.h"
#include "view/blend_strategies.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

train_options train_options_default(void) {
    return (train_options){.background = "0,0,0",
                           .downscale = 1,
                           .iterations = 7000,
                           .threshold = BLEND_THRESHOLD,
                           .holdout = 8,
                           .sh_degree = GS_MAX_SH_DEGREE,
                           .sh_rate = 4,
                           .reduce = offered_index(blend_strategies, DISTWAR_STRATEGY_COUNT),
                           .density = density_options_default(),
                           .lm = lm_options_default()};
}

typedef struct train_row {
    option_spec option;
    bool free_on_resume;
} train_row;

static void add(train_table *table, const option_spec *option, bool free_on_resume) {
    assert(table->count < TRAIN_OPTION_ROOM);
    table->options[table->count] = *option;
    table->free_on_resume[table->count++] = free_on_resume;
}

static void add_rows(train_table *table, const train_row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) add(table, &rows[i].option, rows[i].free_on_resume);
}

// The data, the scene file, and how long to train.
static void add_run(train_options *o, train_table *table) {
    const train_row rows[] = {
        {.option = {.kind = OPTION_TEXT,
                    .name = "output",
                    .letter = 'o',
                    .value = &o->output,
                    .help = "the scene file to write; required"},
         .free_on_resume = true},
        {.option = {.kind = OPTION_INT,
                    .name = "downscale",
                    .value = &o->downscale,
                    .minimum = 1,
                    .maximum = 64,
                    .help = "divide the width and height of pictures by this"}},
        {.option = {.kind = OPTION_INT,
                    .name = "iterations",
                    .value = &o->iterations,
                    .minimum = 1,
                    .maximum = 10000000,
                    .help = "training steps, one view each"}},
        {.option = {.kind = OPTION_INT,
                    .name = "warm-up",
                    .value = &o->warm_up,
                    .maximum = 10000000,
                    .help =
                        "steps in which the learning rate of means rises to its value, from 1/100 of it"}},
        {.option = {.kind = OPTION_REAL,
                    .name = "seconds",
                    .value = &o->seconds,
                    .maximum = 1e9,
                    .help = "stop after this time of training, without --finish; learning rates still "
                            "follow --iterations; 0: no limit"},
         .free_on_resume = true}};
    add_rows(table, rows, sizeof rows / sizeof *rows);
}

// Random numbers, the reduction, the views held out, the start.
static void add_choices(train_options *o, train_table *table) {
    const train_row rows[] = {
        {.option = {.kind = OPTION_INT,
                    .name = "seed",
                    .value = &o->seed,
                    .maximum = INFINITY,
                    .help = "of all random numbers: the order of views, --random, density control"}},
        {.option = AUTO_REDUCE_OPTION(&o->reduce, strategy_names(blend_strategies, "auto", o->strategy_names),
                                      BLEND_REDUCE_HELP)},
        {.option = THRESHOLD_OPTION(&o->threshold, THRESHOLD_HELP "; ignored by auto")},
        {.option =
             {.kind = OPTION_INT,
              .name = "holdout",
              .value = &o->holdout,
              .maximum = INFINITY,
              .help =
                  "hold out every Nth view, by name, for measuring; 0: none; ignored if the data has test "
                  "views"}},
        {.option = {.kind = OPTION_INT,
                    .name = "random",
                    .value = &o->random,
                    .maximum = 50000000,
                    .help = "start from this many random points instead of the data's; 0: from the data's"}},
    };
    add_rows(table, rows, sizeof rows / sizeof *rows);
}

// What is trained: colours, background, corrections.
static void add_model(train_options *o, train_table *table) {
    const train_row rows[] = {
        {.option = {.kind = OPTION_INT,
                    .name = "sh-degree",
                    .value = &o->sh_degree,
                    .maximum = GS_MAX_SH_DEGREE,
                    .help = "degree of the colours' spherical harmonics; training uses one more every 1000 "
                            "iterations"}},
        {.option =
             {.kind = OPTION_REAL,
              .name = "sh-rate",
              .value = &o->sh_rate,
              .maximum = 1e6,
              .help =
                  "learning rate of spherical harmonics above degree 0, as a multiple of the published rate"}},
        {.option = {.kind = OPTION_TEXT,
                    .name = "background",
                    .value = &o->background,
                    .help = "R,G,B, each 0..1; also put behind transparent pictures"}},
        {.option = {.kind = OPTION_FLAG,
                    .name = "random-background",
                    .value = &o->random_background,
                    .help =
                        "use a random background in each step, so that no transparent part takes the colour "
                        "of --background"}},
        {.option = {.kind = OPTION_FLAG,
                    .name = "antialias",
                    .value = &o->antialias,
                    .help =
                        "lower the opacity of small Gaussians by as much as the width of a pixel enlarges "
                        "them; the "
                        "scene file records it"}},
        {.option = {.kind = OPTION_FLAG,
                    .name = "exposure",
                    .value = &o->exposure,
                    .help = "learn a colour correction for every view; held-out views are measured without"}},
        {.option = {.kind = OPTION_FLAG,
                    .name = "refine-poses",
                    .value = &o->refine_poses,
                    .help = "refine the poses of the training views with the scene"}},
        {.option =
             {.kind = OPTION_TEXT,
              .name = "perturb-poses",
              .value = &o->perturb_poses,
              .help =
                  "DEGREES,EXTENTS: first turn every training view by this angle and move it by this part "
                  "of the scene's extent, in random directions; an experiment"}},
        {.option =
             {.kind = OPTION_FLAG,
              .name = "reproducible",
              .value = &o->reproducible,
              .help =
                  "the same command gives the same bytes on the same kind of GPU; implies --reduce fixed, "
                  "which is slower"}},
    };
    add_rows(table, rows, sizeof rows / sizeof *rows);
}

// What is written beside the scene.
static void add_records(train_options *o, train_table *table) {
    const train_row rows[] = {
        {.option = {.kind = OPTION_INT,
                    .name = "checkpoint-every",
                    .value = &o->checkpoint_every,
                    .maximum = 10000000,
                    .help = "steps between checkpoints; 0: only when SIGINT or SIGTERM ends training"},
         .free_on_resume = true},
        {.option = {.kind = OPTION_TEXT,
                    .name = "checkpoint",
                    .value = &o->checkpoint,
                    .help = "the checkpoint file to write; default: the name of -o and '.checkpoint'"},
         .free_on_resume = true},
        {.option = {.kind = OPTION_TEXT,
                    .name = "resume",
                    .value = &o->resume,
                    .help = "continue from this checkpoint; data and options must be those of its run, "
                            "except times, files, --finish and --lm-..."},
         .free_on_resume = true},
        {.option =
             {.kind = OPTION_TEXT,
              .name = "log",
              .value = &o->log,
              .help =
                  "write the progress to this file as lines of JSON: steps, evaluations, checkpoints, steps "
                  "of --finish"},
         .free_on_resume = true},
        {.option = {.kind = OPTION_TEXT,
                    .name = "report",
                    .value = &o->report,
                    .help = "write a page with pictures and curves to this folder: index.html"},
         .free_on_resume = true},
        {.option =
             {.kind = OPTION_TEXT,
              .name = "write-cameras",
              .value = &o->write_cameras,
              .help =
                  "write the cameras of all views to this file, as transforms.json: paths in it begin at DATA"},
         .free_on_resume = true},
        {.option =
             {.kind = OPTION_INT,
              .name = "log-every",
              .value = &o->log_every,
              .maximum = 10000000,
              .help =
                  "steps between lines of the log and points of the curves; 0: 1/200 of the iterations, at "
                  "most 100"},
         .free_on_resume = true},
        {.option =
             {.kind = OPTION_INT,
              .name = "eval-every",
              .value = &o->eval_every,
              .maximum = 10000000,
              .help =
                  "steps between measurements of the held-out views, for --log and --report; 0: only at the "
                  "end"},
         .free_on_resume = true},
    };
    add_rows(table, rows, sizeof rows / sizeof *rows);
}

void train_options_list(train_options *o, train_table *table) {
    static const char *const finishes[] = {[TRAIN_FINISH_NONE] = "none", [TRAIN_FINISH_LM] = "lm", NULL};
    const option_spec finish = {
        .kind = OPTION_CHOICE,
        .name = "finish",
        .value = &o->finish,
        .choices = finishes,
        .help =
            "lm: finish by Levenberg-Marquardt steps on the same views; excludes --antialias, --exposure and "
            "--reproducible; a signal during these steps ends the program without a file"};
    const option_spec end = {.kind = OPTION_END};
    option_spec density[DENSITY_OPTION_ROOM], lm[LM_OPTIONS];
    *table = (train_table){.count = 0};
    add_run(o, table);
    add_choices(o, table);
    add_model(o, table);
    add_records(o, table);
    add(table, &finish, true);
    const int density_count = density_options_list(&o->density, density);
    for (int i = 0; i < density_count; i++) add(table, &density[i], false);
    lm_options_list(&o->lm, lm); // these steps follow the iterations
    for (int i = 0; i < LM_OPTIONS; i++) add(table, &lm[i], true);
    add(table, &end, true);
}

static bool make_reproducible(train_options *o, fault *why) {
    if (!o->reproducible) return true;
    const distwar_strategy strategy = blend_strategies[o->reduce].strategy;
    if (strategy != DISTWAR_STRATEGY_COUNT && strategy != DISTWAR_FIXED)
        return fail(why, "--reproducible needs --reduce fixed, not %s", distwar_strategy_name(strategy));
    if (o->seconds > 0) return fail(why, "--reproducible excludes --seconds");
    // Levenberg-Marquardt sums floats by atomics.
    if (o->finish == TRAIN_FINISH_LM) return fail(why, "--reproducible excludes --finish lm");
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

// "1,0.01": degrees, extents.
static bool read_perturbation(train_options *o, fault *why) {
    double values[2];
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

bool train_options_check(train_options *o, float background[3], fault *why) {
    if (!density_options_check(&o->density, why)) return false;
    if (o->finish == TRAIN_FINISH_LM && (o->antialias || o->exposure))
        return fail(why, "--finish lm excludes --antialias and --exposure");
    if (!o->output) return fail(why, "-o is missing: the scene file to write");
    return parse_color(o->background, background, why) && make_reproducible(o, why) &&
           read_perturbation(o, why) && files_differ(o, why);
}
