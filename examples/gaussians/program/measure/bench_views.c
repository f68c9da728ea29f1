// SPDX-License-Identifier: MIT
#include "measure/bench_views.h"
#include "measure/shared_options.h"
#include "random.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void bench_view_options_list(bench_view_options *options, option_table *table) {
    *options = (bench_view_options){.views = 12, .downscale = 1};
    const option_spec rows[] = {
        CAMERAS_OPTION(&options->cameras),
        OPTION("views", &options->views, .minimum = 1, .maximum = INFINITY,
               .help = "most views to measure, every fourth by name"),
        OPTION("center-principal", &options->center_principal,
               .help = "move the principal point of every camera to the middle of its picture"),
        DOWNSCALE_OPTION(&options->downscale, "pictures"),
        UNDISTORT_OPTION(&options->undistort),
        OPTION("size", &options->size,
               .help = "scale pictures to cover WIDTHxHEIGHT and crop them around their middle"),
        OPTIONS_END};
    option_table_add(table, rows);
}

// From "WIDTHxHEIGHT".
static bool parse_size(const char *text, int *width, int *height, fault *why) {
    long sides[2] = {0, 0};
    const char *rest = text;
    for (int i = 0; i < 2; i++) {
        char *end;
        errno = 0;
        bool digits = rest[0] >= '0' && rest[0] <= '9';
        sides[i] = digits ? strtol(rest, &end, 10) : 0;
        if (sides[i] < 1 || sides[i] > GS_MAX_SIZE || *end != "x"[i])
            return fail(why, "--size needs WIDTHxHEIGHT, each 1 to %d, not '%s'", GS_MAX_SIZE, text);
        rest = end + 1;
    }
    *width = (int)sides[0];
    *height = (int)sides[1];
    return true;
}

static void resize_camera(gs_camera *camera, int width, int height) {
    float across = (float)width / (float)camera->width, down = (float)height / (float)camera->height;
    float scale = fmaxf(across, down);
    camera->fx *= scale;
    camera->fy *= scale;
    camera->cx = scale * (camera->cx - 0.5f * (float)camera->width) + 0.5f * (float)width;
    camera->cy = scale * (camera->cy - 0.5f * (float)camera->height) + 0.5f * (float)height;
    camera->width = width;
    camera->height = height;
}

bool bench_view_options_check(const bench_view_options *options, fault *why) {
    int width, height;
    if (!options->cameras) return fail(why, "--cameras is missing: the views to measure on");
    return !options->size || parse_size(options->size, &width, &height, why);
}

bool bench_views_open(bench_views *views, const bench_view_options *options, fault *why) {
    *views = (bench_views){0};
    const dataset_options loading = {
        .downscale = (int)options->downscale, .wanted = dataset_no_picture, .undistort = options->undistort};
    int width = 0, height = 0;
    bool done = !options->size || parse_size(options->size, &width, &height, why);
    if (!done || !dataset_load(options->cameras, &loading, &views->data, why)) return false;
    size_t all = views->data.view_count;
    views->cameras = calloc(all, sizeof *views->cameras);
    views->names = calloc(all, sizeof *views->names);
    if (!views->cameras || !views->names) return fail(why, "no memory for %zu views", all);
    for (size_t i = 0; i < all && views->count < (size_t)options->views; i += BENCH_VIEW_STEP) {
        gs_camera *camera = &views->cameras[views->count];
        *camera = views->data.views[i].camera;
        if (options->center_principal) {
            camera->cx = (float)camera->width / 2;
            camera->cy = (float)camera->height / 2;
        }
        if (width > 0) resize_camera(camera, width, height);
        views->names[views->count++] = views->data.views[i].name;
    }
    return true;
}

void bench_views_close(bench_views *views) {
    free(views->cameras);
    free(views->names);
    dataset_close(&views->data);
    *views = (bench_views){0};
}

float *bench_color_gradient(const gs_camera *cameras, size_t count, size_t *values) {
    *values = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t of_view = GS_CHANNELS * (size_t)cameras[i].width * (size_t)cameras[i].height;
        if (of_view > *values) *values = of_view;
    }
    float *const gradient = malloc(*values * sizeof *gradient);
    random_stream random = {1};
    for (size_t i = 0; gradient && i < *values; i++) gradient[i] = (float)(2 * random_unit(&random) - 1);
    return gradient;
}
