// SPDX-License-Identifier: MIT
// splat bench: what each stage costs on a scene, with every strategy of the backward blend.
#include "measure/bench_report.h"
#include "measure/bench_views.h"
#include "commands/command.h"
#include "view/device_gaussians.h"
#include "ply.h"
#include "view/blend_strategies.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct bench_options {
    const char *scene, *thresholds, *json;
    int64_t runs;
    int reduce; // index into blend_strategies
    bench_view_options views;
} bench_options;

static bool run(const bench_options *options, const bench_settings *settings, const gs_gaussians *scene,
                const bench_views *views, fault *why) {
    bench_result result;
    gs_gaussians gaussians = device_gaussians_open(scene->count, scene->sh_degree);
    device_gaussians_upload(&gaussians, scene);
    bool done = bench_run(&gaussians, views->cameras, views->count, settings, &result, why);
    device_gaussians_close(&gaussians);
    if (done) {
        bench_report report = {.scene = options->scene,
                               .cameras = options->views.cameras,
                               .gaussians = scene->count,
                               .sh_degree = scene->sh_degree,
                               .views_in_all = views->data.view_count,
                               .view_step = BENCH_VIEW_STEP,
                               .center_principal = options->views.center_principal,
                               .downscale = options->views.downscale,
                               .size = options->views.size,
                               .names = views->names,
                               .views = views->cameras,
                               .settings = settings,
                               .result = &result};
        if (!json_is_stdout(options->json)) bench_report_print(&report);
        if (options->json) done = json_save(options->json, bench_report_describe, &report, why);
    }
    bench_result_close(&result);
    return done;
}

int bench_command(int argc, char **argv) {
    bench_options options = {.thresholds = "0,8,16,24",
                             .runs = 7,
                             .reduce = offered_index(blend_strategies, DISTWAR_STRATEGY_COUNT)};
    const char *names[STRATEGY_NAMES];
    option_spec table[] = {
        [BENCH_VIEW_ROWS] =
            REDUCE_OPTION(&options.reduce, strategy_names(blend_strategies, "all", names), BLEND_REDUCE_HELP),
        {OPTION_TEXT, "thresholds", 0, &options.thresholds, 0, 0, NULL, THRESHOLD_HELP},
        {OPTION_INT, "repeat", 0, &options.runs, 1, MAX_RUNS, NULL,
         "runs of everything that is timed, for the median, after one to warm up"},
        {OPTION_TEXT, "json", 0, &options.json, 0, 0, NULL, JSON_HELP},
        {.kind = OPTION_END}};
    bench_view_rows(&options.views, table);
    const command_spec command = {
        "splat bench",
        "SCENE.ply --cameras DATA [options]",
        "Measures what the stages of a training step cost on a scene, and the backward blend with every\n"
        "strategy and threshold. Of the photographs only names and sizes matter.\n\n"
        "Black background, every SH degree that is stored. The backward blend starts from a fixed random\n"
        "image gradient, uniform in -1..1, the same in every view. On a GPU: times by CUDA events, the\n"
        "median over the runs of a view, then the mean over the views, with the least and the most of\n"
        "them. Before each run twice the L2 cache is overwritten; inside a run a stage finds what earlier\n"
        "ones left there, as in training. 'bin' includes that the host reads the number of pairs in its\n"
        "middle. 'end to end' is one event before project and one after project backward; 'all kernels'\n"
        "is the strategy's backward blend plus the other stages. The loss, against a black picture, and\n"
        "Adam, at rates of 0, are in no sum. On the CPU times say nothing, and instructions of the\n"
        "backward blend are counted instead.",
        "  splat bench fern.ply --cameras data/fern --downscale 4\n"
        "  splat bench fern.ply --cameras data/fern --reduce bfly --thresholds 0,4,8,12,16,33 --json "
        "fern.json\n"
        "  splat bench fox.ply --cameras data/fox --center-principal --repeat 21\n",
        table,
        1,
        1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    int thresholds[MAX_THRESHOLDS];
    size_t threshold_count;
    bool usable = parse_thresholds(options.thresholds, thresholds, &threshold_count, &why);
    usable = usable && bench_view_options_check(&options.views, &why);
    usable = usable && are_two_files("--json", options.json, "the scene", options.scene, &why);
    if (!usable) return report_misuse(&command, &why);

    const candidate_list candidates = candidates_of(
        blend_strategies, blend_strategies[options.reduce].strategy, thresholds, threshold_count);
    const bench_settings settings = {.candidates = &candidates, .runs = (int)options.runs};
    gs_gaussians scene = {0};
    bench_views views = {0};
    bool done = json_is_possible(options.json, &why) && read_scene_to_measure(options.scene, &scene, &why) &&
                bench_views_open(&views, &options.views, &why) &&
                dataset_spared(&views.data, options.json, &why) &&
                run(&options, &settings, &scene, &views, &why);
    bench_views_close(&views);
    gaussians_free(&scene);
    return done ? EXIT_SUCCESS : report_failure("splat", &why);
}
