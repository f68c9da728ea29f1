// SPDX-License-Identifier: MIT
// spheres bench: the cost of the adjoint with every strategy and threshold.
#include "strategies/bench_options.h"
#include "commands.h"
#include "device.h"
#include "gpu/l1_loss.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct command_options {
    view_options of;
    bench_options bench;
    int64_t views;
} command_options;

typedef struct bench {
    const command_options *options;
    sphere_frame frame;
    float *target; // device: black
    void *loss;
    strategy_bench result;
} bench;

static double prepare(void *context, size_t view) {
    bench *b = context;
    sphere_frame *f = &b->frame;
    const int64_t pixels = (int64_t)f->camera.width * f->camera.height;
    f->camera = scene_camera((int)view, f->camera.width, f->camera.height);
    spheres_project(f);
    spheres_candidates(f);
    spheres_render(f);
    l1_loss(f->color, b->target, f->set.channels * pixels, b->loss, f->color_gradient, NULL);
    return (double)pixels;
}

static void run(void *context, distwar_policy policy) {
    spheres_render_backward(&((bench *)context)->frame, policy);
}

static void count_lanes(void *context, lane_histogram *counts) {
    spheres_count_lanes(&((bench *)context)->frame, counts);
}

static void describe(json_writer *json, const void *subject) {
    const bench *b = subject;
    json_begin(json, NULL, '{');
    json_put_text(json, "workload", "spheres");
    json_put_text(json, "data", data_set_names[b->options->of.data]);
    json_put_integer(json, "spheres", b->frame.set.count);
    json_put_integer(json, "channels", b->frame.set.channels);
    json_put_integer(json, "values", b->frame.moments.values);
    json_put_integer(json, "kept", b->frame.blend.kept);
    json_put_integer(json, "width", b->frame.camera.width);
    json_put_integer(json, "height", b->frame.camera.height);
    strategy_bench_describe(json, &b->result);
    json_end(json, '}');
}

static bool measure(const command_options *options, const bench_plan *plan, const sphere_set *host,
                    fault *why) {
    const int width = (int)options->of.width, height = (int)options->of.height;
    const size_t target_bytes = (size_t)host->channels * (size_t)width * (size_t)height * sizeof(float);
    const pinhole_camera camera = scene_camera(0, width, height);
    const sphere_blend blend = scene_blend((int)options->of.kept);
    sphere_set set = device_sphere_set_open(host->count, host->channels);
    sphere_set_upload(&set, host);
    bench b = {.options = options,
               .frame = sphere_frame_open(&set, &camera, &blend),
               .target = device_allocate(target_bytes),
               .loss = device_allocate(L1_LOSS_BYTES)};
    device_clear(b.target, target_bytes);
    const bench_subject subject = {.context = &b,
                                   .view_count = (size_t)options->views,
                                   .prepare = prepare,
                                   .run = run,
                                   .count_lanes = count_lanes};
    bool done = strategy_bench_run(&subject, plan, &b.result, why);
    if (done && !json_is_stdout(options->bench.json)) {
        printf("spheres    %s: %lld spheres, %d channels, %d values a sphere, %d spheres a pixel at most\n"
               "views      %lld of %d x %d\ndevice     %s\n\n",
               data_set_names[options->of.data], (long long)set.count, set.channels, b.frame.moments.values,
               blend.kept, (long long)options->views, width, height, device_name());
        strategy_bench_print(&b.result);
    }
    if (done && options->bench.json) done = json_save(options->bench.json, describe, &b, why);
    strategy_bench_close(&b.result);
    device_free(b.loss);
    device_free(b.target);
    sphere_frame_close(&b.frame);
    device_sphere_set_close(&set);
    return done;
}

int bench_command(int argc, char **argv) {
    command_options options = {.of = view_options_default(), .bench = bench_options_default(), .views = 1};
    const option_spec table[] = {DATA_OPTION(&options.of),
                                 CHANNELS_OPTION(&options.of),
                                 OPTION("views", &options.views, .minimum = 1, .maximum = SCENE_VIEWS,
                                        .help = "the number of cameras"),
                                 WIDTH_OPTION(&options.of),
                                 HEIGHT_OPTION(&options.of),
                                 KEPT_OPTION(&options.of),
                                 BENCH_REDUCE_OPTION(&options.bench),
                                 THRESHOLDS_OPTION(&options.bench.thresholds),
                                 REPEAT_OPTION(&options.bench.runs),
                                 JSON_OPTION(&options.bench.json),
                                 OPTIONS_END};
    const command_spec command = {
        "spheres bench",
        "[options]",
        "Measures the adjoint of the blend with every strategy and threshold. Counts the active lanes and\n"
        "the keys of its warps. The gradient is that of the L1 loss against a black picture. On a GPU:\n"
        "times by CUDA events, the median over the runs of a view, then the mean over the views; before\n"
        "each run the L2 cache is overwritten. With all strategies a tuner then chooses one, on launches of\n"
        "its own. On the CPU, where times say nothing about a GPU, instructions are counted instead.",
        "  spheres bench\n"
        "  spheres bench --data large --views 8 --thresholds 0,2,4,6,8,12,16,24 --json spheres.json\n"
        "  spheres bench --channels 32 --reduce tree --thresholds 0,33\n",
        table,
        0,
        0, 0};
    int code;
    if (!read_command_line(&command, argc, argv, NULL, &code)) return code;
    fault why;
    bench_plan plan;
    if (!bench_options_read(&options.bench, &plan, &why)) return report_misuse(&command, &why);
    view_options_complete(&options.of);
    sphere_set host = {0};
    bool done = json_is_possible(options.bench.json, &why) &&
                scene_generate((data_set)options.of.data, view_options_channels(&options.of), &host, &why) &&
                measure(&options, &plan, &host, &why);
    sphere_set_close(&host);
    return done ? EXIT_SUCCESS : report_failure("spheres", &why);
}
