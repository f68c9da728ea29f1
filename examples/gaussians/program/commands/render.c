// SPDX-License-Identifier: MIT
// dsplat render: a scene -> a picture of one view, or the pictures of a flight through it.
#include "camera.h"
#include "commands/cameras.h"
#include "commands/command.h"
#include "frame.h"
#include "scene.h"
#include "cli/progress.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct render_options {
    const char *scene, *output, *cameras, *view, *background;
    int64_t downscale, width, height, sh_degree, frames;
    int path;     // ORBIT, or NO_PATH
    double ortho; // height of the picture in world units; 0: in perspective
    bool photo, undistort;
} render_options;

typedef struct render_run {
    const render_options *options;
    float background[3];
    gs_gaussians scene, gaussians; // on the host and on the device
    dataset data;
} render_run;

static const char frame_format[] = "frame_%05lld.png";
enum { NO_PATH, ORBIT };
static const char *const path_names[] = {"none", "orbit", NULL};

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

// Makes an orthographic camera of one with a lens, where the options say so.
static void flatten(const render_options *options, gs_camera *camera) {
    if (!(options->ortho > 0)) return;
    const float scale = (float)(camera->height / options->ortho) / camera->fy;
    camera->model = GS_ORTHO;
    camera->fx *= scale, camera->fy *= scale;
}

// ---- the pictures

// The orbit has the lens of the view.
static bool fly(const render_run *run, fault *why) {
    const render_options *const o = run->options;
    const dataset_view *const view = find_view(&run->data, o->view, why);
    target_view *const views = view ? views_of_data(&run->data, why) : NULL;
    if (!views) return false;
    progress bar;
    camera_orbit orbit;
    gs_camera lens = view->camera;
    flatten(o, &lens);
    bool done = (camera_orbit_open(&orbit, views, run->data.view_count, why) ||
                 fail(why, "%s: %s", o->cameras, why->text)) &&
                numbered_may_be_written(&run->data, o->output, frame_format, o->frames, why) &&
                folder_make(o->output, why);
    free(views);
    progress_begin(&bar, "rendering", o->frames);
    for (int64_t at = 0; at < o->frames && done; at++) {
        gs_camera camera = lens;
        char path[PATH_ROOM];
        image picture = {0};
        camera_orbit_place(&orbit, (double)at / (double)o->frames, &camera);
        done = map_picture(&run->gaussians, (int)run->options->sh_degree, &camera, run->background, &picture,
                           why) &&
               numbered_path(path, o->output, frame_format, at, why) && image_write_png(path, &picture, why);
        image_close(&picture);
        if (progress_due(&bar)) progress_show(&bar, at + 1, NAN);
    }
    progress_end(&bar);
    // An earlier, longer flight has left more frames.
    if (!done || !remove_numbered(o->output, frame_format, o->frames, why)) return false;
    printf("%s: %lld Gaussians, %lld frames, %d x %d\n", o->output, (long long)run->scene.count,
           (long long)o->frames, lens.width, lens.height);
    return true;
}

// One view: of the data, or of the whole scene.
static bool render(const render_run *run, fault *why) {
    const render_options *const o = run->options;
    const dataset_view *const view = o->cameras ? find_view(&run->data, o->view, why) : NULL;
    gs_camera camera = view ? view->camera : camera_with_view_angle((int)o->width, (int)o->height, 0.8);
    image picture;
    if (o->cameras ? !view : !camera_around(&run->scene, (const double[3]){0, 0, 1}, &camera, NULL, why))
        return false;
    flatten(o, &camera);
    if (!map_picture(&run->gaussians, (int)o->sh_degree, &camera, run->background, &picture, why))
        return false;
    const image *const beside[] = {&picture, o->photo ? &view->picture : NULL};
    const bool done = image_write_beside(o->output, beside, o->photo ? 2 : 1, 8, why);
    if (done) {
        printf("%s: %lld Gaussians, %d x %d", o->output, (long long)run->scene.count, picture.width,
               picture.height);
        if (view) printf(", view %s", view->name);
        if (o->photo)
            printf(", beside its photograph, PSNR %.2f dB", image_psnr(&picture, &view->picture, NULL));
        printf("\n");
    }
    image_close(&picture);
    return done;
}

// ---- the command

static bool check(const render_options *o, float background[3], fault *why) {
    const bool flies = o->path != NO_PATH;
    if (o->background && !parse_color(o->background, background, why)) return false;
    if (!o->output) return fail(why, "-o is missing: the picture to write");
    if (!are_two_files("-o", o->output, "the scene", o->scene, why)) return false;
    if (o->photo && !o->cameras) return fail(why, "--photo needs --cameras");
    if (o->photo && o->ortho > 0) return fail(why, "--photo excludes --ortho");
    if (flies && !o->cameras) return fail(why, "--path needs --cameras");
    return !(flies && o->photo) || fail(why, "--photo excludes --path");
}

static bool load(render_run *run, fault *why) {
    const render_options *const o = run->options;
    scene_notes notes;
    if (!scene_read(o->scene, SCENE_FINITE, &run->scene, why) || !scene_read_notes(o->scene, &notes, why))
        return false;
    if (!o->background) memcpy(run->background, notes.background, sizeof notes.background);
    const dataset_options loading = {
        .downscale = (int)o->downscale,
        .background = {run->background[0], run->background[1], run->background[2]},
        .undistort = o->undistort,
        .wanted = is_photo,
        .context = o};
    return (o->path != NO_PATH || output_is_possible(o->output, why)) &&
           (!o->cameras || dataset_load(o->cameras, &loading, &run->data, why)) &&
           dataset_may_write(&run->data, o->output, why);
}

int render_command(int argc, char **argv) {
    render_options options = {.view = "0",
                              .downscale = 1,
                              .width = 800,
                              .height = 600,
                              .frames = 120,
                              .sh_degree = GS_MAX_SH_DEGREE};
    const option_spec table[] = {
        OUTPUT_OPTION(&options.output,
                      .help = "the PNG file to write; with --path a folder of frames; required"),
        OPTION("cameras", &options.cameras,
               .help = "take the camera from this folder of photographs; default: the whole scene along +z"),
        OPTION("view", &options.view, .help = "the name of the image whose camera is used, or its index"),
        OPTION("path", &options.path, .choices = path_names,
               .help = "render a flight: an orbit around what the cameras look at"),
        OPTION("frames", &options.frames, .minimum = 1, .maximum = 100000,
               .help = "number of pictures of the flight"),
        DOWNSCALE_OPTION(&options.downscale, "the camera's picture"),
        UNDISTORT_OPTION(&options.undistort),
        OPTION("photo", &options.photo,
               .help = "put the photograph to the right of the picture; needs --cameras"),
        OPTION("ortho", &options.ortho, .maximum = 1e6,
               .help = "height of the picture in world units, projected in parallel; 0: in perspective"),
        OPTION("width", &options.width, .minimum = 1, .maximum = IMAGE_MAX_SIZE,
               .help = "width of the picture in pixels, without --cameras"),
        OPTION("height", &options.height, .minimum = 1, .maximum = IMAGE_MAX_SIZE,
               .help = "height of the picture in pixels, without --cameras"),
        OPTION("sh-degree", &options.sh_degree, .maximum = GS_MAX_SH_DEGREE,
               .help = "highest degree of spherical harmonics to use"),
        SCENE_BACKGROUND_OPTION(&options.background),
        OPTIONS_END};
    const command_spec command = {
        .name = "dsplat render",
        .arguments = "SCENE.ply -o OUT [options]",
        .summary =
            "Renders one view of a scene, or with --path a flight through it to OUT/frame_00000.png and\n"
            "so on, with the size and the lens of --view. The flight ends where it begins; ffmpeg makes a video of it.",
        .examples = "  dsplat render fern.ply -o fern.png\n"
                    "  dsplat render fern.ply -o fern.png --cameras data/fern --downscale 4 --photo\n"
                    "  dsplat render fern.ply -o flight --cameras data/fern --path orbit --frames 90\n"
                    "  ffmpeg -framerate 30 -i flight/frame_%05d.png -pix_fmt yuv420p flight.mp4\n",
        .options = table,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    render_run run = {.options = &options};
    if (!check(&options, run.background, &why)) return report_misuse(&command, &why);
    bool done = load(&run, &why);
    if (done) {
        run.gaussians = device_gaussians_from(&run.scene);
        done = options.path != NO_PATH ? fly(&run, &why) : render(&run, &why);
        device_gaussians_close(&run.gaussians);
    }
    dataset_close(&run.data);
    scene_close(&run.scene);
    return done ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
