// SPDX-License-Identifier: MIT
// dsplat finish: a trained scene and its photographs -> the scene after a few steps of Levenberg-Marquardt.
#include "commands/command.h"
#include "dataset.h"
#include "training_state.h"
#include "files/json_writer.h"
#include "scene.h"
#include "record/run_log.h"
#include "solver.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What Levenberg-Marquardt's kernels sum by.
static const offered_strategy lm_strategies[] = {
    DISTWAR_STRATEGIES(OFFERED_ROW){.strategy = DISTWAR_STRATEGY_COUNT}};

typedef struct finish_options {
    const char *data, *scene, *output, *background, *json, *log;
    int64_t downscale, holdout, seed, threshold;
    int reduce; // index into lm_strategies
    const char *names[STRATEGY_NAMES];
    bool undistort, mask_from_alpha;
    lm_settings lm;
} finish_options;

// A step, and the held-out views after it.
typedef struct finish_step {
    lm_step step;
    quality mean; // NaN without held-out views
} finish_step;

typedef struct finish {
    const finish_options *options;
    const option_spec *table; // of the options
    gs_gaussians gaussians;   // device
    view_split split;
    scene_notes notes; // of the scene, for the output too; the background is the option's if that is given
    quality before;
    finish_step *steps; // [options->lm.steps], of which `count` are done
    size_t count;
    run_log log;
} finish;

static bool measure(const finish *f, quality *out, fault *why) {
    *out = (quality){NAN, NAN};
    return f->split.held_out == 0 ||
           quality_measure(&(training_state){.gaussians = f->gaussians},
                           &(shown_views){f->split.views, NULL, f->notes.background}, NULL, f->split.training,
                           f->split.held_out, out, NULL, why);
}

// measured: with the held-out views, null without any.
static void describe_step(json_writer *json, const finish_step *of, const char *images, bool measured) {
    const lm_step *const step = &of->step;
    json_put_number(json, "seconds", step->seconds);
    json_put_number(json, "before", step->before);
    json_put_number(json, "after", step->after);
    json_put_number(json, "gain", step->gain);
    json_put_number(json, "gamma", step->gamma);
    json_put_number(json, "damping", step->damping);
    json_put_boolean(json, "kept", step->kept);
    json_put_integer(json, images, step->images);
    if (step->batches > 1) json_put_integer(json, "batches", step->batches);
    json_put_integer(json, "bytes", (int64_t)step->bytes);
    if (measured) json_put_number(json, "psnr", of->mean.psnr), json_put_number(json, "ssim", of->mean.ssim);
}

// The number of parts of a step that take time; the last two are the cache's.
static int parts_of(const finish *f) {
    return f->options->lm.form == LM_CACHED ? LM_PARTS : LM_BUILD;
}

// Prints the step, and writes a line of the log:
//   {"event": "lm", "step": 1, "seconds": 0.31, "before": 0.0784, "after": 0.0781, "gain": 0.42, "gamma": 0.31,
//    "damping": 0.1, "kept": true, "views": 17, "bytes": 780140544, "psnr": 23.2, "ssim": 0.741}
// seconds: since the first step began. before, after: the objective. psnr, ssim: of held-out views, if there are any.
// "batches": 4 follows the views if the step has several.
static bool after_step(void *context, const lm_step *step, fault *why) {
    finish *const f = context;
    finish_step *const here = &f->steps[f->count++];
    json_writer json;
    char batches[48] = "";
    if (step->batches > 1) snprintf(batches, sizeof batches, " in %lld batches", (long long)step->batches);
    if (!json_is_stdout(f->options->json))
        printf("LM step    %lld: objective %.6f -> %.6f on %lld views%s, gamma %.3f, damping %g, "
               "gain ratio %.3f%s, %.2f s\n",
               (long long)step->step, step->before, step->after, (long long)step->images, batches,
               step->gamma, step->damping, step->gain, step->kept ? "" : ", undone", step->seconds);
    here->step = *step;
    if (!measure(f, &here->mean, why)) return false;
    if (!run_log_begin_line(&f->log, "lm", &json)) return true;
    json_put_integer(&json, "step", step->step);
    describe_step(&json, here, "views", f->split.held_out > 0);
    run_log_end_line(&f->log, &json);
    return true;
}

static void describe(json_writer *json, const void *subject) {
    const finish *f = subject;
    json_put_text(json, "device", device_name());
    json_put_text(json, "scene", f->options->scene);
    json_put_text(json, "reduction", distwar_strategy_name(lm_strategies[f->options->reduce].strategy));
    json_put_integer(json, "threshold", f->options->threshold);
    json_put_integer(json, "gaussians", f->gaussians.count);
    json_put_integer(json, "views", (int64_t)f->split.training);
    json_put_number(json, "psnr", f->before.psnr);
    json_put_number(json, "ssim", f->before.ssim);
    json_begin(json, "steps", '[');
    for (size_t i = 0; i < f->count; i++) {
        const finish_step *e = &f->steps[i];
        json_begin(json, NULL, '{');
        describe_step(json, e, "images", true);
        json_begin(json, "gpu_ms", '{'); // sums since the first step
        for (int part = 0; part < parts_of(f); part++)
            json_put_number(json, lm_part_name((lm_part)part), e->step.milliseconds[part]);
        json_end(json, '}');
        json_end(json, '}');
    }
    json_end(json, ']');
}

static void print_summary(const finish *f) {
    const finish_step *end = &f->steps[f->count - 1];
    const lm_step *last = &end->step;
    const double *spent = last->milliseconds;
    printf("finishing  %lld step%s in %.2f s, %.2f GiB on the device\n", (long long)last->step,
           last->step == 1 ? "" : "s", last->seconds, (double)last->bytes / 0x1p30);
    if (f->split.held_out)
        printf("held out   PSNR %.2f -> %.2f dB, SSIM %.4f -> %.4f\n", f->before.psnr, end->mean.psnr,
               f->before.ssim, end->mean.ssim);
    if (spent[LM_PICTURES] == 0) return; // on the CPU
    printf("GPU        ms:");
    for (int part = 0; part < parts_of(f); part++)
        printf("%s %s %.1f", part ? "," : "", lm_part_name((lm_part)part), spent[part]);
    printf("\n");
}

static bool run_finish(finish *f, gs_gaussians *host, const dataset *data, fault *why) {
    const finish_options *o = f->options;
    lm_settings settings = o->lm;
    settings.policy = (distwar_policy){lm_strategies[o->reduce].strategy, (int)o->threshold};
    settings.seed = (uint64_t)o->seed;
    memcpy(settings.background, f->notes.background, sizeof settings.background);
    if (!view_split_open(&f->split, data, o->data, why)) return false;
    f->gaussians = device_gaussians_from(host);
    f->steps = calloc((size_t)settings.steps, sizeof *f->steps);
    if (!f->steps) return fail(why, "no memory for %lld steps", (long long)settings.steps);
    const training_state state = {.gaussians = f->gaussians};
    run_log_options wanted = {.path = o->log,
                              .every = 1,
                              .evaluate_every = 1,
                              .shown = {f->split.views, NULL, f->notes.background},
                              .first = f->split.training,
                              .held_out = f->split.held_out};
    if (!run_log_open(&f->log, &wanted, why)) return false;
    run_log_start(&f->log, &state, (const run_setting[]){{.name = "scene", .text = o->scene}, {0}}, f->table);
    if (!measure(f, &f->before, why) ||
        (f->split.held_out > 0 && !run_log_evaluation(&f->log, &(run_point){.mean = f->before}, why)) ||
        !finish_lm(&f->gaussians, f->split.views, f->split.training, &settings, after_step, f, why))
        return false;
    f->log.moved = true;
    // as of a run without iterations
    const training_report report = {.seconds = f->steps[f->count - 1].step.seconds};
    if (!run_log_finish(&f->log, &state, &report, why)) return false;
    device_gaussians_copy(host, &f->gaussians);
    const int64_t dropped = gaussians_keep_finite(host);
    if (dropped > 0)
        fprintf(stderr, "dsplat: dropped %lld Gaussians whose parameters overflowed\n", (long long)dropped);
    scene_stream out;
    const bool written = scene_stream_open(&out, o->output, host, &f->notes, why) &&
                         scene_stream_put(&out, host, why) && scene_stream_commit(&out, why);
    scene_stream_discard(&out); // harmless after a commit
    if (written && !json_is_stdout(o->json)) print_summary(f);
    return written && (!o->json || json_save(o->json, describe, f, why)) && run_log_close(&f->log, why);
}

static bool check(const finish_options *o, fault *why) {
    float rgb[3];
    if (!lm_settings_check(&o->lm, why)) return false;
    if (o->background && !parse_color(o->background, rgb, why)) return false;
    if (!o->data) return fail(why, "--cameras is missing: the photographs");
    if (!o->output) return fail(why, "-o is missing: the scene file to write");
    // -o may name the scene itself. The log and the numbers must not overwrite another file.
    const char *const is[] = {"--log", "--json", "the scene", "-o"};
    const char *const path[] = {o->log, o->json, o->scene, o->output};
    for (int a = 0; a < 2; a++)
        for (int b = a + 1; b < 4; b++)
            if (!are_two_files(is[a], path[a], is[b], path[b], why)) return false;
    return true;
}

static bool load_and_finish(finish *f, fault *why) {
    const finish_options *o = f->options;
    float *const behind = f->notes.background;
    if (!scene_is_possible(o->output, why) || !json_is_possible(o->json, why) ||
        !scene_read_notes(o->scene, &f->notes, why) ||
        (o->background && !parse_color(o->background, behind, why)))
        return false;
    gs_gaussians host = {0};
    dataset data = {0};
    const dataset_options loading = {.downscale = (int)o->downscale,
                                     .background = {behind[0], behind[1], behind[2]},
                                     .undistort = o->undistort,
                                     .mask_from_alpha = o->mask_from_alpha};
    bool done = read_scene_to_measure(o->scene, &host, why) && dataset_load(o->data, &loading, &data, why) &&
                dataset_may_write(&data, o->output, why) && dataset_may_write(&data, o->json, why) &&
                dataset_may_write(&data, o->log, why);
    if (done) dataset_hold_out(&data, (size_t)o->holdout);
    done = done && run_finish(f, &host, &data, why);
    fault unwritten; // not reported: a failure has a message already, and a success has closed the log
    run_log_close(&f->log, &unwritten);
    free(f->steps);
    view_split_close(&f->split);
    device_gaussians_close(&f->gaussians);
    dataset_close(&data);
    scene_close(&host);
    return done;
}

int finish_command(int argc, char **argv) {
    finish_options options = {.downscale = 1,
                              .holdout = 8,
                              .threshold = BLEND_THRESHOLD,
                              .reduce = offered_index(lm_strategies, DISTWAR_TREE),
                              .lm = lm_settings_default()};
    for (int i = 1; i < argc; i++) // read first: other options change what it sets
        if (strcmp(argv[i], "--lm-published") == 0) options.lm = lm_settings_published();
    const option_spec rows[] = {
        CAMERAS_OPTION(&options.data),
        OUTPUT_OPTION(&options.output, .help = "the scene file to write; required"),
        DOWNSCALE_OPTION(&options.downscale, "pictures"),
        UNDISTORT_OPTION(&options.undistort),
        MASK_FROM_ALPHA_OPTION(&options.mask_from_alpha),
        OPTION("holdout", &options.holdout, .maximum = INFINITY,
               .help = "hold out every Nth view by name, as 'dsplat train --holdout' did"),
        OPTION("seed", &options.seed, .maximum = INFINITY, .help = "seed of the random choice of views"),
        OPTION("lm-steps", &options.lm.steps, .minimum = 1, .maximum = 100000,
               .help = "steps of Levenberg-Marquardt"),
        REDUCE_OPTION(&options.reduce, strategy_names(lm_strategies, NULL, options.names), BLEND_REDUCE_HELP),
        THRESHOLD_OPTION(&options.threshold, THRESHOLD_HELP),
        SCENE_BACKGROUND_OPTION(&options.background),
        JSON_OPTION(&options.json),
        OPTION("log", &options.log, .help = "write each step to this file as a line of JSON"),
        OPTIONS_END};
    option_table table = {0};
    option_table_add(&table, rows);
    lm_options_list(&options.lm, &table);
    const command_spec command = {
        .name = "dsplat finish",
        .arguments = "SCENE.ply --cameras DATA -o OUT.ply [options]",
        .summary =
            "EXPERIMENTAL. Takes a few steps of the Levenberg-Marquardt method from a trained scene, on the\n"
            "photographs it was trained on (math.md, section 8). After 'dsplat train' with its defaults, views\n"
            "held out gain up to 0.25 dB in scenes of one object, and lose 0.1 to 0.5 dB in photographed\n"
            "surroundings (docs/benchmarks/papers.md).",
        .examples =
            "  dsplat train data/fern -o fern.ply --downscale 4 --iterations 7000\n"
            "  dsplat finish fern.ply --cameras data/fern --downscale 4 -o finished.ply\n"
            "  dsplat finish fern.ply --cameras data/fern -o finished.ply --lm-steps 3 --lm-batch 50\n",
        .options = table.rows,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    finish f = {.options = &options, .table = table.rows};
    if (!check(&options, &why)) return report_misuse(&command, &why);
    return load_and_finish(&f, &why) ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
