// SPDX-License-Identifier: MIT
// splat train: photographs with cameras -> a scene of Gaussians.
#include "commands/command.h"
#include "record/common_divisor.h"
#include "dataset.h"
#include "training/density_options.h"
#include "device.h"
#include "view/device_gaussians.h"
#include "training/finite.h"
#include "lm/lm_options.h"
#include "ply.h"
#include "measure/quality.h"
#include "training/random_points.h"
#include "view/blend_strategies.h"
#include "record/report.h"
#include "record/run_log.h"
#include "record/saver.h"
#include "training/start.h"
#include "training/trainer.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct train_options {
    const char *data, *output, *background, *log, *report, *checkpoint, *resume;
    int64_t downscale, iterations, warm_up, seed, threshold, holdout, sh_degree, random, log_every,
        eval_every, checkpoint_every;
    double seconds, sh_rate;
    int reduce; // index into blend_strategies
    const char *strategy_names[STRATEGY_NAMES];
    bool antialias, exposure, reproducible, random_background;
    density_options density;
    bool finish_by_lm;
    lm_options lm;
    const option_spec *table; // of all of them
} train_options;

// The pictures of the dataset on the device, those to train on first.
typedef struct split {
    target_view *views;
    size_t training, held_out;
} split;

static void split_close(split *parts) {
    for (size_t i = 0; i < parts->training + parts->held_out; i++) target_view_close(&parts->views[i]);
    free(parts->views);
}

static bool split_open(split *parts, const dataset *data, bool random_background, fault *why) {
    *parts = (split){.views = calloc(data->view_count + 1, sizeof *parts->views)};
    if (!parts->views) return fail(why, "no memory for %zu views", data->view_count);
    for (int held_out = 0; held_out < 2; held_out++)
        for (size_t i = 0; i < data->view_count; i++) {
            const dataset_view *view = &data->views[i];
            if (view->held_out != held_out) continue;
            target_view *next = &parts->views[parts->training + parts->held_out];
            if (!target_view_open(next, &view->camera, &view->picture, why)) return false;
            if (random_background) target_view_set_alpha(next, view->alpha);
            next->outline = view->alpha;
            next->name = view->name;
            (*(held_out ? &parts->held_out : &parts->training))++;
        }
    return true;
}

// The published rates (Kerbl et al. 2023); those of means are for a scene of extent 1.
static training_settings settings_from(const train_options *options, double extent) {
    const distwar_strategy strategy = blend_strategies[options->reduce].strategy;
    return (training_settings){.iterations = options->iterations,
                               .seconds = options->seconds,
                               .seed = (uint64_t)options->seed,
                               .tune = strategy == DISTWAR_STRATEGY_COUNT,
                               .policy = {strategy, (int)options->threshold},
                               .rates = {.mean = (float)(1.6e-4 * extent),
                                         .log_scale = 5e-3f,
                                         .quaternion = 1e-3f,
                                         .opacity_logit = 5e-2f,
                                         .sh_constant = 2.5e-3f,
                                         .sh_rest = (float)(options->sh_rate * 2.5e-3 / 20)},
                               .final_mean_rate = (float)(1.6e-6 * extent),
                               .warm_up = options->warm_up,
                               .exposure_rate = 1e-2f,
                               .sh_interval = 1000,
                               .random_background = options->random_background,
                               .density =
                                   density_settings_from(&options->density, options->iterations, extent)};
}

static void print_tuning(const training_report *report) {
    const strategy_report *tuned = &report->strategy;
    double spent = report->clock.milliseconds[STAGE_RENDER_BACKWARD];
    printf(
        "tuning     %s; %lld launches measured, looked again %lld times, changed %lld times; cost %.1f ms, "
        "%.1f %% of the backward blend\n",
        tuned->known ? "chosen on this data" : "not at its end: too few iterations",
        (long long)tuned->measured, (long long)tuned->examinations, (long long)tuned->changes, tuned->cost,
        spent > 0 ? 100 * tuned->cost / spent : 0);
}

static void print_summary(const train_options *options, const split *parts, const gs_gaussians *gaussians,
                          const training_report *report, const quality *held_out) {
    const distwar_policy *policy = &report->strategy.policy;
    const image *first = parts->views[0].picture;
    bool differ = false;
    for (size_t i = 0; i < parts->training + parts->held_out; i++)
        differ |= parts->views[i].picture->width != first->width ||
                  parts->views[i].picture->height != first->height;
    printf("data       %s: %zu views to train on, %zu held out, %d x %d%s\n", options->data, parts->training,
           parts->held_out, first->width, first->height, differ ? " and other sizes" : "");
    printf("scene      %lld Gaussians, SH degree %d, in %s\n", (long long)gaussians->count,
           gaussians->sh_degree, options->output);
    printf("training   %lld iteration%s in %.1f s on %s, %s", (long long)report->iterations,
           report->iterations == 1 ? "" : "s", report->seconds, device_name(),
           distwar_strategy_name(policy->strategy));
    if (offered_has_threshold(blend_strategies, policy->strategy))
        printf(" at threshold %d", policy->balance_threshold);
    printf(", seed %lld\n", (long long)options->seed);
    if (report->strategy.tuned) print_tuning(report);
    if (report->loss_window > 0) // 0: resumed at its end
        printf("loss       %.5f -> %.5f (means over %lld iteration%s)\n", report->first_loss,
               report->last_loss, (long long)report->loss_window, report->loss_window > 1 ? "s" : "");
    if (options->report) printf("report     %s/index.html\n", options->report);
    if (held_out) printf("held out   PSNR %.2f dB, SSIM %.4f\n", held_out->psnr, held_out->ssim);
    if (report->clock.steps == 0) return;
    printf("GPU        ms an iteration:");
    for (int i = 0; i < STAGES; i++)
        printf("%s %s %.4f", i ? "," : "", stage_name((stage)i),
               report->clock.milliseconds[i] / (double)report->clock.steps);
    printf("\n");
}

// The trained Gaussians in host memory, in place of those training started from.
static bool fetch_gaussians(gs_gaussians *host, const gs_gaussians *device, fault *why) {
    gaussians_free(host);
    if (!gaussians_allocate(host, device->count, device->sh_degree, why)) return false;
    host->antialias = device->antialias;
    device_gaussians_download(host, device);
    int64_t dropped = gaussians_keep_finite(host);
    if (dropped > 0)
        fprintf(stderr, "splat: dropped %lld Gaussians whose parameters overflowed\n", (long long)dropped);
    return true;
}

enum { DATA_SETTINGS = 5 }; // what record_settings adds to the options

static void record_settings(run_record *record, const train_options *options, const split *parts) {
    run_record_text(record, "data", options->data);
    run_record_number(record, "views", (double)parts->training);
    run_record_number(record, "held_out", (double)parts->held_out);
    run_record_number(record, "width", parts->views[0].camera.width);
    run_record_number(record, "height", parts->views[0].camera.height);
    run_record_options(record, options->table);
}

// A line 200 times in the run, but every 100 steps at least.
static int64_t log_interval(const train_options *options) {
    if (options->log_every > 0) return options->log_every;
    const int64_t part = options->iterations / 200;
    return part < 1 ? 1 : part > 100 ? 100 : part;
}

static bool open_log(run_log *log, const train_options *options, const split *parts,
                     const training_settings *settings, fault *why) {
    const bool kept = options->log || options->report; // else training need not wait to be looked at
    run_log_options wanted = {.path = options->log,
                              .append = options->resume != NULL,
                              .every = kept ? log_interval(options) : options->iterations,
                              .evaluate_every = kept ? options->eval_every : 0,
                              .held_out = parts->views + parts->training,
                              .held_out_count = parts->held_out};
    for (int i = 0; i < 3; i++) wanted.background[i] = settings->background[i];
    if (!run_log_open(log, &wanted, why)) return false;
    record_settings(&log->record, options, parts);
    return true;
}

static bool write_report(const train_options *options, const split *parts, const run_log *log,
                         const training_state *state, const training_report *report, fault *why) {
    const bool held_out = parts->held_out > 0;
    run_report page = {.title = options->data,
                       .record = &log->record,
                       .training = report,
                       .gaussians = &state->gaussians,
                       .views = parts->views + (held_out ? parts->training : 0),
                       .view_count = held_out ? parts->held_out : parts->training,
                       .held_out = held_out};
    for (int i = 0; i < 3; i++) page.background[i] = log->options.background[i];
    return report_write(options->report, &page, why);
}

// Who looks on while training runs.
typedef struct onlookers {
    run_log log;
    saver saver;
} onlookers;

static bool look_on(void *context, const training_state *state, const training_report *report, fault *why) {
    onlookers *all = context;
    bool saved;
    if (!run_log_observe(&all->log, state, report, why) || !saver_observe(&all->saver, state, &saved, why))
        return false;
    if (saved) run_log_checkpoint(&all->log, state->iteration, all->saver.path);
    return true;
}

// Trains until the end, or until a signal comes: *asked then.
static bool train_watched(training_state *state, const split *parts, const training_settings *settings,
                          onlookers *all, training_report *report, int *asked, fault *why) {
    const training_observer observer = {.observe = look_on,
                                        .context = all,
                                        .interval =
                                            common_divisor(run_log_interval(&all->log), all->saver.interval),
                                        .end = saver_asked()};
    saver_watch();
    const bool done = train(state, parts->views, parts->training, settings, &observer, report, why);
    *asked = saver_unwatch();
    if (done && *asked)
        fprintf(stderr,
                "splat: ended by a signal after iteration %lld, which is saved; to go on, add --resume %s\n",
                (long long)state->iteration, all->saver.path);
    return done;
}

typedef struct lm_onlooker {
    run_log *log;
    const gs_gaussians *gaussians;
} lm_onlooker;

// Held-out views are measured if they were on the way here.
static bool look_on_lm(void *context, const lm_step *step, fault *why) {
    const lm_onlooker *on = context;
    const run_log_options *asked = &on->log->options;
    quality mean;
    const bool measured = asked->evaluate_every > 0 && asked->held_out_count > 0;
    lm_step_print(step);
    if (measured && !quality_measure(on->gaussians, asked->held_out, asked->held_out_count, asked->background,
                                     &mean, NULL, why))
        return false;
    return run_log_lm_step(on->log, step, measured ? &mean : NULL, why);
}

static bool finish_by_lm(const train_options *options, const split *parts, training_state *state,
                         const training_settings *training, run_log *log, fault *why) {
    lm_onlooker on = {log, &state->gaussians};
    const lm_observer observer = {look_on_lm, &on};
    lm_settings settings = lm_settings_from(&options->lm);
    settings.seed = training->seed;
    memcpy(settings.background, training->background, sizeof settings.background);
    return finish_lm(&state->gaussians, parts->views, parts->training, &settings, &observer, why);
}

// From where the state is to the file; `host` receives the trained Gaussians. *asked: the signal that ended
// training, and then there is no file; or 0.
static bool train_and_write(const train_options *options, const split *parts, gs_gaussians *host,
                            training_state *state, const training_settings *settings, const saver *saving,
                            int *asked, fault *why) {
    training_report report = {0};
    onlookers all = {.saver = *saving};
    bool done = open_log(&all.log, options, parts, settings, why);
    if (done) {
        run_log_start(&all.log, state);
        done = train_watched(state, parts, settings, &all, &report, asked, why);
    }
    if (done && !*asked && options->finish_by_lm)
        done = run_log_end_iterations(&all.log, state, &report, why) &&
               finish_by_lm(options, parts, state, settings, &all.log, why);
    if (done && !*asked)
        done = fetch_gaussians(host, &state->gaussians, why) && ply_write(options->output, host, why) &&
               run_log_finish(&all.log, state, &report, why) &&
               (!options->report || write_report(options, parts, &all.log, state, &report, why));
    if (done && !*asked)
        print_summary(options, parts, host, &report, run_record_last_quality(&all.log.record));
    fault unwritten;
    if (!run_log_close(&all.log, &unwritten) && done) {
        *why = unwritten;
        done = false;
    }
    training_report_close(&report);
    return done;
}

static bool start_at_random(const train_options *options, const split *parts, bool cut_out,
                            const start_settings *settings, gs_gaussians *host, fault *why) {
    const size_t count = (size_t)options->random;
    float(*points)[3] = calloc(count, sizeof *points);
    uint8_t(*colors)[3] = calloc(count, sizeof *colors);
    bool done = points && colors;
    if (done) {
        random_points(parts->views, parts->training, cut_out, count, (uint64_t)options->seed, points, colors);
        done = gaussians_from_points((const float(*)[3])points, (const uint8_t(*)[3])colors, count, settings,
                                     host, why);
    } else {
        fail(why, "no memory for %zu random points", count);
    }
    free(points);
    free(colors);
    return done;
}

static bool start_host(const train_options *options, const split *parts, const dataset *data, double extent,
                       gs_gaussians *host, fault *why) {
    const bool everywhere = options->random > 0 && !data->cut_out;
    start_settings settings = {.sh_degree = (int)options->sh_degree, .extent = extent};
    density_start(&options->density, options->iterations, everywhere, &settings.opacity, &settings.size);
    if (options->random > 0) return start_at_random(options, parts, data->cut_out, &settings, host, why);
    return gaussians_from_points((const float(*)[3])data->points, (const uint8_t(*)[3])data->colors,
                                 data->point_count, &settings, host, why);
}

static bool start(const train_options *options, const split *parts, const dataset *data, double extent,
                  gs_gaussians *host, training_state *state, fault *why) {
    if (!start_host(options, parts, data, extent, host, why)) return false;
    host->antialias = options->antialias;
    training_state_open(state, host);
    if (options->exposure) training_state_open_exposures(state, (int64_t)parts->training);
    return true;
}

static bool resume(const train_options *options, const split *parts, saver *saving, training_state *state,
                   fault *why) {
    const checkpoint_key key = saver_key(saving);
    if (!checkpoint_read(options->resume, &key, state, why)) return false;
    state->gaussians.antialias = options->antialias;
    // Its sum may be right and its numbers forged; training reads an exposure for every view.
    return (state->iteration <= options->iterations && state->gaussians.sh_degree == options->sh_degree &&
            state->exposures == (options->exposure ? (int64_t)parts->training : 0)) ||
           fail(why, "%s: damaged: no run with these options comes to its counts", options->resume);
}

// The options as the checkpoint's key has them: those that decide what the iterations come to.
static char *key_settings(const train_options *options) {
    static const char *const others[] = {
        "output",           "seconds",    "log",          "log-every",  "eval-every",
        "checkpoint-every", "checkpoint", "resume",       "report",     "finish",
        "lm-steps",         "lm-pcg",     "lm-batch",     "lm-batches", "lm-choice",
        "lm-form",          "lm-memory",  "lm-objective", "lm-ssim",    "lm-damping",
        "lm-units",         "lm-rule",    "lm-radius",    "lm-epsilon", NULL};
    return checkpoint_settings(options->table, others);
}

static bool train_on(const train_options *options, const float background[3], const dataset *data, int *asked,
                     fault *why) {
    if (data->point_count == 0 && options->random == 0)
        return fail(why, "%s: the data has no points to start from; --random 100000 starts from random ones",
                    options->data);
    split parts = {0};
    gs_gaussians host = {0};
    training_state state = {0};
    char *key = key_settings(options);
    bool done = key ? split_open(&parts, data, options->random_background, why)
                    : fail(why, "no memory for the options");
    if (done && parts.training == 0)
        done = fail(why, "%s: no view is left to train on (%zu in all, --holdout %lld)", options->data,
                    data->view_count, (long long)options->holdout);
    if (done) {
        double extent = scene_extent(parts.views, parts.training);
        training_settings settings = settings_from(options, extent);
        for (int i = 0; i < 3; i++) settings.background[i] = background[i];
        saver saving = {.path = options->checkpoint,
                        .interval = options->checkpoint_every,
                        .settings = key,
                        .views = parts.views,
                        .view_count = parts.training};
        done = (options->resume ? resume(options, &parts, &saving, &state, why)
                                : start(options, &parts, data, extent, &host, &state, why)) &&
               train_and_write(options, &parts, &host, &state, &settings, &saving, asked, why);
    }
    training_state_close(&state);
    gaussians_free(&host);
    split_close(&parts);
    free(key);
    return done;
}

static bool load_and_train(const train_options *options, const float background[3], int *asked, fault *why) {
    dataset data = {0};
    const dataset_options loading = {.downscale = (int)options->downscale,
                                     .background = {background[0], background[1], background[2]},
                                     .keep_alpha = options->random_background || options->random > 0};
    bool done = output_is_possible(options->output, why) && output_is_possible(options->checkpoint, why) &&
                (!options->report || report_is_possible(options->report, why)) &&
                dataset_load(options->data, &loading, &data, why);
    done = done && dataset_spared(&data, options->output, why) &&
           dataset_spared(&data, options->checkpoint, why) && dataset_spared(&data, options->log, why);
    if (done) {
        dataset_hold_out(&data, (size_t)options->holdout);
        done = train_on(options, background, &data, asked, why);
    }
    dataset_free(&data);
    return done;
}

// A file must not take the place of another one that the same run reads or writes.
static bool files_differ(const train_options *o, fault *why) {
    const struct {
        const char *a_is, *a, *b_is, *b;
    } pairs[] = {{"-o", o->output, "--checkpoint", o->checkpoint},
                 {"-o", o->output, "--resume", o->resume},
                 {"-o", o->output, "--log", o->log},
                 {"--log", o->log, "--checkpoint", o->checkpoint},
                 {"--log", o->log, "--resume", o->resume}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!are_two_files(pairs[i].a_is, pairs[i].a, pairs[i].b_is, pairs[i].b, why)) return false;
    return true;
}

// What --reproducible asks of other options.
static bool make_reproducible(train_options *options, fault *why) {
    if (!options->reproducible) return true;
    const distwar_strategy strategy = blend_strategies[options->reduce].strategy;
    if (strategy != DISTWAR_STRATEGY_COUNT && strategy != DISTWAR_FIXED)
        return fail(why, "--reproducible needs --reduce fixed, not %s", distwar_strategy_name(strategy));
    if (options->seconds > 0) return fail(why, "--reproducible and --seconds exclude each other");
    // Its sums are of floats, by atomics.
    if (options->finish_by_lm) return fail(why, "--reproducible and --finish lm exclude each other");
    options->reduce = offered_index(blend_strategies, DISTWAR_FIXED);
    return true;
}

int train_command(int argc, char **argv) {
    train_options options = {.background = "0,0,0",
                             .downscale = 1,
                             .iterations = 7000,
                             .threshold = BLEND_THRESHOLD,
                             .holdout = 8,
                             .sh_degree = GS_MAX_SH_DEGREE,
                             .sh_rate = 4,
                             .reduce = offered_index(blend_strategies, DISTWAR_STRATEGY_COUNT),
                             .density = density_options_default(),
                             .lm = lm_options_default()};
    static const char *const finishes[] = {"none", "lm", NULL};
    int finish = 0;
    const option_spec general[] = {
        {OPTION_TEXT, "output", 'o', &options.output, 0, 0, NULL, "the PLY file to write; required"},
        {OPTION_INT, "downscale", 0, &options.downscale, 1, 64, NULL, "divide pictures by this, both ways"},
        {OPTION_INT, "iterations", 0, &options.iterations, 1, 10000000, NULL,
         "training steps, one view each"},
        {OPTION_INT, "warm-up", 0, &options.warm_up, 0, 10000000, NULL,
         "raise the learning rate of means over so many steps, from a hundredth"},
        {OPTION_REAL, "seconds", 0, &options.seconds, 0, 1e9, NULL,
         "stop after so much training, on the learning rates of all the iterations, without what --finish "
         "adds; 0: never"},
        {OPTION_INT, "seed", 0, &options.seed, 0, INFINITY, NULL,
         "of all that is random: the order of views, --random, density control"},
        AUTO_REDUCE_OPTION(&options.reduce, strategy_names(blend_strategies, "auto", options.strategy_names),
                           BLEND_REDUCE_HELP),
        THRESHOLD_OPTION(&options.threshold, THRESHOLD_HELP "; not for auto"),
        {OPTION_INT, "holdout", 0, &options.holdout, 0, INFINITY, NULL,
         "keep every Nth view, by name, for measuring only; 0 keeps none; not used if the data has test "
         "views"},
        {OPTION_INT, "random", 0, &options.random, 0, 50000000, NULL,
         "start from so many random points instead of the data's; 0: from the data's"},
        {OPTION_INT, "sh-degree", 0, &options.sh_degree, 0, GS_MAX_SH_DEGREE, NULL,
         "of the colours' spherical harmonics; in use one more every 1000 iterations"},
        {OPTION_REAL, "sh-rate", 0, &options.sh_rate, 0, 1e6, NULL,
         "learning rate of the spherical harmonics above the constant, in published ones"},
        {OPTION_TEXT, "background", 0, &options.background, 0, 0, NULL,
         "R,G,B, each 0..1; also behind transparent pictures"},
        {OPTION_FLAG, "random-background", 0, &options.random_background, 0, 0, NULL,
         "train before a random colour each step, so that nothing transparent hides in --background"},
        {OPTION_FLAG, "antialias", 0, &options.antialias, 0, 0, NULL,
         "what a pixel's width adds to a small Gaussian is taken from its opacity; the scene's file says so"},
        {OPTION_FLAG, "exposure", 0, &options.exposure, 0, 0, NULL,
         "learn a correction of colours for every view; held-out views are measured without one"},
        {OPTION_FLAG, "reproducible", 0, &options.reproducible, 0, 0, NULL,
         "the same command gives the same bytes again, on the same kind of GPU; --reduce fixed, so slower"},
        {OPTION_INT, "checkpoint-every", 0, &options.checkpoint_every, 0, 10000000, NULL,
         "save training every N iterations; 0: only when SIGINT or SIGTERM ends it"},
        {OPTION_TEXT, "checkpoint", 0, &options.checkpoint, 0, 0, NULL,
         "the file to save training to; without this, the name of -o and '.checkpoint'"},
        {OPTION_TEXT, "resume", 0, &options.resume, 0, 0, NULL,
         "go on from this checkpoint, which must be of the same data and options; times, files and --finish "
         "may differ"},
        {OPTION_TEXT, "log", 0, &options.log, 0, 0, NULL,
         "write how training goes to this file, as lines of JSON: steps, evaluations, checkpoints, steps of "
         "--finish"},
        {OPTION_TEXT, "report", 0, &options.report, 0, 0, NULL,
         "write a page on the run, with pictures and curves, to this folder: index.html"},
        {OPTION_INT, "log-every", 0, &options.log_every, 0, 10000000, NULL,
         "steps between lines of the log and points of the curves; 0: so that there are 200, but 100 at "
         "most"},
        {OPTION_INT, "eval-every", 0, &options.eval_every, 0, 10000000, NULL,
         "measure the held-out views every so many steps, for --log and --report; 0: at the end only"},
        {OPTION_CHOICE, "finish", 0, &finish, 0, 0, finishes,
         "lm: after the iterations, or --seconds of them, steps of Levenberg-Marquardt on the same views; "
         "not "
         "with --antialias, --exposure, --reproducible; a signal during these ends it without a file"},
        {.kind = OPTION_END}};
    enum { GENERAL = sizeof general / sizeof *general };
    _Static_assert(DATA_SETTINGS + DENSITY_OPTIONS + LM_OPTIONS + GENERAL - 1 <= RUN_SETTINGS, "room");
    option_spec table[DENSITY_OPTIONS + LM_OPTIONS + GENERAL];
    memcpy(table, general, sizeof general);
    density_options_list(&options.density, table + GENERAL - 1);
    lm_options_list(&options.lm, table + GENERAL - 1 + DENSITY_OPTIONS);
    table[DENSITY_OPTIONS + LM_OPTIONS + GENERAL - 1] = general[GENERAL - 1];
    const command_spec command = {
        "splat train",
        "DATA -o OUT.ply [options]",
        "Trains a scene on the photographs in the folder DATA, which holds images/ and a COLMAP model\n"
        "(binary or text, in sparse/0, sparse or DATA itself), or transforms_train.json, or\n"
        "transforms.json. Lens distortion is removed.\n\n"
        "Starts with one Gaussian for every point of the model, or with --random; from step 500 on\n"
        "(--density-from) density control moves those that are not needed and adds others, up to\n"
        "--max-gaussians. With --density none they stay as many as they are.",
        "  splat train data/fern -o fern.ply --downscale 4\n"
        "  splat train data/fox -o fox.ply --random 100000\n"
        "  splat train data/lego -o lego.ply --random 100000 --background 1,1,1\n"
        "  splat train data/fern -o fern.ply --seconds 30\n"
        "  splat train data/fern -o fern.ply --eval-every 500 --log fern.jsonl --report fern-report\n"
        "  splat train data/fern -o fern.ply --checkpoint-every 1000\n"
        "  splat train data/fern -o fern.ply --checkpoint-every 1000 --resume fern.ply.checkpoint\n"
        "  splat train data/fern -o fern.ply --finish lm --lm-steps 20\n"
        "  splat train data/fern -o fern.ply --downscale 8 --iterations 30 --reduce atomic\n",
        table,
        1,
        1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.data, &code)) return code;
    options.table = table;
    options.finish_by_lm = finish == 1;
    fault why;
    float background[3];
    if (options.density.kind == DENSITY_MCMC && options.density.most_gaussians == 0) {
        fail(&why, "--density mcmc needs a --max-gaussians other than 0");
        return report_misuse(&command, &why);
    }
    if (options.finish_by_lm && (options.antialias || options.exposure)) {
        fail(&why, "--finish lm excludes --antialias and --exposure");
        return report_misuse(&command, &why);
    }
    if (!options.output) {
        fail(&why, "-o is missing, the scene to write");
        return report_misuse(&command, &why);
    }
    char beside[PATH_MAX];
    snprintf(beside, sizeof beside, "%s.checkpoint", options.output);
    if (!options.checkpoint) options.checkpoint = beside;
    if (!parse_color(options.background, background, &why) || !make_reproducible(&options, &why) ||
        !files_differ(&options, &why))
        return report_misuse(&command, &why);

    int asked = 0;
    if (!load_and_train(&options, background, &asked, &why)) return report_failure("splat", &why);
    return asked ? 128 + asked : EXIT_SUCCESS;
}
