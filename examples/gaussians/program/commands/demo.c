// SPDX-License-Identifier: MIT
// dsplat demo: trains the built-in scene from its own pictures, and compares the strategies on it.
#include "commands/command.h"
#include "demo/demo_scene.h"
#include "device.h"
#include "frame.h"
#include "files/path.h"
#include "images/image.h"
#include "measure/maps.h"
#include "scene.h"
#include "strategies/strategy_costs.h"
#include "trainer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct demo_options {
    const char *folder;
    int64_t iterations, width, gaussians, seed;
} demo_options;

typedef struct demo {
    const demo_options *options;
    char picture_path[PATH_ROOM], scene_path[PATH_ROOM];
    int width, height;
    image pictures[DEMO_VIEWS]; // the targets
    target_view views[DEMO_VIEWS];
    image target, before, after; // view 0, at least 480 pixels wide
} demo;

// A picture of the scene as it is now.
static bool show(const demo *d, const gs_gaussians *gaussians, image *out, fault *why) {
    const int least = 480, factor = d->width < least ? (least + d->width - 1) / d->width : 1;
    const gs_camera camera = demo_camera(0, factor * d->width, factor * d->height);
    return map_picture(gaussians, &camera, demo_background, out, why);
}

// Renders the targets from the scene, with 8 bits per channel as photographs have.
static bool make_targets(demo *d, const gs_gaussians *gaussians, fault *why) {
    for (int i = 0; i < DEMO_VIEWS; i++) {
        gs_camera camera = demo_camera(i, d->width, d->height);
        if (!map_picture(gaussians, &camera, demo_background, &d->pictures[i], why) ||
            !target_view_open(&d->views[i], &camera, &d->pictures[i], why))
            return false;
    }
    return true;
}

// Rates for a few hundred steps; the published rates are for many thousands.
static training_settings demo_settings(const demo_options *options) {
    training_settings settings = {.name = "training",
                                  .iterations = options->iterations,
                                  .seed = (uint64_t)options->seed,
                                  .tune = true,
                                  .rates = {.mean = 5e-3f,
                                            .log_scale = 2e-2f,
                                            .quaternion = 1e-2f,
                                            .opacity_logit = 1e-1f,
                                            .sh0 = 4e-2f,
                                            .shN = 1e-2f},
                                  .final_mean_rate = 5e-4f};
    memcpy(settings.background, demo_background, sizeof settings.background);
    return settings;
}

typedef struct blend_subject {
    const demo *d;
    const gs_gaussians *gaussians;
    frame f;
    double *result; // device
} blend_subject;

static void prepare_blend(void *context, size_t view) {
    blend_subject *const s = context;
    const target_view *const of = &s->d->views[view];
    frame_render(&s->f, s->gaussians, s->gaussians->sh_degree, &of->camera, demo_background);
    frame_loss(&s->f, &(frame_target){of->pixels, NULL, s->result}, true);
}

static void run_blend(void *context, distwar_policy policy, lane_histogram *lanes) {
    (void)lanes;
    frame_render_backward(&((blend_subject *)context)->f, policy);
}

// Times are measured on all views. Counts do not vary and are of the first view.
static void compare_strategies(const demo *d, const gs_gaussians *gaussians) {
    const int thresholds[] = {0, 8, 16, 24};
    const candidate_list candidates = candidates_of(blend_strategies, DISTWAR_STRATEGY_COUNT, thresholds, 4);
    blend_subject blend = {.d = d, .gaussians = gaussians, .result = device_allocate(3 * sizeof(double))};
    const strategy_subject subject = {&blend, KERNELS_ARE_COUNTED ? 1 : DEMO_VIEWS, false, prepare_blend,
                                      run_blend};
    strategy_costs costs;
    strategy_costs_measure(&subject, &candidates, 11, &costs);
    strategy_costs_print(&costs, "The backward blend of one view");
    device_free(blend.result);
    frame_close(&blend.f);
}

// host: the scene; afterwards the trained scene.
static bool train_demo(demo *d, const gs_gaussians *host, training_state *state, fault *why) {
    quality before, after;
    training_report report;
    training_settings settings = demo_settings(d->options);
    const gs_gaussians *gaussians = &state->gaussians;
    if (!make_targets(d, gaussians, why) || !show(d, gaussians, &d->target, why)) return false;

    demo_disturb(host, (uint64_t)d->options->seed);
    device_gaussians_upload(&state->gaussians, host);
    printf("demo       %lld Gaussians, %d views of %d x %d, on %s\n", (long long)host->count, DEMO_VIEWS,
           d->width, d->height, device_name());
    fflush(stdout);
    if (!quality_measure(gaussians, d->views, DEMO_VIEWS, demo_background, &before, NULL, why) ||
        !show(d, gaussians, &d->before, why) ||
        !train_on(NULL, state, d->views, DEMO_VIEWS, &settings, NULL, &report, why))
        return false;
    training_report_close(&report);
    if (!quality_measure(gaussians, d->views, DEMO_VIEWS, demo_background, &after, NULL, why) ||
        !show(d, gaussians, &d->after, why))
        return false;
    device_gaussians_download(host, gaussians);
    const image *const pictures[] = {&d->target, &d->before, &d->after};
    if (!image_write_beside(d->picture_path, pictures, 3, 4, why) || !scene_write(d->scene_path, host, why))
        return false;
    printf("training   %lld iterations in %.1f s, loss %.5f -> %.5f\n", (long long)settings.iterations,
           report.seconds, report.first_loss, report.last_loss);
    printf("PSNR       %.2f dB -> %.2f dB\n", before.psnr, after.psnr);
    printf("SSIM       %.4f -> %.4f\n", before.ssim, after.ssim);
    printf("picture    %s: target, before, after\n", d->picture_path);
    printf("scene      %s\n\n", d->scene_path);
    fflush(stdout);
    compare_strategies(d, gaussians);
    return true;
}

static bool run_demo(demo *d, fault *why) {
    const char *folder = d->options->folder;
    gs_gaussians host;
    if (!folder_make(folder, why) || !path_join(d->picture_path, folder, "demo.png", why) ||
        !path_join(d->scene_path, folder, "demo.ply", why) || !output_is_possible(d->picture_path, why) ||
        !output_is_possible(d->scene_path, why) ||
        !demo_scene_open(d->options->gaussians, (uint64_t)d->options->seed, &host, why))
        return false;
    training_state state;
    ranks *const group = ranks_alone_open();
    bool done = group || fail(why, "no memory for a group of one rank");
    if (done) {
        training_state_open(&state, group, &host);
        done = train_demo(d, &host, &state, why);
        training_state_close(&state);
    }
    ranks_alone_close(group);
    scene_close(&host);
    return done;
}

int demo_command(int argc, char **argv) {
    bool gpu = strcmp(gs_backend(), "cuda") == 0;
    demo_options options = {.folder = "dsplat-demo",
                            .iterations = gpu ? 2000 : 60,
                            .width = gpu ? 1024 : 160,
                            .gaussians = gpu ? 40000 : 4000,
                            .seed = 1};
    const option_spec table[] = {
        OUTPUT_OPTION(&options.folder, .help = "the folder to write to, created if it is missing"),
        OPTION("iterations", &options.iterations, .minimum = 1, .maximum = 1000000,
               .help = "iterations to train for, each a step on one view"),
        OPTION("width", &options.width, .minimum = 16, .maximum = 4096,
               .help = "width of the training pictures in pixels; the height is 3/4 of it"),
        OPTION("gaussians", &options.gaussians, .minimum = 1000, .maximum = 10000000,
               .help = "approximate number of Gaussians in the scene"),
        OPTION("seed", &options.seed, .maximum = INFINITY,
               .help = "seed of the scene's grass, the start's noise and the order of views"),
        OPTIONS_END};
    const command_spec command = {
        .name = "dsplat demo",
        .arguments = "[-o DIR] [options]",
        .summary =
            "Trains a built-in scene from its own pictures. Writes DIR/demo.png (target, before, after) and\n"
            "DIR/demo.ply. Prints the cost of each strategy of the backward blend: times on a GPU, counts\n"
            "on the CPU.",
        .examples = "  dsplat demo\n"
                    "  dsplat demo -o demo --iterations 300\n",
        .options = table};
    int code;
    if (!read_command_line(&command, argc, argv, NULL, &code)) return code;
    fault why;
    demo d = {.options = &options, .width = (int)options.width, .height = (int)(options.width * 3 / 4)};
    bool done = run_demo(&d, &why);
    for (int i = 0; i < DEMO_VIEWS; i++) {
        target_view_close(&d.views[i]);
        image_close(&d.pictures[i]);
    }
    image_close(&d.target);
    image_close(&d.before);
    image_close(&d.after);
    return done ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
