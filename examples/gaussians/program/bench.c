// SPDX-License-Identifier: MIT
// splat bench: what each stage costs on a scene, with every strategy of the backward blend.
#include "bench_report.h"
#include "command.h"
#include "dataset.h"
#include "device_gaussians.h"
#include "ply.h"
#include "reduction_option.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { VIEW_STEP = 4, MAX_THRESHOLDS = 34 };

typedef struct bench_options {
    const char *scene, *cameras, *thresholds, *json;
    int64_t views, downscale, runs;
    int reduction;
    bool center_principal;
} bench_options;

// "0,8,16", each 0..33.
static bool parse_thresholds(const char *text, int out[MAX_THRESHOLDS], size_t *count, fault *why) {
    const char *rest = text;
    for (*count = 0; *count < MAX_THRESHOLDS;) {
        char *end;
        errno = 0;
        long value = strtol(rest, &end, 10);
        bool digits = rest[0] >= '0' && rest[0] <= '9' && errno == 0;
        if (!digits || value > 33 || (*end != ',' && *end != '\0')) break;
        out[(*count)++] = (int)value;
        if (*end == '\0') return true;
        rest = end + 1;
    }
    return fail(why, "--thresholds needs numbers from 0 to 33 with commas between, at most %d, not '%s'",
                MAX_THRESHOLDS, text);
}

// What bench runs on: every VIEW_STEPth view.
typedef struct chosen_views {
    size_t count;
    gs_camera *cameras;
    const char **names;
} chosen_views;

static bool choose_views(const bench_options *options, const dataset *data, chosen_views *out, fault *why) {
    *out = (chosen_views){.cameras = calloc(data->view_count, sizeof *out->cameras),
                          .names = calloc(data->view_count, sizeof *out->names)};
    if (!out->cameras || !out->names) return fail(why, "no memory for %zu views", data->view_count);
    for (size_t i = 0; i < data->view_count && out->count < (size_t)options->views; i += VIEW_STEP) {
        gs_camera *camera = &out->cameras[out->count];
        *camera = data->views[i].camera;
        if (options->center_principal) {
            camera->cx = (float)camera->width / 2;
            camera->cy = (float)camera->height / 2;
        }
        out->names[out->count++] = data->views[i].name;
    }
    return true;
}

static bool run(const bench_options *options, const bench_settings *settings, const gs_gaussians *scene,
                const dataset *data, fault *why) {
    chosen_views views;
    bench_result result = {0};
    bool done = choose_views(options, data, &views, why);
    if (done) {
        gs_gaussians gaussians = device_gaussians_allocate(scene->count, scene->sh_degree);
        device_gaussians_upload(&gaussians, scene);
        done = bench_run(&gaussians, views.cameras, views.count, settings, &result, why);
        device_gaussians_free(&gaussians);
    }
    if (done) {
        bench_report report = {.scene = options->scene,
                               .cameras = options->cameras,
                               .gaussians = scene->count,
                               .sh_degree = scene->sh_degree,
                               .views_in_all = data->view_count,
                               .view_step = VIEW_STEP,
                               .center_principal = options->center_principal,
                               .downscale = options->downscale,
                               .names = views.names,
                               .views = views.cameras,
                               .settings = settings,
                               .result = &result};
        if (!json_is_stdout(options->json)) bench_report_print(&report);
        if (options->json) done = json_save(options->json, bench_report_describe, &report, why);
    }
    bench_result_close(&result);
    free(views.cameras);
    free(views.names);
    return done;
}

int bench_command(int argc, char **argv) {
    bench_options options = {
        .thresholds = "0,8,16,24", .views = 12, .downscale = 1, .runs = 7, .reduction = GS_REDUCTIONS};
    const option_spec table[] = {
        {OPTION_TEXT, "cameras", 0, &options.cameras, 0, 0, NULL,
         "the folder with the photographs and their cameras, as for 'splat train'; required"},
        {OPTION_INT, "views", 0, &options.views, 1, INFINITY, NULL,
         "how many: of those sorted by name the first, the fifth, the ninth ..., as far as there are"},
        {OPTION_FLAG, "center-principal", 0, &options.center_principal, 0, 0, NULL,
         "put the principal point of every camera in the middle of its picture"},
        {OPTION_INT, "downscale", 0, &options.downscale, 1, 64, NULL, "divide pictures by this, both ways"},
        {OPTION_CHOICE, "reduce", 0, &options.reduction, 0, 0, reduction_names_and_all(), REDUCTION_HELP},
        {OPTION_TEXT, "thresholds", 0, &options.thresholds, 0, 0, NULL,
         "for strategies that have one: sum in the warp from this many active lanes on; 33: never"},
        {OPTION_INT, "repeat", 0, &options.runs, 1, MAX_RUNS, NULL,
         "runs of everything that is timed, for the median, after one to warm up"},
        {OPTION_TEXT, "json", 0, &options.json, 0, 0, NULL, JSON_HELP},
        {.kind = OPTION_END}};
    const command_spec command = {
        "splat bench",
        "SCENE.ply --cameras DATA [options]",
        "Measures what the stages of a training step cost on a scene, and the backward blend with every "
        "strategy "
        "and\n"
        "threshold. Of the photographs only names and sizes matter.\n\n"
        "Black background, every SH degree that is stored. The backward blend starts from a fixed random "
        "image "
        "gradient,\n"
        "uniform in -1..1, the same in every view. On a GPU: times by CUDA events, the median over the runs "
        "of a "
        "view, then\n"
        "the mean over the views, with the least and the most of them. Before each run twice the L2 cache is "
        "overwritten;\n"
        "inside a run a stage finds what earlier ones left there, as in training. 'bin' includes that the "
        "host "
        "reads the\n"
        "number of pairs in its middle. 'end to end' is one event before project and one after project "
        "backward; "
        "'all\n"
        "kernels' is the strategy's backward blend plus the other stages. The loss, against a black picture, "
        "and "
        "Adam are\n"
        "in no sum. On the CPU times say nothing, and instructions of the backward blend are counted "
        "instead.",
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
    bench_settings settings = {
        .reduction = (gs_reduction)options.reduction, .thresholds = thresholds, .runs = (int)options.runs};
    bool usable = parse_thresholds(options.thresholds, thresholds, &settings.threshold_count, &why);
    if (usable && !options.cameras) usable = fail(&why, "--cameras is missing, the views to measure on");
    if (!usable) return report_misuse(&command, &why);

    gs_gaussians scene = {0};
    dataset data = {0};
    const dataset_options loading = {.downscale = (int)options.downscale, .wanted = dataset_no_picture};
    bool done = json_is_possible(options.json, &why) && read_scene_to_measure(options.scene, &scene, &why) &&
                dataset_load(options.cameras, &loading, &data, &why) &&
                run(&options, &settings, &scene, &data, &why);
    dataset_free(&data);
    gaussians_free(&scene);
    return done ? EXIT_SUCCESS : report_failure("splat", &why);
}
