// SPDX-License-Identifier: MIT
// dsplat eval: the quality of a scene: PSNR, SSIM and LPIPS against photographs.
#include "commands/command.h"
#include "commands/on_ranks.h"
#include "depth_maps.h"
#include "device.h"
#include "frames/device_gaussians.h"
#include "files/json_writer.h"
#include "scene.h"
#include "measure/lpips.h"
#include "measure/quality.h"
#include "pose_levels.h"
#include "frames/blend_strategies.h"
#include "measure/shared_options.h"
#include "measure/sharded_frames.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct eval_options {
    const char *scene, *cameras, *background, *json, *depth, *lpips_weights;
    int64_t holdout, downscale, align_steps;
    bool all, undistort, mask_from_alpha;
    bool trained_on_all; // as the scene's file says
    rank_options ranks;
} eval_options;

typedef struct evaluation {
    const eval_options *options;
    int64_t gaussians;
    const float *background;
    size_t count;
    target_view *views; // [count]
    quality *each;      // [count]
    quality mean;
    double *depth_error; // [count]; with --depth
    double mean_depth_error;
    const lpips_weights *weights; // with --lpips-weights
    double *lpips;                // [count]; likewise
    double mean_lpips;
} evaluation;

static bool is_measured(const eval_options *o, const dataset_view *view) {
    return o->all || view->held_out || (o->trained_on_all && o->holdout == 0);
}

static bool evaluation_open(evaluation *e, const dataset *data, fault *why) {
    e->views = calloc(data->view_count, sizeof *e->views);
    e->each = calloc(data->view_count, sizeof *e->each);
    e->depth_error = calloc(data->view_count, sizeof *e->depth_error);
    e->lpips = calloc(data->view_count, sizeof *e->lpips);
    if (!e->views || !e->each || !e->depth_error || !e->lpips)
        return fail(why, "no memory for %zu views", data->view_count);
    for (size_t i = 0; i < data->view_count; i++) {
        const dataset_view *view = &data->views[i];
        if (!is_measured(e->options, view)) continue;
        if (!target_view_from(&e->views[e->count], view, false, why)) return false;
        if (view->depth) target_view_set_depth(&e->views[e->count], view->depth);
        e->count++;
    }
    return e->count > 0 || fail(why, "%s: no view is held out, of %zu; --all measures all",
                                e->options->cameras, data->view_count);
}

static void evaluation_close(evaluation *e) {
    for (size_t i = 0; i < e->count; i++) target_view_close(&e->views[i]);
    free(e->views);
    free(e->each);
    free(e->depth_error);
    free(e->lpips);
}

static void print_row(const evaluation *e, const quality *q, double lpips, double depth_error) {
    printf("  %8.2f  %6.4f", q->psnr, q->ssim);
    if (e->weights) printf("  %6.4f", lpips);
    if (e->options->depth) printf("  %14.2f", 100 * depth_error);
    printf("\n");
}

static void print_table(const evaluation *e) {
    int width = (int)strlen("mean");
    for (size_t i = 0; i < e->count; i++)
        if ((int)strlen(e->views[i].name) > width) width = (int)strlen(e->views[i].name);
    printf("%-*s  %13s  PSNR, dB    SSIM%s%s\n", width, "view", "size     ", e->weights ? "   LPIPS" : "",
           e->options->depth ? "  depth error, %" : "");
    for (size_t i = 0; i < e->count; i++) {
        const target_view *view = &e->views[i];
        printf("%-*s  %5d x %-5d", width, view->name, view->camera.width, view->camera.height);
        print_row(e, &e->each[i], e->lpips[i], e->depth_error[i]);
    }
    printf("%-*s  %13s", width, "mean", "");
    print_row(e, &e->mean, e->mean_lpips, e->mean_depth_error);
}

static void describe_quality(const evaluation *e, json_writer *json, const quality *q, double lpips,
                             double depth_error) {
    json_put_number(json, "psnr", q->psnr);
    json_put_number(json, "ssim", q->ssim);
    if (e->weights) json_put_number(json, "lpips", lpips);
    if (e->options->depth) json_put_number(json, "depth_error", depth_error);
}

static void describe(json_writer *json, const void *subject) {
    const evaluation *e = subject;
    json_begin(json, NULL, '{');
    json_put_text(json, "scene", e->options->scene);
    json_put_integer(json, "gaussians", e->gaussians);
    json_put_text(json, "cameras", e->options->cameras);
    json_put_integer(json, "downscale", e->options->downscale);
    json_put_floats(json, "background", e->background, GS_CHANNELS);
    if (e->weights) json_put_text(json, "lpips_network", gs_lpips_architecture_of(e->weights->network)->name);
    json_begin(json, "views", '[');
    for (size_t i = 0; i < e->count; i++) {
        json_begin(json, NULL, '{');
        json_put_text(json, "name", e->views[i].name);
        json_put_integer(json, "width", e->views[i].camera.width);
        json_put_integer(json, "height", e->views[i].camera.height);
        describe_quality(e, json, &e->each[i], e->lpips[i], e->depth_error[i]);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_begin(json, "mean", '{');
    describe_quality(e, json, &e->mean, e->mean_lpips, e->mean_depth_error);
    json_end(json, '}');
    json_end(json, '}');
}

static bool align(evaluation *e, const gs_gaussians *scene, fault *why) {
    training_settings settings = {.policy = {DISTWAR_TREE, BLEND_THRESHOLD}};
    memcpy(settings.background, e->background, sizeof settings.background);
    ranks *const group = ranks_alone_open();
    if (!group) return fail(why, "no memory");
    training_state state;
    training_state_open(&state, group, scene);
    const bool done = align_views(&state, e->views, e->count, &settings, e->options->align_steps, why);
    training_state_close(&state);
    ranks_alone_close(group);
    return done;
}

static bool tell(const evaluation *e, fault *why) {
    const char *const json = e->options->json;
    if (!json_is_stdout(json)) print_table(e);
    return !json || json_save(json, describe, e, why);
}

typedef struct eval_run {
    const eval_options *options;
    float background[3];
    gs_gaussians scene;
    dataset data;
    lpips_weights weights; // with --lpips-weights
} eval_run;

static evaluation evaluation_of(const eval_run *run) {
    return (evaluation){.options = run->options,
                        .gaussians = run->scene.count,
                        .background = run->background,
                        .weights = run->weights.values ? &run->weights : NULL};
}

static bool evaluate(const eval_run *run, fault *why) {
    const eval_options *const options = run->options;
    evaluation e = evaluation_of(run);
    bool done =
        evaluation_open(&e, &run->data, why) && (!e.weights || lpips_is_possible(e.views, e.count, why));
    if (done && options->align_steps > 0) done = align(&e, &run->scene, why);
    if (done) {
        gs_gaussians gaussians = device_gaussians_from(&run->scene);
        done = quality_measure(&gaussians, e.views, e.count, run->background, &e.mean, e.each, why);
        if (done && e.weights)
            lpips_measure(&gaussians, e.views, e.count, run->background, e.weights, &e.mean_lpips, e.lpips);
        if (done && options->depth)
            depth_error_measure(&gaussians, e.views, e.count, &e.mean_depth_error, e.depth_error);
        device_gaussians_close(&gaussians);
    }
    done = done && tell(&e, why);
    evaluation_close(&e);
    return done;
}

// ---- on several GPUs

// All ranks render; rank 0 has the pictures, and measures. e: of rank 0.
static bool measure_on_ranks(evaluation *e, sharded_frames *frames, const gs_camera *cameras, size_t count,
                             fault *why) {
    ranks *const group = frames->group;
    const bool measures = ranks_own(group) == 0;
    double *const device_result = device_allocate(3 * sizeof(double));
    quality sum = {0, 0};
    frame f = {0};
    bool done = true;
    for (size_t at = 0; at < count && done;) {
        const int views = sharded_frames_alike(cameras + at, count - at, sharded_frames_at_once(group));
        done = sharded_frames_render(frames, cameras + at, views) || fail(why, "%s", ranks_error(group));
        for (int k = 0; k < views && measures && done; k++) {
            quality *const one = &e->each[at + (size_t)k];
            sharded_frames_look(frames, k, &f);
            done = quality_of_frame(&f, &e->views[at + (size_t)k], device_result, one, why);
            sum.psnr += one->psnr;
            sum.ssim += one->ssim;
        }
        at += (size_t)views;
    }
    e->mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    frame_close(&f);
    device_free(device_result);
    return done;
}

static size_t list_cameras(const eval_run *run, gs_camera *cameras) {
    size_t count = 0;
    for (size_t i = 0; i < run->data.view_count; i++)
        if (is_measured(run->options, &run->data.views[i])) cameras[count++] = run->data.views[i].camera;
    return count;
}

static bool evaluate_as_rank(ranks *group, void *context) {
    const eval_run *const run = context;
    evaluation e = evaluation_of(run);
    sharded_frames frames = {0};
    fault why;
    gs_camera *const cameras = calloc(run->data.view_count + 1, sizeof *cameras);
    const size_t count = cameras ? list_cameras(run, cameras) : 0;
    bool done = (cameras || fail(&why, "no memory for %zu cameras", run->data.view_count)) &&
                (ranks_own(group) > 0 || evaluation_open(&e, &run->data, &why));
    if (done && !sharded_frames_open(&frames, group, &run->scene, GS_MAX_SH_DEGREE, run->background))
        done = fail(&why, "%s", ranks_error(group));
    done = done && measure_on_ranks(&e, &frames, cameras, count, &why);
    if (done && ranks_own(group) == 0) done = tell(&e, &why);
    if (!done) ranks_fail(group, "%s", why.text);
    sharded_frames_close(&frames);
    evaluation_close(&e);
    free(cameras);
    return done;
}

// ---- the command

static bool load(void *context, int own, fault *why) {
    eval_run *const run = context;
    const eval_options *const o = run->options;
    const dataset_options loading = {
        .downscale = (int)o->downscale,
        .background = {run->background[0], run->background[1], run->background[2]},
        .undistort = o->undistort,
        .mask_from_alpha = o->mask_from_alpha};
    if ((own == 0 && !json_is_possible(o->json, why)) || !read_scene_to_measure(o->scene, &run->scene, why) ||
        (o->lpips_weights && !lpips_weights_read(o->lpips_weights, &run->weights, why)) ||
        !dataset_load(o->cameras, &loading, &run->data, why))
        return false;
    dataset_hold_out(&run->data, (size_t)o->holdout);
    if (own == 0 && o->trained_on_all)
        fprintf(stderr, "dsplat: %s was trained on all views: these figures are of training views\n", o->scene);
    const depth_maps_of of = o->all || (o->trained_on_all && o->holdout == 0) ? DEPTH_MAPS_ALL : DEPTH_MAPS_HELD_OUT;
    return (!o->depth || depth_maps_load(&run->data, o->depth, &loading, of, why)) &&
           dataset_spared(&run->data, o->json, why);
}

static bool check(eval_options *o, float background[3], fault *why) {
    const scene_notes notes = scene_read_notes(o->scene);
    if (o->background && !parse_color(o->background, background, why)) return false;
    if (!o->background) memcpy(background, notes.background, sizeof notes.background); // zeros if it has none
    if (o->holdout < 0) o->holdout = notes.known ? notes.holdout : 8;
    o->trained_on_all = notes.known && notes.holdout == 0;
    if (!o->cameras) return fail(why, "--cameras is missing: the photographs");
    if (o->ranks.gpus > 0 && o->depth) return fail(why, "--gpus excludes --depth");
    if (o->ranks.gpus > 0 && o->lpips_weights) return fail(why, "--gpus excludes --lpips-weights");
    if (o->ranks.gpus > 0 && o->align_steps > 0) return fail(why, "--gpus excludes --align-steps");
    return are_two_files("--json", o->json, "the scene", o->scene, why) &&
           are_two_files("--json", o->json, "--lpips-weights", o->lpips_weights, why);
}

int eval_command(int argc, char **argv) {
    eval_options options = {.holdout = -1, .downscale = 1};
    const option_spec table[] = {
        CAMERAS_OPTION(&options.cameras),
        OPTION("holdout", &options.holdout, .minimum = -1, .maximum = INFINITY,
               .help = "measure every Nth view, by name, as 'dsplat train --holdout' held out; ignored if "
                       "the data has test views; -1: those that the scene's file names, or every 8th"),
        OPTION("all", &options.all, .help = "measure all views"),
        OPTION("align-steps", &options.align_steps, .maximum = 100000,
               .help = "first refine the pose of each view on the scene in this many steps, as 'dsplat train "
                       "--refine-poses' does"),
        DOWNSCALE_OPTION(&options.downscale, "pictures"),
        UNDISTORT_OPTION(&options.undistort),
        MASK_FROM_ALPHA_OPTION(&options.mask_from_alpha),
        OPTION(
            "depth", &options.depth,
            .help =
                "the folder of the views' maps of inverse depth in units of the scene, NAME.png or NAME.pfm: "
                "measures the error of inverse depth"),
        OPTION("lpips-weights", &options.lpips_weights,
               .help = "measure LPIPS too, with the weights in this file, of AlexNet or of VGG-16; "
                       "docs/metrics.md says how to make it"),
        OPTION("background", &options.background,
               .help = "R,G,B, each 0..1; default: that of the scene's file, or black"),
        JSON_OPTION(&options.json),
        GPUS_OPTION(&options.ranks.gpus, "share the scene out"),
        NCCL_OPTION(&options.ranks.nccl),
        OPTIONS_END};
    const command_spec command = {
        .name = "dsplat eval",
        .arguments = "SCENE.ply --cameras DATA [options]",
        .summary =
            "Measures how well a scene reproduces photographs that it was not trained on.\n\n"
            "PSNR: 10 log10(255^2 / mean square error) over all pixels and channels of a view, with the\n"
            "picture rounded to 8 bits; 'inf' (in JSON null) if nothing differs. SSIM: on values 0..1\n"
            "before rounding, each channel alone, window 11 x 11, Gaussian with sigma 1.5, zeros outside\n"
            "the picture, C1 = 0.01^2, C2 = 0.03^2, mean over all pixels, those at the border too, and\n"
            "channels. LPIPS: version 0.1, of the picture rounded to 8 bits, values in -1..1; it needs\n"
            "the weights of a network. Means are over views (docs/metrics.md).\n"
            "The depth error is the mean absolute difference of inverse depth, as rendered and as in the\n"
            "map, over the mean of the map.",
        .examples = "  dsplat eval fern.ply --cameras data/fern\n"
                    "  dsplat eval fern.ply --cameras data/fern --downscale 4 --json fern.json\n"
                    "  dsplat eval fern.ply --cameras data/fern --all --json -\n"
                    "  dsplat eval fern.ply --cameras data/fern --lpips-weights alex.safetensors\n",
        .options = table,
        .min_positional = 1,
        .max_positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    eval_run run = {.options = &options};
    if (!rank_options_check(&options.ranks, argc, argv, &why) || !check(&options, run.background, &why))
        return report_misuse(&command, &why);
    rank_work work = {load, evaluate_as_rank, &run, &run.data, &run.scene};
    const bool done = options.ranks.gpus > 0 ? run_on_ranks(&options.ranks, &work, &why)
                                             : load(&run, 0, &why) && evaluate(&run, &why);
    dataset_close(&run.data);
    scene_close(&run.scene);
    lpips_weights_close(&run.weights);
    return done ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
