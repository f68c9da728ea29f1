// SPDX-License-Identifier: MIT
// dsplat export: a scene as one HTML page that shows it.
#include "commands/camera_path.h"
#include "commands/command.h"
#include "dataset.h"
#include "frames/device_gaussians.h"
#include "frames/frame.h"
#include "live/contribution.h"
#include "live/page.h"
#include "measure/shared_options.h"
#include "scene.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_SIDE = 640, WIDTH_BEFORE = 960, HEIGHT_BEFORE = 640 }; // of pictures; of a view without data

typedef struct export_options {
    const char *scene, *output, *cameras, *background, *log, *title;
    int64_t views, most, downscale;
} export_options;

typedef struct export_run {
    const export_options *options;
    scene_notes notes;
    float background[GS_CHANNELS];
    gs_gaussians scene;
    dataset data;
    history run;
    page_view *views;
    gs_camera *cameras; // of the views
    size_t view_count;
    double pivot[3], up[3];
    image poster;
} export_run;

// ---- the views

typedef struct chosen_views {
    size_t wanted, all;
} chosen_views;

// Evenly spread: index is the first of its part.
static bool is_chosen(size_t index, const char *name, const void *context) {
    (void)name;
    const chosen_views *const c = context;
    return index == 0 ? c->wanted > 0 : index * c->wanted / c->all > (index - 1) * c->wanted / c->all;
}

static int divisor_of(int width, int height) {
    const int longer = width > height ? width : height;
    return (longer + LONGEST_SIDE - 1) / LONGEST_SIDE;
}

// Reads the data twice: first to count the views.
static bool load_views(export_run *run, fault *why) {
    const export_options *const o = run->options;
    dataset_options loading = {
        .downscale = (int)o->downscale, .undistort = true, .wanted = dataset_no_picture};
    memcpy(loading.background, run->background, sizeof loading.background);
    if (!dataset_load(o->cameras, &loading, &run->data, why)) return false;
    const size_t all = run->data.view_count;
    const chosen_views chosen = {(size_t)o->views < all ? (size_t)o->views : all, all};
    dataset_close(&run->data);
    loading.wanted = is_chosen;
    loading.context = &chosen;
    if (!dataset_load(o->cameras, &loading, &run->data, why)) return false;
    if (run->notes.known) dataset_hold_out(&run->data, (size_t)run->notes.holdout);
    run->views = calloc(chosen.wanted, sizeof *run->views);
    run->cameras = calloc(chosen.wanted, sizeof *run->cameras);
    if (!run->views || !run->cameras) return fail(why, "no memory for %zu views", chosen.wanted);
    for (size_t i = 0; i < run->data.view_count && run->view_count < chosen.wanted; i++) {
        const dataset_view *const from = &run->data.views[i];
        page_view *const view = &run->views[run->view_count];
        if (!is_chosen(i, from->name, &chosen)) continue;
        *view = (page_view){.name = from->name, .camera = from->camera, .held_out = from->held_out};
        run->cameras[run->view_count++] = from->camera;
        const int divisor = divisor_of(from->picture.width, from->picture.height);
        if (!image_downscale(&from->picture, divisor, &view->photograph, why)) return false;
    }
    return true;
}

static bool place_pivot(export_run *run, fault *why) {
    camera_path path;
    target_view *views = calloc(run->data.view_count, sizeof *views);
    if (!views) return fail(why, "no memory for %zu cameras", run->data.view_count);
    for (size_t i = 0; i < run->data.view_count; i++) views[i].camera = run->data.views[i].camera;
    fault ignored;
    const bool has_up = camera_path_open(&path, PATH_ORBIT, views, run->data.view_count, &ignored);
    free(views);
    for (int i = 0; i < 3; i++) {
        run->pivot[i] = path.focus[i];
        run->up[i] = has_up ? path.up[i] : -(double)run->cameras[0].rotation[3 + i];
    }
    return true;
}

// One view of the whole scene, without data.
static bool invent_view(export_run *run, fault *why) {
    run->views = calloc(1, sizeof *run->views);
    run->cameras = calloc(1, sizeof *run->cameras);
    if (!run->views || !run->cameras) return fail(why, "no memory for a view");
    if (!camera_before(&run->scene, WIDTH_BEFORE, HEIGHT_BEFORE, run->cameras, run->pivot, why)) return false;
    run->views[0] = (page_view){.name = "the whole scene", .camera = run->cameras[0]};
    run->view_count = 1;
    run->up[1] = -1;
    return true;
}

// ---- pictures

static gs_camera smaller(const gs_camera *camera) {
    gs_camera small = *camera;
    dataset_downscale_camera(&small, divisor_of(camera->width, camera->height));
    return small;
}

static bool thin(export_run *run, fault *why) {
    gs_camera *small = calloc(run->view_count, sizeof *small);
    if (!small) return fail(why, "no memory for %zu cameras", run->view_count);
    for (size_t i = 0; i < run->view_count; i++) small[i] = smaller(&run->cameras[i]);
    const bool done = keep_contributing(&run->scene, run->options->most, small, run->view_count, why);
    free(small);
    return done;
}

static bool draw_poster(export_run *run, fault *why) {
    const gs_camera small = smaller(&run->cameras[0]);
    gs_gaussians device = device_gaussians_from(&run->scene);
    frame f = {0};
    frame_render(&f, &device, GS_MAX_SH_DEGREE, &small, run->background);
    const bool done = frame_picture(&f, &run->poster, why);
    frame_close(&f);
    device_gaussians_close(&device);
    return done;
}

// ---- the command

static bool load(export_run *run, fault *why) {
    const export_options *const o = run->options;
    return output_is_possible(o->output, why) && (!o->log || history_read(&run->run, o->log, why)) &&
           read_scene_to_measure(o->scene, &run->scene, why) &&
           (o->cameras ? load_views(run, why) && place_pivot(run, why) : invent_view(run, why)) &&
           dataset_spared(&run->data, o->output, why);
}

static bool export_page(export_run *run, fault *why) {
    const export_options *const o = run->options;
    const int64_t total = run->scene.count;
    page_written written;
    if (!thin(run, why) || !draw_poster(run, why)) return false;
    const char *slash = strrchr(o->scene, '/');
    page_content content = {.title = o->title ? o->title
                                     : slash  ? slash + 1
                                              : o->scene,
                            .scene = &run->scene,
                            .total = total,
                            .view_count = run->view_count,
                            .views = run->views,
                            .poster = &run->poster,
                            .run = &run->run};
    memcpy(content.background, run->background, sizeof content.background);
    memcpy(content.pivot, run->pivot, sizeof content.pivot);
    memcpy(content.up, run->up, sizeof content.up);
    if (!page_write(o->output, &content, &written, why)) return false;
    printf("%s: %lld Gaussians", o->output, (long long)run->scene.count);
    if (total > run->scene.count) printf(" of %lld", (long long)total);
    if (written.sh_degree > 0)
        printf(", harmonics of degree %d in steps of %.2g", written.sh_degree, written.step);
    else if (written.whole_degree > 0)
        printf(", without harmonics");
    printf(", %zu views, %.1f MB\n", run->view_count, (double)written.bytes / 1e6);
    return true;
}

static bool check(export_options *o, export_run *run, fault *why) {
    run->notes = scene_read_notes(o->scene);
    memcpy(run->background, run->notes.background, sizeof run->background); // zeros if the file has none
    if (o->background && !parse_color(o->background, run->background, why)) return false;
    if (!o->output) return fail(why, "-o is missing: the page");
    return are_two_files("--output", o->output, "the scene", o->scene, why) &&
           are_two_files("--output", o->output, "--log", o->log, why);
}

static void close_run(export_run *run) {
    for (size_t i = 0; i < run->view_count; i++) image_close(&run->views[i].photograph);
    image_close(&run->poster);
    free(run->views);
    free(run->cameras);
    history_close(&run->run);
    dataset_close(&run->data);
    scene_close(&run->scene);
}

int export_command(int argc, char **argv) {
    export_options options = {.views = 16, .most = 1000000, .downscale = 1};
    const option_spec table[] = {
        OUTPUT_OPTION(&options.output, .help = "the page, for example page.html; required"),
        OPTION(
            "cameras", &options.cameras,
            .help =
                "the folder with the photographs and their cameras: the page shows views of it; fisheyes become "
                "pinholes"),
        OPTION("views", &options.views, .minimum = 1, .maximum = 1000,
               .help = "with --cameras: how many views the page shows, evenly spread by name"),
        DOWNSCALE_OPTION(&options.downscale, "pictures"),
        OPTION("most", &options.most, .minimum = 1, .maximum = 4000000,
               .help = "most Gaussians of the page; those that contribute least to its views are left out"),
        OPTION("log", &options.log, .help = "draw the curves in this file, which 'dsplat train --log' wrote"),
        OPTION("title", &options.title, .help = "the page's title; default: the name of the scene's file"),
        OPTION("background", &options.background,
               .help = "R,G,B, each 0..1; default: that of the scene's file, or black"),
        OPTIONS_END};
    const command_spec command = {
        .name = "dsplat export",
        .arguments = "SCENE.ply -o PAGE.html [options]",
        .summary =
            "Writes a page that shows a scene in a browser with WebGL 2. The page is one file: it needs no\n"
            "network and no other file, and opens with a double click.\n\n"
            "It holds the scene, smaller photographs of some views, and the curves of the training. With\n"
            "300,000 Gaussians it has at most 10 MB, with more in proportion; for that the harmonics\n"
            "become coarser. The page says what is stored how.",
        .examples = "  dsplat export fern.ply -o fern.html --cameras data/fern\n"
                    "  dsplat export fern.ply -o fern.html --cameras data/fern --log fern.log --title Fern\n",
        .options = table,
        .min_positional = 1,
        .max_positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    export_run run = {.options = &options};
    if (!check(&options, &run, &why)) return report_misuse(&command, &why);
    const bool done = load(&run, &why) && export_page(&run, &why);
    close_run(&run);
    return done ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
