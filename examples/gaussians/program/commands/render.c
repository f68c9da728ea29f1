// SPDX-License-Identifier: MIT
// splat render: a scene -> a picture of one view, or the pictures of a flight through it.
#include "view/camera.h"
#include "view/camera_path.h"
#include "commands/command.h"
#include "dataset.h"
#include "view/device_gaussians.h"
#include "view/frame.h"
#include "view/shared_options.h"
#include "path.h"
#include "scene.h"
#include "progress.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct render_options {
    const char *scene, *output, *cameras, *view, *background;
    int64_t downscale, width, height, sh_degree, frames;
    int path; // a camera_path_kind, or NO_PATH
    bool photo, undistort;
} render_options;

enum { NO_PATH = 2 };
static const char *const path_names[] = {"orbit", "spiral", "none", NULL};

static bool is_index(const char *wanted, size_t index) {
    char *end;
    unsigned long long number = strtoull(wanted, &end, 10);
    return wanted[0] >= '0' && wanted[0] <= '9' && *end == '\0' && number == index;
}

// For dataset_options.wanted: only the photograph of the view, and only for --photo.
static bool is_photo(size_t index, const char *name, const void *options) {
    const render_options *o = options;
    return o->photo && (strcmp(name, o->view) == 0 || is_index(o->view, index));
}

static const dataset_view *find_view(const dataset *data, const char *wanted, fault *why) {
    for (size_t i = 0; i < data->view_count; i++)
        if (strcmp(data->views[i].name, wanted) == 0) return &data->views[i];
    for (size_t i = 0; i < data->view_count; i++)
        if (is_index(wanted, i)) return &data->views[i];
    fail(why, "there is no view '%s'; there are %zu, named by their images or by an index from 0", wanted,
         data->view_count);
    return NULL;
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// A camera in front of the scene that looks along +z. It frames the box between the 2nd and the 98th
// percentile of the means, as trained scenes have a few Gaussians far outside.
static bool camera_before(const gs_gaussians *scene, int width, int height, gs_camera *out, fault *why) {
    const double angle = 0.8; // radians
    double center[3] = {0}, radius = 1;
    if (scene->count > 0) {
        size_t count = (size_t)scene->count, last = count - 1, trimmed = last / 50;
        float *sorted = malloc(count * sizeof *sorted);
        if (!sorted) return fail(why, "no memory for the bounds of %zu Gaussians", count);
        double square = 0;
        for (int axis = 0; axis < 3; axis++) {
            for (size_t i = 0; i < count; i++) sorted[i] = scene->mean[3 * i + axis];
            qsort(sorted, count, sizeof *sorted, compare_floats);
            const double low = sorted[trimmed], high = sorted[last - trimmed];
            center[axis] = (low + high) / 2;
            square += (high - low) * (high - low) / 4;
        }
        for (size_t i = 0; i < count; i++) sorted[i] = scene->log_scale[3 * i];
        qsort(sorted, count, sizeof *sorted, compare_floats);
        radius = sqrt(square) + 3 * exp(sorted[count / 2]);
        free(sorted);
    }
    double eye[3] = {center[0], center[1], center[2] - radius / sin(angle / 2)};
    *out = camera_with_view_angle(width, height, angle);
    out->near_plane = (float)(radius / 100);
    camera_look_at(out, eye, center, (const double[3]){0, -1, 0});
    for (int i = 0; i < 3; i++)
        if (!isfinite(out->translation[i]))
            return fail(why, "the scene is too large or too small for a view of the whole");
    return true;
}

static bool render_picture(const gs_gaussians *scene, int sh_degree, const gs_camera *camera,
                           const float background[3], image *out, fault *why) {
    frame f = {0};
    gs_gaussians gaussians = device_gaussians_from(scene);
    frame_render(&f, &gaussians, sh_degree, camera, background);
    bool done = frame_picture(&f, out, why);
    frame_close(&f);
    device_gaussians_close(&gaussians);
    return done;
}

static bool frame_path(char path[PATH_ROOM], const char *folder, int64_t index, fault *why) {
    char name[32];
    snprintf(name, sizeof name, "frame_%05lld.png", (long long)index);
    return path_join(path, folder, name, why);
}

static bool write_frame(const frame *f, const char *folder, int64_t index, fault *why) {
    char path[PATH_ROOM];
    image picture;
    if (!frame_path(path, folder, index, why) || !frame_picture(f, &picture, why)) return false;
    const bool done = image_write_png(path, &picture, why);
    image_close(&picture);
    return done;
}

// Removes the frames of an earlier, longer flight.
static bool remove_surplus(const char *folder, int64_t first, fault *why) {
    char path[PATH_ROOM];
    bool more = true;
    for (int64_t i = first; more; i++)
        if (!frame_path(path, folder, i, why) || !file_remove(path, &more, why)) return false;
    return true;
}

// Fails if a photograph is at a path where a frame will be written or removed.
static bool photographs_are_spared(const render_options *options, const dataset *data, fault *why) {
    char path[PATH_ROOM];
    file_id ignored;
    bool more = true;
    for (int64_t i = 0; more; i++) {
        if (!frame_path(path, options->output, i, why) || !dataset_spared(data, path, why)) return false;
        more = i < options->frames || file_id_of(path, &ignored);
    }
    return true;
}

static bool render_frames(const render_options *options, const float background[3],
                          const gs_gaussians *gaussians, const camera_path *path, gs_camera camera,
                          fault *why) {
    frame f = {0};
    progress bar;
    bool done = true;
    progress_begin(&bar, "rendering", options->frames);
    for (int64_t i = 0; done && i < options->frames; i++) {
        camera_path_place(path, (double)i / (double)options->frames, &camera);
        frame_render(&f, gaussians, (int)options->sh_degree, &camera, background);
        done = write_frame(&f, options->output, i, why);
        if (progress_due(&bar)) progress_show(&bar, i + 1, NAN);
    }
    progress_end(&bar);
    frame_close(&f);
    return done && remove_surplus(options->output, options->frames, why);
}

static bool open_path(const render_options *options, const dataset *data, camera_path *path, fault *why) {
    target_view *views = calloc(data->view_count, sizeof *views);
    if (!views) return fail(why, "no memory for %zu cameras", data->view_count);
    for (size_t i = 0; i < data->view_count; i++) views[i].camera = data->views[i].camera;
    const bool done = camera_path_open(path, (camera_path_kind)options->path, views, data->view_count, why);
    free(views);
    return done || fail(why, "%s: %s", options->cameras, why->text);
}

// Uses the lens of the view.
static bool fly(const render_options *options, const float background[3], const gs_gaussians *scene,
                const dataset *data, fault *why) {
    camera_path path;
    const dataset_view *view = find_view(data, options->view, why);
    if (!view || !open_path(options, data, &path, why) || !photographs_are_spared(options, data, why) ||
        !folder_make(options->output, why))
        return false;
    gs_gaussians gaussians = device_gaussians_from(scene);
    const bool done = render_frames(options, background, &gaussians, &path, view->camera, why);
    device_gaussians_close(&gaussians);
    if (done)
        printf("%s: %lld Gaussians, %lld frames, %d x %d\n", options->output, (long long)scene->count,
               (long long)options->frames, view->camera.width, view->camera.height);
    return done;
}

static bool render(const render_options *options, const float background[3], const gs_gaussians *scene,
                   const dataset *data, fault *why) {
    const dataset_view *view = NULL;
    gs_camera camera;
    if (options->cameras) {
        view = find_view(data, options->view, why);
        if (!view) return false;
        camera = view->camera;
    } else if (!camera_before(scene, (int)options->width, (int)options->height, &camera, why))
        return false;

    image picture;
    if (!render_picture(scene, (int)options->sh_degree, &camera, background, &picture, why)) return false;
    const image *const beside[] = {&picture, options->photo ? &view->picture : NULL};
    const bool done = image_write_beside(options->output, beside, options->photo ? 2 : 1, 8, why);
    if (done) {
        printf("%s: %lld Gaussians, %d x %d", options->output, (long long)scene->count, picture.width,
               picture.height);
        if (view) printf(", view %s", view->name);
        if (options->photo)
            printf(", beside its photograph, PSNR %.2f dB", image_psnr(&picture, &view->picture));
        printf("\n");
    }
    image_close(&picture);
    return done;
}

static bool check(const render_options *o, float background[3], fault *why) {
    const bool flies = o->path != NO_PATH;
    if (!parse_color(o->background, background, why)) return false;
    if (!o->output) return fail(why, "-o is missing: the picture to write");
    if (!are_two_files("-o", o->output, "the scene", o->scene, why)) return false;
    if (o->photo && !o->cameras) return fail(why, "--photo needs --cameras");
    if (flies && !o->cameras) return fail(why, "--path needs --cameras");
    return !(flies && o->photo) || fail(why, "--photo excludes --path");
}

static bool load_and_render(const render_options *o, const float background[3], fault *why) {
    const bool flies = o->path != NO_PATH;
    gs_gaussians scene = {0};
    dataset data = {0};
    const dataset_options loading = {.downscale = (int)o->downscale,
                                     .background = {background[0], background[1], background[2]},
                                     .undistort = o->undistort,
                                     .wanted = is_photo,
                                     .context = o};
    const bool done =
        (flies || output_is_possible(o->output, why)) && scene_read(o->scene, SCENE_FINITE, &scene, why) &&
        (!o->cameras || dataset_load(o->cameras, &loading, &data, why)) &&
        dataset_spared(&data, o->output, why) && (flies ? fly : render)(o, background, &scene, &data, why);
    dataset_close(&data);
    scene_close(&scene);
    return done;
}

int render_command(int argc, char **argv) {
    render_options options = {.view = "0",
                              .background = "0,0,0",
                              .downscale = 1,
                              .width = 800,
                              .height = 600,
                              .frames = 120,
                              .path = NO_PATH,
                              .sh_degree = GS_MAX_SH_DEGREE};
    const option_spec table[] = {
        OUTPUT_OPTION(&options.output,
                      .help = "the PNG file to write, or with --path the folder of the frames; required"),
        OPTION("cameras", &options.cameras,
               .help = "take the camera from this folder of photographs (see splat train); default: a view "
                       "of the whole scene along +z"),
        OPTION("view", &options.view, .help = "the camera to use: the name of an image, or its index"),
        OPTION("path", &options.path, .choices = path_names,
               .help = "render a flight; orbit: around the point that the cameras look at; spiral: for "
                       "cameras that face one way"),
        OPTION("frames", &options.frames, .minimum = 1, .maximum = 100000,
               .help = "number of pictures of the flight"),
        DOWNSCALE_OPTION(&options.downscale, "the camera's picture"),
        UNDISTORT_OPTION(&options.undistort),
        OPTION("photo", &options.photo,
               .help = "put the photograph to the right of the picture; needs --cameras"),
        OPTION("width", &options.width, .minimum = 1, .maximum = IMAGE_MAX_SIZE,
               .help = "in pixels, without --cameras"),
        OPTION("height", &options.height, .minimum = 1, .maximum = IMAGE_MAX_SIZE,
               .help = "in pixels, without --cameras"),
        OPTION("sh-degree", &options.sh_degree, .maximum = GS_MAX_SH_DEGREE,
               .help = "highest degree of spherical harmonics to use"),
        BACKGROUND_OPTION(&options.background),
        OPTIONS_END};
    const command_spec command = {
        .name = "splat render",
        .arguments = "SCENE.ply -o OUT [options]",
        .summary =
            "Renders one view of a scene, or with --path a flight through it to OUT/frame_00000.png and\n"
            "so on, with the size and the lens of --view. Both flights end where they begin.",
        .examples =
            "  splat render fern.ply -o fern.png\n"
            "  splat render fern.ply -o fern.png --cameras data/fern --view 0 --downscale 4 --photo\n"
            "  splat render fern.ply -o flight --cameras data/fern --downscale 4 --path spiral --frames 90\n",
        .options = table,
        .min_positional = 1,
        .max_positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    float background[3];
    if (!check(&options, background, &why)) return report_misuse(&command, &why);
    return load_and_render(&options, background, &why) ? EXIT_SUCCESS : report_failure("splat", &why);
}
