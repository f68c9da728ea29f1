// SPDX-License-Identifier: MIT
// cubemap bench: the cost of the adjoint with every strategy and threshold.
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
    cubemap_frame frame;
    float *target; // device: black
    void *loss;
    strategy_bench result;
} bench;

static double prepare(void *context, size_t view) {
    bench *b = context;
    cubemap_frame *f = &b->frame;
    const int64_t pixels = (int64_t)f->camera.width * f->camera.height;
    f->camera = scene_camera((int)view, f->camera.width, f->camera.height);
    cubemap_project(f);
    cubemap_raster(f);
    cubemap_render(f);
    l1_loss(f->color, b->target, 3 * pixels, b->loss, f->color_gradient, NULL);
    return (double)pixels;
}

static void run(void *context, distwar_policy policy) {
    cubemap_render_backward(&((bench *)context)->frame, policy);
}

static void count_lanes(void *context, lane_histogram *counts) {
    cubemap_count_lanes(&((bench *)context)->frame, counts);
}

static void describe(json_writer *json, const void *subject) {
    const bench *b = subject;
    json_begin(json, NULL, '{');
    json_put_text(json, "workload", "cubemap");
    json_put_text(json, "mesh", b->options->of.mesh);
    json_put_integer(json, "triangles", b->frame.surface.triangles);
    json_put_integer(json, "size", b->frame.size);
    json_put_integer(json, "texels", b->frame.texels);
    json_put_integer(json, "values", b->frame.sums.values);
    json_put_integer(json, "width", b->frame.camera.width);
    json_put_integer(json, "height", b->frame.camera.height);
    strategy_bench_describe(json, &b->result);
    json_end(json, '}');
}

static bool measure(const command_options *options, const bench_plan *plan, const mesh *host, fault *why) {
    const int width = (int)options->of.width, height = (int)options->of.height, size = (int)options->of.size;
    const size_t target_bytes = 3 * (size_t)width * (size_t)height * sizeof(float),
                 texel_bytes = 18 * (size_t)size * (size_t)size * sizeof(float);
    float *texel = malloc(texel_bytes);
    if (!texel) return fail(why, "no memory for faces of %d texels", size);
    scene_surroundings(size, texel);
    mesh surface = device_mesh_open(host);
    const pinhole_camera camera = scene_camera(0, width, height);
    bench b = {.options = options,
               .frame = cubemap_frame_open(&surface, &camera, size, SCENE_BACKGROUND),
               .target = device_allocate(target_bytes),
               .loss = device_allocate(L1_LOSS_BYTES)};
    device_upload(b.frame.texel, texel, texel_bytes);
    free(texel);
    cubemap_reduce_levels(&b.frame);
    device_clear(b.target, target_bytes);
    const bench_subject subject = {.context = &b,
                                   .view_count = (size_t)options->views,
                                   .prepare = prepare,
                                   .run = run,
                                   .count_lanes = count_lanes};
    bool done = strategy_bench_run(&subject, plan, &b.result, why);
    if (done && !json_is_stdout(options->bench.json)) {
        printf("cubemap    %s: %d triangles, faces of %d texels, %d texels in %d levels, %d values a texel\n"
               "drawn      %lld views of %d x %d, on %s\n\n",
               options->of.mesh, host->triangles, size, b.frame.texels, b.frame.levels, b.frame.sums.values,
               (long long)options->views, width, height, device_name());
        strategy_bench_print(&b.result);
    }
    if (done && options->bench.json) done = json_save(options->bench.json, describe, &b, why);
    strategy_bench_close(&b.result);
    device_free(b.loss);
    device_free(b.target);
    cubemap_frame_close(&b.frame);
    device_mesh_close(&surface);
    return done;
}

int bench_command(int argc, char **argv) {
    command_options options = {.of = view_options_default(), .bench = bench_options_default(), .views = 1};
    const option_spec table[] = {MESH_OPTION(&options.of),
                                 SIZE_OPTION(&options.of),
                                 OPTION("views", &options.views, .minimum = 1, .maximum = SCENE_VIEWS,
                                        .help = "the number of cameras"),
                                 WIDTH_OPTION(&options.of),
                                 HEIGHT_OPTION(&options.of),
                                 BENCH_REDUCE_OPTION(&options.bench),
                                 THRESHOLDS_OPTION(&options.bench.thresholds),
                                 REPEAT_OPTION(&options.bench.runs),
                                 JSON_OPTION(&options.bench.json),
                                 OPTIONS_END};
    const command_spec command = {
        "cubemap bench",
        "[options]",
        "Measures the adjoint of the lookup with every strategy and threshold. Counts the active lanes and\n"
        "the keys of its warps. The gradient is that of the L1 loss against a black picture. On a GPU:\n"
        "times by CUDA events, the median over the runs of a view, then the mean over the views; before\n"
        "each run the L2 cache is overwritten. With all strategies a tuner then chooses one, on launches of\n"
        "its own. On the CPU, where times say nothing about a GPU, instructions are counted instead.",
        "  cubemap bench\n"
        "  cubemap bench --mesh torus --size 1024 --views 8 --thresholds 0,4,8,16,24 --json cubemap.json\n"
        "  cubemap bench --mesh bunny.obj --reduce tree --thresholds 0,33\n",
        table,
        0,
        0, 0};
    int code;
    if (!read_command_line(&command, argc, argv, NULL, &code)) return code;
    fault why;
    bench_plan plan;
    if (!bench_options_read(&options.bench, &plan, &why) || !view_options_complete(&options.of, &why))
        return report_misuse(&command, &why);
    mesh host = {0};
    const bool done = json_is_possible(options.bench.json, &why) &&
                      view_options_mesh(&options.of, &host, &why) && measure(&options, &plan, &host, &why);
    mesh_close(&host);
    return done ? EXIT_SUCCESS : report_failure("cubemap", &why);
}
