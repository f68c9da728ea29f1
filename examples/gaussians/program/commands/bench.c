// SPDX-License-Identifier: MIT
// dsplat bench: the cost of each stage on a scene, with every strategy of the backward blend.
#include "measure/bench_ranks.h"
#include "measure/bench_run.h"
#include "measure/bench_views.h"
#include "strategies/bench_options.h"
#include "commands/command.h"
#include "commands/on_ranks.h"
#include "device.h"
#include "frames/device_gaussians.h"
#include "scene.h"
#include "frames/blend_strategies.h"
#include "measure/shared_options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command_options {
    const char *scene, *thresholds, *background, *json;
    int64_t runs, batch;
    int reduce; // index into blend_strategies
    const char *names[STRATEGY_NAMES];
    bench_view_options views;
    rank_options ranks;
} command_options;

typedef struct command_run {
    const command_options *options;
    candidate_list candidates;
    bench_settings settings;
    gs_gaussians scene;
    bench_views views;
} command_run;

static bool run(const command_run *run, fault *why) {
    const command_options *const options = run->options;
    const bench_settings *const settings = &run->settings;
    const gs_gaussians *const scene = &run->scene;
    const bench_views *const views = &run->views;
    bench_result result;
    gs_gaussians gaussians = device_gaussians_from(scene);
    bool done = bench_run(&gaussians, views->cameras, views->count, settings, &result, why);
    device_gaussians_close(&gaussians);
    if (done) {
        bench_report report = {.path = options->scene,
                               .scene = scene,
                               .options = &options->views,
                               .views = views,
                               .settings = settings,
                               .result = &result};
        if (!json_is_stdout(options->json)) bench_report_print(&report);
        if (options->json) done = json_save(options->json, bench_report_describe, &report, why);
    }
    bench_result_close(&result);
    return done;
}

// ---- on several GPUs

typedef struct rank_bench_report {
    const command_run *run;
    int gpus;
    rank_bench_settings settings;
    rank_bench_result result;
} rank_bench_report;

static double mean_bytes_sent(const rank_bench_result *result) {
    double sum = 0;
    for (size_t i = 0; i < result->step_count; i++) sum += (double)result->steps[i].bytes_sent;
    return sum / (double)result->step_count;
}

static void print_on_ranks(const rank_bench_report *report) {
    const command_run *const run = report->run;
    const rank_bench_result *const result = &report->result;
    printf("scene      %s: %lld Gaussians, SH degree %d\n", run->options->scene, (long long)run->scene.count,
           run->scene.sh_degree);
    printf("views      %zu of %s, in steps of %d, %d x %d\n", run->views.count, run->options->views.cameras,
           result->steps[0].views, run->views.cameras[0].width, run->views.cameras[0].height);
    printf("device     %d x %s, dsplat %s (%s)\n", report->gpus, device_name(), gs_version(), gs_backend());
    printf("sent       %.3f MB per step, by all GPUs\n", 1e-6 * mean_bytes_sent(result));
    if (strcmp(gs_backend(), "simt") == 0) return; // its times mean nothing
    printf(
        "\nA step (%s at threshold %d), ms of the slowest GPU:\nstage                mean    least     most  noise\n",
        distwar_strategy_name(report->settings.policy.strategy), report->settings.policy.balance_threshold);
    for (int i = 0; i < RANK_BENCH_TIMES; i++) {
        const timing_summary time = rank_bench_summary(result, i);
        printf("%-16s %8.4f %8.4f %8.4f %5.1f%%\n", rank_bench_name(i), time.mean, time.minimum, time.maximum,
               100 * time.spread);
    }
}

static void describe_on_ranks(json_writer *json, const void *subject) {
    const rank_bench_report *const report = subject;
    const command_run *const run = report->run;
    const rank_bench_result *const result = &report->result;
    bench_subject_describe(json, run->options->scene, &run->scene, run->options->views.cameras);
    json_put_integer(json, "gpus", report->gpus);
    json_put_text(json, "strategy", distwar_strategy_name(report->settings.policy.strategy));
    json_put_integer(json, "threshold", report->settings.policy.balance_threshold);
    json_put_integer(json, "runs", report->settings.runs);
    json_begin(json, "steps", '[');
    for (size_t s = 0; s < result->step_count; s++) {
        const rank_bench_step *const step = &result->steps[s];
        json_begin(json, NULL, '{');
        json_begin(json, "views", '[');
        for (int v = 0; v < step->views; v++)
            json_put_text(json, NULL, run->views.names[step->first + (size_t)v]);
        json_end(json, ']');
        json_put_integer(json, "width", run->views.cameras[step->first].width);
        json_put_integer(json, "height", run->views.cameras[step->first].height);
        json_put_integer(json, "bytes_sent", step->bytes_sent);
        json_put_integer(json, "pairs", step->pairs);
        json_begin(json, "ms", '{');
        for (int i = 0; i < RANK_BENCH_TIMES; i++)
            json_put_number(json, rank_bench_name(i), step->times[i].median);
        json_end(json, '}');
        json_end(json, '}');
    }
    json_end(json, ']');
}

static bool run_as_rank(ranks *group, void *context) {
    const command_run *const run = context;
    const char *const json = run->options->json;
    rank_bench_report report = {.run = run, .gpus = ranks_count(group)};
    fault why;
    report.settings.policy = run->candidates.rows[0].policy;
    report.settings.runs = run->settings.runs;
    report.settings.views = (int)run->options->batch;
    memcpy(report.settings.background, run->settings.background, sizeof report.settings.background);
    bool done = rank_bench_run(group, &run->scene, run->views.cameras, run->views.count, &report.settings,
                               &report.result);
    if (done && ranks_own(group) == 0) {
        if (!json_is_stdout(json)) print_on_ranks(&report);
        done =
            !json || json_save(json, describe_on_ranks, &report, &why) || ranks_fail(group, "%s", why.text);
    }
    rank_bench_result_close(&report.result);
    return done;
}

// ---- the command

static bool load(void *context, int own, fault *why) {
    command_run *const run = context;
    const command_options *const o = run->options;
    return (own > 0 || json_is_possible(o->json, why)) && read_scene_to_measure(o->scene, &run->scene, why) &&
           bench_views_open(&run->views, &o->views, why) && dataset_spared(&run->views.data, o->json, why);
}

static bool settings_from(const command_options *o, candidate_list *candidates, bench_settings *out,
                          fault *why) {
    int thresholds[MAX_THRESHOLDS];
    size_t threshold_count;
    if (o->batch > 0 && o->ranks.gpus == 0) return fail(why, "--batch needs --gpus");
    if (!parse_thresholds(o->thresholds, thresholds, &threshold_count, why)) return false;
    distwar_strategy strategy = blend_strategies[o->reduce].strategy;
    if (o->ranks.gpus > 0 && strategy == DISTWAR_STRATEGY_COUNT) strategy = DISTWAR_TREE;
    *candidates = candidates_of(blend_strategies, strategy, thresholds, threshold_count);
    *out = (bench_settings){.candidates = candidates, .runs = (int)o->runs};
    return parse_color(o->background, out->background, why) && bench_view_options_check(&o->views, why) &&
           are_two_files("--json", o->json, "the scene", o->scene, why);
}

int bench_command(int argc, char **argv) {
    command_options options = {.thresholds = "0,8,16,24",
                               .background = "0,0,0",
                               .runs = 7,
                               .reduce = offered_index(blend_strategies, DISTWAR_STRATEGY_COUNT)};
    const option_spec rows[] = {REDUCE_OPTION(&options.reduce,
                                              strategy_names(blend_strategies, "all", options.names),
                                              BLEND_REDUCE_HELP),
                                THRESHOLDS_OPTION(&options.thresholds),
                                REPEAT_OPTION(&options.runs),
                                BACKGROUND_OPTION(&options.background),
                                JSON_OPTION(&options.json),
                                GPUS_OPTION(&options.ranks.gpus, "measure a step"),
                                OPTION("batch", &options.batch, .maximum = GS_MAX_VIEWS, .automatic = true,
                                       .help = "with --gpus: views per step; auto: one per GPU"),
                                NCCL_OPTION(&options.ranks.nccl),
                                OPTIONS_END};
    option_table table = {0};
    bench_view_options_list(&options.views, &table);
    option_table_add(&table, rows);
    const command_spec command = {
        .name = "dsplat bench",
        .arguments = "SCENE.ply --cameras DATA [options]",
        .summary =
            "Measures the cost of each stage of a training step on a scene, and of the backward blend with\n"
            "every strategy and threshold. Of the photographs only names and sizes are used.\n\n"
            "Every stored SH degree is evaluated. The backward blend starts from a fixed random image\n"
            "gradient, uniform in -1..1, the same in every view. On a GPU: times by CUDA events, the median\n"
            "over the runs of a view, then the mean over the views, with the smallest and the largest view.\n"
            "Before each run the L2 cache is overwritten twice. Inside a run a stage finds in the cache\n"
            "what earlier stages left there, as in training. 'bin' includes one read of the number of pairs\n"
            "by the host. 'end to end' is one event before project and one after project backward. 'all\n"
            "kernels' is the strategy's backward blend plus the other stages. The loss, against a black\n"
            "picture, and Adam, at rates of 0, are in no sum. On the CPU times mean nothing, and the\n"
            "instructions of the backward blend are counted instead.\n\n"
            "With --gpus: a step of training takes --batch views, and the stages are those of ranks\n"
            "(docs/developers/design.md, section 5). One strategy is measured, by default the tree, at the first of\n"
            "--thresholds. 'step' is the time without a wait after each stage.",
        .examples =
            "  dsplat bench fern.ply --cameras data/fern --downscale 4\n"
            "  dsplat bench fern.ply --cameras data/fern --reduce bfly --thresholds 0,8,16,33 --json f.json\n"
            "  dsplat bench fox.ply --cameras data/fox --center-principal --repeat 21\n",
        .options = table.rows,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    command_run all = {.options = &options};
    if (!rank_options_check(&options.ranks, argc, argv, &why) ||
        !settings_from(&options, &all.candidates, &all.settings, &why))
        return report_misuse(&command, &why);
    rank_work work = {load, run_as_rank, &all, &all.views.data, &all.scene};
    const bool done = options.ranks.gpus > 0 ? run_on_ranks(&options.ranks, &work, &why)
                                             : load(&all, 0, &why) && run(&all, &why);
    bench_views_close(&all.views);
    scene_close(&all.scene);
    return done ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
