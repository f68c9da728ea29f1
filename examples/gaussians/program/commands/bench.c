// SPDX-License-Identifier: MIT
// splat bench: the cost of each stage on a scene, with every strategy of the backward blend.
#include "measure/bench_run.h"
#include "measure/bench_views.h"
#include "bench_options.h"
#include "commands/command.h"
#include "view/device_gaussians.h"
#include "scene.h"
#include "view/blend_strategies.h"
#include "view/shared_options.h"
#include <stdlib.h>

typedef struct command_options {
    const char *scene, *thresholds, *background, *json;
    int64_t runs;
    int reduce; // index into blend_strategies
    const char *names[STRATEGY_NAMES];
    bench_view_options views;
} command_options;

static bool run(const command_options *options, const bench_settings *settings, const gs_gaussians *scene,
                const bench_views *views, fault *why) {
    bench_result result;
    gs_gaussians gaussians = device_gaussians_from(scene);
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

static bool settings_from(const command_options *o, candidate_list *candidates, bench_settings *out,
                          fault *why) {
    int thresholds[MAX_THRESHOLDS];
    size_t threshold_count;
    if (!parse_thresholds(o->thresholds, thresholds, &threshold_count, why)) return false;
    *candidates =
        candidates_of(blend_strategies, blend_strategies[o->reduce].strategy, thresholds, threshold_count);
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
                                OPTIONS_END};
    option_table table = {0};
    bench_view_options_list(&options.views, &table);
    option_table_add(&table, rows);
    const command_spec command = {
        .name = "splat bench",
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
            "instructions of the backward blend are counted instead.",
        .examples =
            "  splat bench fern.ply --cameras data/fern --downscale 4\n"
            "  splat bench fern.ply --cameras data/fern --reduce bfly --thresholds 0,8,16,33 --json f.json\n"
            "  splat bench fox.ply --cameras data/fox --center-principal --repeat 21\n",
        .options = table.rows,
        .min_positional = 1,
        .max_positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    candidate_list candidates;
    bench_settings settings;
    if (!settings_from(&options, &candidates, &settings, &why)) return report_misuse(&command, &why);

    gs_gaussians scene = {0};
    bench_views views = {0};
    bool done = json_is_possible(options.json, &why) && read_scene_to_measure(options.scene, &scene, &why) &&
                bench_views_open(&views, &options.views, &why) &&
                dataset_spared(&views.data, options.json, &why) &&
                run(&options, &settings, &scene, &views, &why);
    bench_views_close(&views);
    scene_close(&scene);
    return done ? EXIT_SUCCESS : report_failure("splat", &why);
}
