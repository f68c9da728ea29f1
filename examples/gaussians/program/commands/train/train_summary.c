// SPDX-License-Identifier: MIT
#include "train_summary.h"
#include "device.h"
#include "frame.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void print_data(const train_options *options, const view_split *split) {
    const image *first = split->views[0].picture;
    bool differ = false;
    for (size_t i = 0; i < split->training + split->held_out; i++)
        differ |= split->views[i].picture->width != first->width ||
                  split->views[i].picture->height != first->height;
    printf("data       %s: %zu view%s to train on, %zu held out, %d x %d%s\n", options->data, split->training,
           split->training == 1 ? "" : "s", split->held_out, first->width, first->height,
           differ ? " and other sizes" : "");
}

static void print_memory(const train_run *run, int ranks) {
    const training_memory *const m = &run->memory;
    const double all = m->scene + m->step + m->pictures;
    const int64_t most = run->settings.density.most_gaussians, first = run->first_gaussians;
    size_t unused, bytes;
    DEVICE_CHECK(cudaMemGetInfo(&unused, &bytes));
    printf(
        "memory     about %.0f MB of the device's %.0f: %.0f for %lld Gaussians, the most there will be, %.0f for "
        "a step, %.0f for photographs\n",
        1e-6 * all, 1e-6 * (double)bytes, 1e-6 * m->scene, (long long)(first > most ? first : most),
        1e-6 * m->step, 1e-6 * m->pictures);
    if (all <= (double)unused || run->options->memory > 0) return;
    printf("           more than the %.0f MB that are free: ", 1e-6 * (double)unused);
    if (m->scene + m->step <= 0.9 * (double)unused)
        printf("photographs are uploaded when a step needs them\n");
    else
        printf("--max-gaussians %lld would fit\n",
               (long long)training_gaussians_that_fit(&run->settings, &run->known, run->first_gaussians,
                                                      (int)run->options->sh_degree, ranks,
                                                      0.9 * (double)unused));
}

static void print_start(const train_run *run) {
    const stereo_result *const stereo = &run->stereo;
    if (!run->at_random && stereo->views == 0) return;
    printf("start      %zu %s%s", run->data.point_count,
           run->at_random ? "random points" : "points by stereo",
           run->at_random && run->options->random == 0
               ? ": the data has none (`dsplat poses DATA --points` finds some)"
               : "");
    if (stereo->views > 0)
        printf("; stereo found %zu in %zu views, %.2f s", stereo->found, stereo->views, run->stereo_seconds);
    printf("\n");
}

void train_summary_begin(const train_run *run, int ranks) {
    const training_settings *const s = &run->settings;
    print_data(run->options, &run->split);
    printf("device     %d x %s\n", ranks, device_name());
    if (run->way && run->way->about) printf("           %s\n", run->way->about);
    const char *const few = run->way && run->way->few ? run->way->few(s, ranks) : NULL;
    if (few) printf("           %s: one GPU may be faster (docs/gpus.md)\n", few);
    print_memory(run, ranks);
    if (!run->options->resume) print_start(run);
    if (s->budget)
        printf("plan       %g s", s->budget->seconds);
    else
        printf("plan       %lld iteration%s", (long long)s->iterations, s->iterations == 1 ? "" : "s");
    printf(", %lld view%s per step, density control %s", (long long)s->batch, s->batch == 1 ? "" : "s",
           density_method_of(s->density.kind)->name);
    for (int i = 0; i < s->resolutions.count; i++)
        printf(", 1/%d of the size until %g%%", s->resolutions.phase[i].factor,
               s->resolutions.phase[i].percent);
    printf("\n");
    fflush(stdout);
}

static void print_training(const train_run *run, int ranks) {
    const training_report *const report = &run->report;
    const distwar_policy *used = &report->strategy.policy;
    const long long done = report->iterations - report->first_iteration + 1, batch = report->step_views;
    printf("training   %lld iteration%s", done, done == 1 ? "" : "s");
    if (report->first_iteration > 1) printf(" (%lld in all)", (long long)report->iterations);
    printf(" in %.1f s on ", report->seconds);
    if (ranks > 1) printf("%d x ", ranks);
    printf("%s, %lld view%s per step, %s", device_name(), batch, batch == 1 ? "" : "s",
           distwar_strategy_name(used->strategy));
    if (offered_has_threshold(blend_strategies, used->strategy))
        printf(" at threshold %d", used->balance_threshold);
    printf(", seed %lld\n", (long long)run->settings.seed);
    if (run->state.place.ended > 0)
        printf(
            "           ended early: from iteration %lld on, views set aside gained under 0.15 of what training "
            "views did (--validate 0 goes on)\n",
            (long long)run->state.place.ended);
    const int teachers = run->state.place.scenes;
    if (teachers > 0)
        printf(
            "           %d scenes, each trained until there, taught the last one (--teachers 0: the first is all)\n",
            teachers);
}

// Nothing where gains were given up (gains.c).
static void print_gains(const training_state *state) {
    const size_t values = (size_t)state->exposures * GS_EXPOSURE_VALUES;
    float *const log_gains = malloc(values * sizeof *log_gains);
    double squares = 0;
    if (values > 0 && log_gains) {
        device_download(log_gains, state->exposure, values * sizeof *log_gains);
        for (size_t i = 0; i < values; i++) squares += (double)log_gains[i] * (double)log_gains[i];
        printf(
            "exposure   gains of the photographs differ by %.1f %%: corrected (--no-exposure leaves them)\n",
            100 * sqrt(squares / (double)values));
    }
    free(log_gains);
}

static void print_tuning(const training_report *report) {
    const strategy_report *tuned = &report->strategy;
    const double spent = report->clock.milliseconds[STAGE_RENDER_BACKWARD];
    printf(
        "tuning     %s; %lld launches measured, looked again %lld times, changed %lld times; cost %.1f ms, "
        "%.1f %% of the backward blend\n",
        tuned->known ? "chosen on this data" : "not finished: too few iterations", (long long)tuned->measured,
        (long long)tuned->examinations, (long long)tuned->changes, tuned->cost,
        spent > 0 ? 100 * tuned->cost / spent : 0);
}

static void print_stages(const stage_clock *clock) {
    if (clock->steps == 0) return;
    printf("GPU        ms per iteration:");
    for (int i = 0; i < STAGES; i++)
        printf("%s %s %.4f", i ? "," : "", stage_name((stage)i),
               clock->milliseconds[i] / (double)clock->steps);
    printf("\n");
}

static void print_validation(const train_run *run) {
    const run_record *const record = &run->log.record;
    const run_validation *const last = &record->validations[record->validation_count - 1];
    printf(
        "validation after iteration %lld: PSNR %.2f dB, SSIM %.4f on %zu training views set aside until then; %.2f "
        "dB, %.4f on %zu beside them\n",
        (long long)last->iteration, last->aside.psnr, last->aside.ssim, run->validation.count,
        last->beside.psnr, last->beside.ssim, run->validation.count);
}

void train_summary_print(const train_run *run, int ranks, const gs_gaussians *gaussians) {
    const train_options *const options = run->options;
    const training_report *const report = &run->report;
    const quality *const held_out = run_record_last_quality(&run->log.record);
    printf("scene      %lld Gaussians, SH degree %d, in %s\n", (long long)gaussians->count,
           gaussians->sh_degree, options->output);
    print_training(run, ranks);
    print_gains(&run->state);
    if (report->strategy.tuned) print_tuning(report);
    if (report->loss_window > 0) // 0: resumed after its last iteration
        printf("loss       %.5f -> %.5f (means over %lld view%s)\n", report->first_loss, report->last_loss,
               (long long)report->loss_window, report->loss_window > 1 ? "s" : "");
    if (options->report) printf("report     %s/index.html\n", options->report);
    if (held_out) printf("held out   PSNR %.2f dB, SSIM %.4f\n", held_out->psnr, held_out->ssim);
    if (run->log.record.validation_count > 0) print_validation(run);
    print_stages(&report->clock);
}

void train_summary_print_depth(const train_depth *depth) {
    printf("depth      %zu of %zu maps fitted, to %.0f points each with an error of %.2f %% (means)\n",
           depth->fitted, depth->maps, depth->mean_points, 100 * depth->mean_error);
}

void train_summary_print_poses(const run_poses *poses) {
    const pose_difference *before = &poses->before, *after = &poses->after;
    for (int i = 0; i < poses->sizes; i++)
        printf("%s 1/%d: %.4f degrees, %.5f extents", i ? "," : "sizes     ", 1 << poses->levels[i],
               poses->settled[i].mean_degrees, poses->settled[i].mean_distance);
    if (poses->sizes > 0) printf("; %.1f s\n", poses->seconds);
    printf(
        "poses      from those of the data %.4f -> %.4f degrees, %.5f -> %.5f extents (means); largest %.4f "
        "degrees, %.5f extents\n",
        before->mean_degrees, after->mean_degrees, before->mean_distance, after->mean_distance,
        after->largest_degrees, after->largest_distance);
}
