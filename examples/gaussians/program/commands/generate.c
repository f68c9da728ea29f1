// SPDX-License-Identifier: MIT
// dsplat generate: pictures of the built-in scene with their cameras, as data to train on.
#include "camera.h"
#include "commands/command.h"
#include "demo/demo_scene.h"
#include "device.h"
#include "frame.h"
#include "lenses.h"
#include "files/json_writer.h"
#include "files/output_file.h"
#include "random.h"
#include "scene.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct generate_options {
    const char *folder;
    int64_t views, test_views, size, gaussians, seed;
    double fisheye; // degrees of the field of view across a picture; 0: a pinhole
    bool depth;
} generate_options;

// The views of one transforms file: camera indices from first to before last.
typedef struct view_set {
    const generate_options *options;
    const char *name, *list;     // "train", "transforms_train.json"
    const char *picture, *depth; // paths of numbered files
    int64_t first, last;
    bool exact_depth; // as .pfm; otherwise as .png with scale and shift
} view_set;

// The generated fisheye: its distortion, and the angle from the middle of a picture to its side.
static const float fisheye_distortion[4] = {0.02f, -0.005f, 0.001f, -0.0001f};

static double half_field(const generate_options *options) {
    return options->fisheye / 2 * acos(-1) / 180;
}

// A fisheye is so close that the scene fills 0.8 of its field of view.
static double camera_distance(const generate_options *options) {
    const double scene_radius = 1.2, most = 1.3; // the latter an angle: cameras stay outside
    return options->fisheye > 0 ? scene_radius / sin(fmin(0.8 * half_field(options), most))
                                : DEMO_CAMERA_DISTANCE;
}

static gs_camera camera_without_pose(const generate_options *options) {
    const int size = (int)options->size;
    gs_camera camera = camera_with_view_angle(size, size, DEMO_VIEW_ANGLE);
    camera.near_plane = (float)(camera_distance(options) / 100);
    if (options->fisheye > 0) {
        camera.model = GS_FISHEYE;
        memcpy(camera.distortion, fisheye_distortion, sizeof camera.distortion);
        camera.fx = camera.fy = (float)(size / 2.0 / fisheye_radius(fisheye_distortion, half_field(options)));
    }
    return camera;
}

// Cameras on the upper half of a sphere around the scene, turned by the seed. Any range of indices covers it evenly.
static gs_camera camera_at(const generate_options *options, int64_t index) {
    const double golden = 0.6180339887498949, pi = 3.141592653589793;
    const double start = fmod(golden * (double)(options->seed % 1000000), 1);
    const double around = 2 * pi * fmod(start + golden * (double)index, 1);
    const double plastic = 0.7548776662466927; // the plane's golden ratio; with its square no pattern shows
    const double height = 0.02 + 0.94 * fmod(0.5 + plastic * (double)index, 1); // sine of the elevation
    const double across = sqrt(1 - height * height), distance = camera_distance(options);
    const double eye[3] = {distance * across * cos(around), distance * across * sin(around),
                           demo_center[2] + distance * height};
    gs_camera camera = camera_without_pose(options);
    camera_look_at(&camera, eye, demo_center, (const double[3]){0, 0, 1});
    return camera;
}

static void describe_views(json_writer *json, const void *subject) {
    static const char *const names[4] = {"k1", "k2", "k3", "k4"};
    const view_set *set = subject;
    const gs_camera lens = camera_without_pose(set->options);
    if (lens.model == GS_PINHOLE) {
        json_put_number(json, "camera_angle_x", DEMO_VIEW_ANGLE);
    } else {
        json_put_text(json, "camera_model", "OPENCV_FISHEYE");
        json_put_number(json, "fl_x", lens.fx);
        for (int i = 0; i < 4; i++) json_put_number(json, names[i], lens.distortion[i]);
        json_put_integer(json, "w", lens.width);
        json_put_integer(json, "h", lens.height);
    }
    json_begin(json, "frames", '[');
    for (int64_t i = set->first; i < set->last; i++) {
        const gs_camera camera = camera_at(set->options, i);
        const pose at = pose_of(&camera);
        char name[32]; // without ".png", as in NeRF's scenes
        snprintf(name, sizeof name, "%s/r_%04" PRId64, set->name, i - set->first);
        json_begin(json, NULL, '{');
        json_put_text(json, "file_path", name);
        transforms_put_pose(json, at.rotation, at.translation);
        json_end(json, '}');
    }
    json_end(json, ']');
}

// The picture with alpha. The colours are divided by alpha, as they were blended with black.
static bool picture_with_alpha(const frame *f, image *out, fault *why) {
    const size_t pixels = (size_t)f->view.camera.width * (size_t)f->view.camera.height;
    float *planes = malloc((GS_CHANNELS + 1) * pixels * sizeof *planes); // the last: transmittance
    if (!planes)
        return fail(why, "no memory for a picture of %d x %d", f->view.camera.width, f->view.camera.height);
    device_download(planes, f->view.image.color, GS_CHANNELS * pixels * sizeof *planes);
    device_download(planes + GS_CHANNELS * pixels, f->view.image.transmittance, pixels * sizeof *planes);
    bool done = image_open(out, f->view.camera.width, f->view.camera.height, 4, why);
    for (size_t i = 0; done && i < pixels; i++) {
        const float alpha = 1 - planes[GS_CHANNELS * pixels + i];
        for (size_t c = 0; c < GS_CHANNELS; c++) {
            const float color = alpha > 0 ? fminf(planes[c * pixels + i] / alpha, 1) : 0;
            out->pixels[4 * i + c] = (uint8_t)(255 * color + 0.5f);
        }
        out->pixels[4 * i + 3] = (uint8_t)(255 * alpha + 0.5f);
    }
    free(planes);
    return done;
}

// Scales and shifts inverse depth into 0..1 by numbers of the view's own, as a network would leave it.
static void hide_scale(plane *map, uint64_t seed, int64_t index) {
    random_stream random = random_at(seed, 0, 0, (uint64_t)index);
    const double low = 0.25 * random_unit(&random), high = 1 - 0.25 * random_unit(&random);
    double largest = 0;
    for (size_t i = 0; i < plane_size(map); i++) largest = fmax(largest, (double)map->values[i]);
    for (size_t i = 0; largest > 0 && i < plane_size(map); i++)
        map->values[i] = (float)(low + (high - low) * (double)map->values[i] / largest);
}

// number: of the view in its set.
static bool write_depth(const frame *f, const view_set *set, int64_t number, fault *why) {
    char path[PATH_ROOM];
    plane map;
    if (!numbered_path(path, set->options->folder, set->depth, number, why) ||
        !plane_open(&map, f->view.camera.width, f->view.camera.height, why))
        return false;
    device_download(map.values, f->view.image.depth, plane_size(&map) * sizeof *map.values);
    if (!set->exact_depth) hide_scale(&map, (uint64_t)set->options->seed, set->first + number);
    const bool written = (set->exact_depth ? plane_write_pfm : plane_write_png)(path, &map, why);
    plane_close(&map);
    return written;
}

static bool make_folders(const view_set *set, fault *why) {
    char path[PATH_ROOM], depth[PATH_ROOM];
    const char *folder = set->options->folder;
    if (!path_join(path, folder, set->name, why) || !folder_make(path, why)) return false;
    return !set->options->depth || (path_join(depth, folder, "depth", why) && folder_make(depth, why) &&
                                    path_join(path, depth, set->name, why) && folder_make(path, why));
}

// The list last, so that it never names missing pictures.
static bool write_views(const view_set *set, const gs_gaussians *gaussians, frame *f, fault *why) {
    const float black[3] = {0, 0, 0};
    const char *const folder = set->options->folder;
    const int64_t count = set->last - set->first;
    char path[PATH_ROOM];
    bool done = make_folders(set, why);
    for (int64_t i = 0; done && i < count; i++) {
        const gs_camera camera = camera_at(set->options, set->first + i);
        image picture = {0};
        frame_render(f, gaussians, gaussians->sh_degree, &camera, black);
        done = numbered_path(path, folder, set->picture, i, why) && picture_with_alpha(f, &picture, why) &&
               image_write_png(path, &picture, why) && (!set->options->depth || write_depth(f, set, i, why));
        image_close(&picture);
    }
    return done && remove_numbered(folder, set->picture, count, why) &&
           remove_numbered(folder, set->depth, set->options->depth ? count : 0, why) &&
           path_join(path, folder, set->list, why) && json_save(path, describe_views, set, why);
}

// As COLMAP's points3D.txt: the places of some Gaussians, as points that structure from motion found.
static bool write_points(const generate_options *options, const gs_gaussians *scene, fault *why) {
    char path[PATH_ROOM];
    output_file file;
    bool removed;
    if (!path_join(path, options->folder, "points3D.txt", why)) return false;
    if (!options->depth) return file_remove(path, &removed, why);
    if (!output_file_open(&file, path, why)) return false;
    random_stream random = random_at((uint64_t)options->seed, 1, 0, 0);
    const int points = scene->count < 40000 ? (int)(scene->count / 8) : 5000;
    const int coefficients = (scene->sh_degree + 1) * (scene->sh_degree + 1);
    fprintf(file.stream, "# POINT3D_ID, X, Y, Z, R, G, B, ERROR\n# Number of points: %d\n", points);
    for (int n = 0; n < points; n++) {
        const size_t i = (size_t)random_below(&random, (uint64_t)scene->count);
        const float *mean = scene->mean + 3 * i, *sh = scene->sh + GS_CHANNELS * (size_t)coefficients * i;
        fprintf(file.stream, "%d %.9g %.9g %.9g", n + 1, (double)mean[0], (double)mean[1], (double)mean[2]);
        for (int c = 0; c < GS_CHANNELS; c++) {
            const double color = 0.5 + 0.28209479177387814 * (double)sh[c];
            fprintf(file.stream, " %d", (int)(255 * fmin(fmax(color, 0), 1) + 0.5));
        }
        fprintf(file.stream, " 0\n"); // errors stay in the stream
    }
    return output_file_commit(&file, why);
}

static bool generate(const generate_options *o, fault *why) {
    const view_set sets[2] = {{.options = o,
                               .name = "train",
                               .list = "transforms_train.json",
                               .picture = "train/r_%04lld.png",
                               .depth = "depth/train/r_%04lld.png",
                               .last = o->views},
                              {.options = o,
                               .name = "test",
                               .list = "transforms_test.json",
                               .picture = "test/r_%04lld.png",
                               .depth = "depth/test/r_%04lld.pfm",
                               .first = o->views,
                               .last = o->views + o->test_views,
                               .exact_depth = true}};
    char path[PATH_ROOM];
    gs_gaussians scene;
    if (!folder_make(o->folder, why) || !path_join(path, o->folder, "scene.ply", why) ||
        !output_is_possible(path, why) || !demo_scene_open(o->gaussians, (uint64_t)o->seed, &scene, why))
        return false;
    frame f = {.with_depth = o->depth};
    gs_gaussians gaussians = device_gaussians_from(&scene);
    bool done = scene_write(path, &scene, why), removed;
    for (int s = 0; s < 2 && done; s++) // the old lists before their pictures are replaced
        done = path_join(path, o->folder, sets[s].list, why) && file_remove(path, &removed, why);
    done = done && write_points(o, &scene, why);
    for (int s = 0; s < 2 && done; s++) done = write_views(&sets[s], &gaussians, &f, why);
    if (done)
        printf("%s: %" PRId64 " views to train on, %" PRId64 " held out, %" PRId64 " x %" PRId64
               ", of %" PRId64 " Gaussians%s\n",
               o->folder, o->views, o->test_views, o->size, o->size, scene.count,
               10 * scene.count > 11 * o->gaussians ? ": its thin parts need more than were asked for" : "");
    device_gaussians_close(&gaussians);
    frame_close(&f);
    scene_close(&scene);
    return done;
}

int generate_command(int argc, char **argv) {
    generate_options options = {.views = 100, .test_views = 20, .size = 800, .gaussians = 40000, .seed = 1};
    const option_spec table[] = {
        OPTION("views", &options.views, .minimum = 1, .maximum = 10000,
               .help = "number of views to train on"),
        OPTION("test-views", &options.test_views, .maximum = 10000, .help = "number of views held out"),
        OPTION("size", &options.size, .minimum = 8, .maximum = 4096,
               .help = "width and height of a picture in pixels"),
        OPTION("gaussians", &options.gaussians, .minimum = 1000, .maximum = 10000000,
               .help = "approximate number of Gaussians"),
        OPTION("seed", &options.seed, .maximum = INFINITY,
               .help = "seed of the cameras' positions and of the grass"),
        OPTION("fisheye", &options.fisheye, .maximum = 200,
               .help = "degrees across a picture of a fisheye; 0: pinholes"),
        OPTION("depth", &options.depth,
               .help = "also write maps of inverse depth to DIR/depth, and DIR/points3D.txt"),
        OPTIONS_END};
    const command_spec command = {
        .name = "dsplat generate",
        .arguments = "DIR [options]",
        .summary =
            "Makes data to train on: pictures of a built-in scene, seen from all sides above it. The\n"
            "scene is an object with thin parts, textures and reflections on a transparent background.\n"
            "Writes to DIR in the form of NeRF's Blender scenes: transforms_train.json,\n"
            "transforms_test.json, train/*.png, test/*.png and the scene itself, scene.ply. Files of an\n"
            "earlier run are replaced. --depth adds maps of the training views as 16-bit PNG, scaled and\n"
            "shifted by other numbers in each, and exact ones of the other views as PFM.",
        .examples = "  dsplat generate data/knot\n"
                    "  dsplat train data/knot -o knot.ply --random 100000 --background 1,1,1\n"
                    "  dsplat generate few --views 8 --depth\n"
                    "  dsplat train few -o few.ply --depth few/depth\n"
                    "  dsplat generate small --views 20 --test-views 5 --size 64 --gaussians 3000\n",
        .options = table,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.folder, &code)) return code;
    fault why;
    return generate(&options, &why) ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
