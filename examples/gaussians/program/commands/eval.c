// SPDX-License-Identifier: MIT
// dsplat eval: the quality of a scene: PSNR and SSIM against photographs.
#include "commands/command.h"
#include "device.h"
#include "frame.h"
#include "files/json_writer.h"
#include "scene.h"
#include "trainer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct eval_options {
    const char *scene, *cameras, *background, *json, *depth, *pictures;
    int64_t holdout, downscale, align_steps;
    bool all, undistort, mask_from_alpha;
    bool trained_on_all; // as the scene's file says
} eval_options;

typedef struct evaluation {
    const eval_options *options;
    float background[3];
    gs_gaussians scene, device; // the same on the host and on the device
    dataset data;
    size_t count;         // views that are measured
    target_view *views;   // [count]
    quality *each, mean;  // [count]
    double *depth_errors; // [count], with --depth; NaN without a map
    double depth_error;   // the mean over the views that have a map
} evaluation;

static bool open_views(evaluation *e, fault *why) {
    const dataset *const data = &e->data;
    e->views = calloc(data->view_count, sizeof *e->views);
    e->each = calloc(data->view_count, sizeof *e->each);
    e->depth_errors = calloc(data->view_count, sizeof *e->depth_errors);
    if (!e->views || !e->each || !e->depth_errors)
        return fail(why, "no memory for %zu views", data->view_count);
    for (size_t i = 0; i < data->view_count; i++) {
        const dataset_view *view = &data->views[i];
        if (!e->options->all && !view->held_out) continue;
        if (!target_view_list(&e->views[e->count], view, why)) return false;
        e->views[e->count].depth_on_host = view->depth;
        target_view_upload(&e->views[e->count++], false);
    }
    return e->count > 0 || fail(why, "%s: no view is held out, of %zu; --all measures all",
                                e->options->cameras, data->view_count);
}

static bool load(evaluation *e, fault *why) {
    const eval_options *const o = e->options;
    const dataset_options loading = {.downscale = (int)o->downscale,
                                     .background = {e->background[0], e->background[1], e->background[2]},
                                     .undistort = o->undistort,
                                     .mask_from_alpha = o->mask_from_alpha};
    if (!json_is_possible(o->json, why) || (o->pictures && !folder_make(o->pictures, why)) ||
        !read_scene_to_measure(o->scene, &e->scene, why) ||
        !dataset_load(o->cameras, &loading, &e->data, why))
        return false;
    dataset_hold_out(&e->data, (size_t)o->holdout);
    if (o->trained_on_all)
        fprintf(stderr, "dsplat: %s was trained on all views: these figures are of training views\n",
                o->scene);
    const depth_maps_of of = o->all ? DEPTH_MAPS_ALL : DEPTH_MAPS_HELD_OUT;
    if ((o->depth && !depth_maps_load(&e->data, o->depth, &loading, of, why)) ||
        !dataset_may_write(&e->data, o->json, why) || !open_views(e, why))
        return false;
    e->device = device_gaussians_from(&e->scene);
    return true;
}

static void evaluation_close(evaluation *e) {
    device_gaussians_close(&e->device);
    for (size_t i = 0; i < e->count; i++) target_view_close(&e->views[i]);
    free(e->views);
    free(e->each);
    free(e->depth_errors);
    dataset_close(&e->data);
    scene_close(&e->scene);
}

// ---- measuring

// The mean over the map's pixels that count.
static double mean_depth(const target_view *view) {
    const size_t pixels = (size_t)view->camera.width * (size_t)view->camera.height;
    double sum = 0, n = 0;
    for (size_t i = 0; i < pixels; i++) {
        if (isnan(view->depth_on_host[i]) || (view->mask_on_host && view->mask_on_host[i] == 0)) continue;
        sum += (double)view->depth_on_host[i];
        n++;
    }
    return sum / n;
}

// Renders the inverse depth of each view and compares it with the view's map: the mean absolute difference over the mean
// of the map, of the pixels that count.
static void measure_depth(evaluation *e) {
    const float black[GS_CHANNELS] = {0};
    double *const result = device_allocate(sizeof *result), sum = 0, maps = 0;
    frame f = {.with_depth = true};
    for (size_t i = 0; i < e->count; i++) {
        const target_view *const view = &e->views[i];
        e->depth_errors[i] = NAN;
        if (!view->depth) continue;
        frame_render(&f, &e->device, e->device.sh_degree, &view->camera, black);
        gs_loss_image of = {.images.mask = view->mask, .depth_target = view->depth, .depth_result = result};
        frame_loss(&f, &of, false);
        device_download(&e->depth_errors[i], result, sizeof *result);
        e->depth_errors[i] /= mean_depth(view);
        sum += e->depth_errors[i], maps++;
    }
    e->depth_error = sum / maps;
    frame_close(&f);
    device_free(result);
}

// Each view as it is rendered, and its photograph beside it. Removes those of an earlier run with more views.
static bool write_pictures(const evaluation *e, fault *why) {
    static const char format[] = "view_%05lld.png";
    const char *const folder = e->options->pictures;
    char path[PATH_ROOM];
    if (!numbered_may_be_written(&e->data, folder, format, (int64_t)e->count, why)) return false;
    for (size_t i = 0; i < e->count; i++) {
        const target_view *const view = &e->views[i];
        image rendered;
        if (!numbered_path(path, folder, format, (int64_t)i, why) ||
            !map_picture(&e->device, GS_MAX_SH_DEGREE, &view->camera, e->background, &rendered, why))
            return false;
        const bool done = image_write_beside(path, (const image *[]){&rendered, view->picture}, 2, 0, why);
        image_close(&rendered);
        if (!done) return false;
    }
    return remove_numbered(folder, format, (int64_t)e->count, why);
}

// Refines the pose of each view by itself: the others do not matter.
static bool align(evaluation *e, fault *why) {
    training_settings settings = {.policy = {DISTWAR_FIXED, 0}};
    training_state state = {0};
    ranks *const alone = ranks_alone_open();
    bool done = alone || fail(why, "no memory for a group of one rank");
    memcpy(settings.background, e->background, sizeof settings.background);
    if (done) training_state_open(&state, alone, &e->scene);
    for (size_t i = 0; i < e->count && done; i++)
        done = align_views(NULL, &state, &e->views[i], 1, &settings, e->options->align_steps, why);
    training_state_close(&state);
    ranks_alone_close(alone);
    return done;
}

// ---- what is told

static void print_row(const evaluation *e, const quality *of, double depth_error) {
    printf("  %8.2f  %6.4f", of->psnr, of->ssim);
    if (e->options->depth) printf("  %14.2f", 100 * depth_error);
    printf("\n");
}

static void print_table(const evaluation *e) {
    int width = (int)strlen("mean");
    for (size_t i = 0; i < e->count; i++)
        if ((int)strlen(e->views[i].name) > width) width = (int)strlen(e->views[i].name);
    printf("%-*s  %13s  PSNR, dB    SSIM%s\n", width, "view", "size     ",
           e->options->depth ? "  depth error, %" : "");
    for (size_t i = 0; i < e->count; i++) {
        const target_view *view = &e->views[i];
        printf("%-*s  %5d x %-5d", width, view->name, view->camera.width, view->camera.height);
        print_row(e, &e->each[i], e->depth_errors[i]);
    }
    printf("%-*s  %13s", width, "mean", "");
    print_row(e, &e->mean, e->depth_error);
}

static void describe_row(const evaluation *e, json_writer *json, const quality *of, double depth_error) {
    json_put_number(json, "psnr", of->psnr);
    json_put_number(json, "ssim", of->ssim);
    if (e->options->depth) json_put_number(json, "depth_error", depth_error);
}

static void describe(json_writer *json, const void *subject) {
    const evaluation *e = subject;
    json_put_text(json, "scene", e->options->scene);
    json_put_integer(json, "gaussians", e->scene.count);
    json_put_text(json, "cameras", e->options->cameras);
    json_put_integer(json, "downscale", e->options->downscale);
    json_put_floats(json, "background", e->background, GS_CHANNELS);
    json_begin(json, "views", '[');
    for (size_t i = 0; i < e->count; i++) {
        json_begin(json, NULL, '{');
        json_put_text(json, "name", e->views[i].name);
        json_put_integer(json, "width", e->views[i].camera.width);
        json_put_integer(json, "height", e->views[i].camera.height);
        describe_row(e, json, &e->each[i], e->depth_errors[i]);
        json_end(json, '}');
    }
    json_end(json, ']');
    json_begin(json, "mean", '{');
    describe_row(e, json, &e->mean, e->depth_error);
    json_end(json, '}');
}

static bool evaluate(evaluation *e, fault *why) {
    const eval_options *const o = e->options;
    if ((o->align_steps > 0 && !align(e, why)) ||
        !quality_measure(&(training_state){.gaussians = e->device},
                         &(shown_views){.views = e->views, .background = e->background}, NULL, 0, e->count,
                         &e->mean, e->each, why) ||
        (o->pictures && !write_pictures(e, why)))
        return false;
    if (o->depth) measure_depth(e);
    if (!json_is_stdout(o->json)) print_table(e);
    return !o->json || json_save(o->json, describe, e, why);
}

// ---- the command

// Takes from the scene's file what no option says.
static bool read_notes(eval_options *o, float background[3], fault *why) {
    scene_notes notes;
    if (!scene_read_notes(o->scene, &notes, why)) return false;
    if (!o->background) memcpy(background, notes.background, sizeof notes.background); // zeros if it has none
    if (o->holdout < 0) o->holdout = notes.known ? notes.holdout : 8;
    o->trained_on_all = notes.known && notes.holdout == 0;
    o->all |= o->trained_on_all && o->holdout == 0;
    return true;
}

int eval_command(int argc, char **argv) {
    eval_options options = {.holdout = -1, .downscale = 1};
    const option_spec table[] = {
        CAMERAS_OPTION(&options.cameras),
        OPTION("holdout", &options.holdout, .minimum = -1, .maximum = INFINITY, .automatic = true,
               .help = "measure every Nth view by name; auto: those that the scene's file says"),
        OPTION("all", &options.all, .help = "measure all views"),
        OPTION("align-steps", &options.align_steps, .maximum = 100000,
               .help = "steps that refine each view's pose on the scene before it is measured"),
        DOWNSCALE_OPTION(&options.downscale, "pictures"),
        UNDISTORT_OPTION(&options.undistort),
        MASK_FROM_ALPHA_OPTION(&options.mask_from_alpha),
        OPTION("depth", &options.depth,
               .help = "measure inverse depth against maps in this folder, NAME.png or NAME.pfm"),
        SCENE_BACKGROUND_OPTION(&options.background),
        JSON_OPTION(&options.json),
        OPTION(
            "pictures", &options.pictures,
            .help =
                "write view_NNNNN.png of each view to this folder: rendered, and beside it the photograph"),
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
            "channels. Means are over views (docs/photographs.md#metrics).\n"
            "The depth error is the mean absolute difference of inverse depth, as rendered and as in the\n"
            "map, over the mean of the map.",
        .examples = "  dsplat eval fern.ply --cameras data/fern\n"
                    "  dsplat eval fern.ply --cameras data/fern --downscale 4 --json fern.json\n"
                    "  dsplat eval fern.ply --cameras data/fern --all --json -\n"
                    "  dsplat eval fern.ply --cameras data/fern --pictures compared\n",
        .options = table,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    evaluation e = {.options = &options};
    if ((options.background && !parse_color(options.background, e.background, &why)) ||
        !(options.cameras || fail(&why, "--cameras is missing: the photographs")) ||
        !are_two_files("--json", options.json, "the scene", options.scene, &why))
        return report_misuse(&command, &why);
    const bool done = read_notes(&options, e.background, &why) && load(&e, &why) && evaluate(&e, &why);
    evaluation_close(&e);
    return done ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
