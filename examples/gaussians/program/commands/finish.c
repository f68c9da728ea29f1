// SPDX-License-Identifier: MIT
// splat finish: a trained scene and its photographs -> the scene after a few steps of Levenberg-Marquardt.
#include "commands/command.h"
#include "dataset.h"
#include "device.h"
#include "view/device_gaussians.h"
#include "training/finite.h"
#include "json_writer.h"
#include "lm/lm_options.h"
#include "ply.h"
#include "measure/quality.h"
#include "view/blend_strategies.h"
#include "record/run_log.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct finish_options {
    const char *data, *scene, *output, *background, *json, *log;
    int64_t downscale, holdout, seed, threshold;
    int reduce; // index into lm_strategies
    lm_options lm;
    const option_spec *table; // of all of them
} finish_options;

// A step, and the held-out views after it.
typedef struct finish_entry {
    lm_step step;
    double milliseconds[LM_PARTS];
    quality held_out;
} finish_entry;

typedef struct finish {
    const finish_options *options;
    gs_gaussians gaussians; // device
    target_view *views;     // those to train on first
    size_t training, held_out;
    float background[3];
    quality before;
    finish_entry *entries; // [options->lm.steps]
    size_t entry_count;
    run_log log;
} finish;

static bool open_views(finish *f, const dataset *data, fault *why) {
    f->views = calloc(data->view_count + 1, sizeof *f->views);
    if (!f->views) return fail(why, "no memory for %zu views", data->view_count);
    for (int held_out = 0; held_out < 2; held_out++)
        for (size_t i = 0; i < data->view_count; i++) {
            const dataset_view *view = &data->views[i];
            if (view->held_out != held_out) continue;
            if (!target_view_open(&f->views[f->training + f->held_out], &view->camera, &view->picture, why))
                return fail(why, "%s: %s", view->name, why->text);
            (*(held_out ? &f->held_out : &f->training))++;
        }
    return f->training > 0 || fail(why, "%s: no view is left to train on (%zu in all, --holdout %lld)",
                                   f->options->data, data->view_count, (long long)f->options->holdout);
}

static bool measure(const finish *f, quality *out, fault *why) {
    *out = (quality){NAN, NAN};
    return f->held_out == 0 ||
           quality_measure(&f->gaussians, f->views + f->training, f->held_out, f->background, out, NULL, why);
}

static bool after_step(void *context, const lm_step *step, fault *why) {
    finish *f = context;
    finish_entry *entry = &f->entries[f->entry_count++];
    entry->step = *step;
    memcpy(entry->milliseconds, step->milliseconds, sizeof entry->milliseconds);
    if (!json_is_stdout(f->options->json)) lm_step_print(step);
    return measure(f, &entry->held_out, why) &&
           run_log_lm_step(&f->log, step, f->held_out ? &entry->held_out : NULL, why);
}

static bool start_log(finish *f, fault *why) {
    run_log_options wanted = {.path = f->options->log,
                              .every = 1,
                              .held_out = f->views + f->training,
                              .held_out_count = f->held_out};
    memcpy(wanted.background, f->background, sizeof wanted.background);
    if (!run_log_open(&f->log, &wanted, why)) return false;
    run_record_text(&f->log.record, "scene", f->options->scene);
    run_record_options(&f->log.record, f->options->table);
    run_log_start(&f->log, &(training_state){.gaussians = f->gaussians});
    return true;
}

// As of a run of no iterations.
static bool end_log(finish *f, fault *why) {
    return run_log_finish(&f->log, &(training_state){.gaussians = f->gaussians}, &(training_report){0}, why);
}

static bool finish_in_view(finish *f, const lm_settings *settings, fault *why) {
    const lm_observer observer = {after_step, f};
    return start_log(f, why) && measure(f, &f->before, why) &&
           (f->held_out == 0 || run_log_evaluation(&f->log, &(run_evaluation){.mean = f->before}, why)) &&
           finish_lm(&f->gaussians, f->views, f->training, settings, &observer, why) && end_log(f, why);
}

static void describe(json_writer *json, const void *subject) {
    const finish *f = subject;
    json_begin(json, NULL, '{');
    json_put_text(json, "device", device_name());
    json_put_text(json, "scene", f->options->scene);
    json_put_text(json, "reduction", distwar_strategy_name(lm_strategies[f->options->reduce].strategy));
    json_put_integer(json, "threshold", f->options->threshold);
    json_put_integer(json, "gaussians", f->gaussians.count);
    json_put_integer(json, "views", (int64_t)f->training);
    json_put_number(json, "psnr", f->before.psnr);
    json_put_number(json, "ssim", f->before.ssim);
    json_begin(json, "steps", '[');
    for (size_t i = 0; i < f->entry_count; i++) {
        const finish_entry *e = &f->entries[i];
        json_begin(json, NULL, '{');
        json_put_number(json, "seconds", e->step.seconds);
        json_put_number(json, "before", e->step.before);
        json_put_number(json, "after", e->step.after);
        json_put_number(json, "gamma", e->step.gamma);
        json_put_number(json, "damping", e->step.damping);
        json_put_number(json, "gain", e->step.gain);
        json_put_boolean(json, "kept", e->step.kept);
        json_put_integer(json, "images", e->step.images);
        json_put_integer(json, "subsets", e->step.subsets);
        json_put_integer(json, "bytes", (int64_t)e->step.bytes);
        json_put_number(json, "psnr", e->held_out.psnr);
        json_put_number(json, "ssim", e->held_out.ssim);
        json_begin(json, "gpu_ms", '{'); // sums since the first step
        for (int part = 0; part < LM_PARTS; part++)
            json_put_number(json, lm_part_name((lm_part)part), e->milliseconds[part]);
        json_end(json, '}');
        json_end(json, '}');
    }
    json_end(json, ']');
    json_end(json, '}');
}

static void print_summary(const finish *f) {
    const lm_step *last = &f->entries[f->entry_count - 1].step;
    const double *spent = f->entries[f->entry_count - 1].milliseconds;
    printf("finishing  %lld step%s in %.2f s, %.2f GiB on the device\n", (long long)last->step,
           last->step == 1 ? "" : "s", last->seconds, (double)last->bytes / 0x1p30);
    if (f->held_out)
        printf("held out   PSNR %.2f -> %.2f dB, SSIM %.4f -> %.4f\n", f->before.psnr,
               f->entries[f->entry_count - 1].held_out.psnr, f->before.ssim,
               f->entries[f->entry_count - 1].held_out.ssim);
    double total = 0;
    for (int part = 0; part < LM_PARTS; part++) total += spent[part];
    if (total == 0) return;
    printf("GPU        ms:");
    for (int part = 0; part < LM_PARTS; part++)
        printf("%s %s %.1f", part ? "," : "", lm_part_name((lm_part)part), spent[part]);
    printf("\n");
}

static bool run(finish *f, gs_gaussians *host, const dataset *data, fault *why) {
    const finish_options *options = f->options;
    lm_settings settings = lm_settings_from(&options->lm);
    settings.policy = (distwar_policy){lm_strategies[options->reduce].strategy, (int)options->threshold};
    settings.seed = (uint64_t)options->seed;
    memcpy(settings.background, f->background, sizeof settings.background);
    f->entries = calloc((size_t)settings.steps, sizeof *f->entries);
    if (!f->entries) return fail(why, "no memory for %lld steps", (long long)settings.steps);
    if (!open_views(f, data, why)) return false;
    f->gaussians = device_gaussians_open(host->count, host->sh_degree);
    device_gaussians_upload(&f->gaussians, host);
    if (!finish_in_view(f, &settings, why)) return false;
    device_gaussians_download(host, &f->gaussians);
    int64_t dropped = gaussians_keep_finite(host);
    if (dropped > 0)
        fprintf(stderr, "splat: dropped %lld Gaussians whose parameters overflowed\n", (long long)dropped);
    if (!json_is_stdout(options->json)) print_summary(f);
    return ply_write(options->output, host, why) &&
           (!options->json || json_save(options->json, describe, f, why)) && run_log_close(&f->log, why);
}

// -o may name the scene itself; the numbers would overwrite one of the two.
static bool files_stand_alone(const finish_options *o, fault *why) {
    return are_two_files("--log", o->log, "the scene", o->scene, why) &&
           are_two_files("--log", o->log, "-o", o->output, why) &&
           are_two_files("--log", o->log, "--json", o->json, why) &&
           are_two_files("--json", o->json, "the scene", o->scene, why) &&
           are_two_files("--json", o->json, "-o", o->output, why);
}

int finish_command(int argc, char **argv) {
    finish_options options = {.background = "0,0,0",
                              .downscale = 1,
                              .holdout = 8,
                              .reduce = offered_index(lm_strategies, DISTWAR_TREE),
                              .lm = lm_options_default()};
    const char *names[STRATEGY_NAMES];
    const option_spec general[] = {
        {OPTION_TEXT, "cameras", 0, &options.data, 0, 0, NULL,
         "the folder with the photographs and their cameras, as for 'splat train'; required"},
        {OPTION_TEXT, "output", 'o', &options.output, 0, 0, NULL, "the PLY file to write; required"},
        {OPTION_INT, "downscale", 0, &options.downscale, 1, 64, NULL, "divide pictures by this, both ways"},
        {OPTION_INT, "holdout", 0, &options.holdout, 0, INFINITY, NULL,
         "keep every Nth view, by name, for measuring only; the N that training held out"},
        {OPTION_INT, "seed", 0, &options.seed, 0, INFINITY, NULL, "of the random choice of views"},
        REDUCE_OPTION(&options.reduce, strategy_names(lm_strategies, NULL, names), BLEND_REDUCE_HELP),
        THRESHOLD_OPTION(&options.threshold, THRESHOLD_HELP),
        {OPTION_TEXT, "background", 0, &options.background, 0, 0, NULL, "R,G,B, each 0..1"},
        {OPTION_TEXT, "json", 0, &options.json, 0, 0, NULL, JSON_HELP},
        {OPTION_TEXT, "log", 0, &options.log, 0, 0, NULL,
         "write every step to this file as it comes, as lines of JSON, in the form of 'splat train --log'"},
        {.kind = OPTION_END}};
    enum { GENERAL = sizeof general / sizeof *general };
    option_spec table[LM_OPTIONS + GENERAL];
    memcpy(table, general, sizeof general);
    lm_options_list(&options.lm, table + GENERAL - 1);
    table[LM_OPTIONS + GENERAL - 1] = general[GENERAL - 1];
    const command_spec command = {
        "splat finish",
        "SCENE.ply --cameras DATA -o OUT.ply [options]",
        "Finishes a scene that 'splat train' has brought most of the way by a few steps of the method of\n"
        "Levenberg and Marquardt, on the photographs it was trained on (docs/math.md, section 8).",
        "  splat train data/fern -o fern.ply --downscale 4 --iterations 7000\n"
        "  splat finish fern.ply --cameras data/fern --downscale 4 -o finished.ply\n"
        "  splat finish fern.ply --cameras data/fern -o finished.ply --lm-form cached --lm-memory 20\n",
        table,
        1,
        1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    options.table = table;
    fault why;
    finish f = {.options = &options};
    bool usable = parse_color(options.background, f.background, &why);
    if (usable && !options.data) usable = fail(&why, "--cameras is missing, the photographs");
    if (usable && !options.output) usable = fail(&why, "-o is missing, the scene to write");
    if (!usable || !files_stand_alone(&options, &why)) return report_misuse(&command, &why);

    gs_gaussians host = {0};
    dataset data = {0};
    const dataset_options loading = {.downscale = (int)options.downscale,
                                     .background = {f.background[0], f.background[1], f.background[2]}};
    bool done = output_is_possible(options.output, &why) && json_is_possible(options.json, &why) &&
                read_scene_to_measure(options.scene, &host, &why) &&
                dataset_load(options.data, &loading, &data, &why) &&
                dataset_spared(&data, options.output, &why) && dataset_spared(&data, options.json, &why) &&
                dataset_spared(&data, options.log, &why);
    if (done) {
        dataset_hold_out(&data, (size_t)options.holdout);
        done = run(&f, &host, &data, &why);
    }
    fault unwritten; // nothing new: what ended this was said, or the log is closed
    run_log_close(&f.log, &unwritten);
    for (size_t i = 0; i < f.training + f.held_out; i++) target_view_close(&f.views[i]);
    free(f.views);
    free(f.entries);
    device_gaussians_close(&f.gaussians);
    dataset_free(&data);
    gaussians_free(&host);
    return done ? EXIT_SUCCESS : report_failure("splat", &why);
}
