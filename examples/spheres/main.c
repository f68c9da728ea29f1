// SPDX-License-Identifier: MIT
// spheres: a differentiable renderer of spheres, the second workload of the DISTWAR paper.
#include "fit/fit.h"
#include "device.h"
#include "spheres.h"
#include <math.h>
#include <stdio.h>

static struct {
    // The options:
    int data;     // data_set
    int channels; // an index of channel_names
    int64_t kept, seed;
    // What is open:
    sphere_set set; // device
    sphere_frame frame;
} own = {.data = DATA_SMALL, .kept = 8, .seed = 1};

static const char *const channel_names[] = {"3", "8", "16", "32", NULL};

static void list(fit_command command, option_table *table) {
    const option_spec data[] = {
        OPTION("data", &own.data, .choices = data_set_names, .help = "generated data set"),
        OPTION("kept", &own.kept, .minimum = 1, .maximum = SPHERES_MAX_KEPT,
               .help = "most spheres that a pixel blends, the closest ones"),
        OPTIONS_END};
    const option_spec channels[] = {OPTION("channels", &own.channels, .choices = channel_names,
                                           .help = "channels of a sphere's feature; 3: a colour"),
                                    OPTIONS_END};
    const option_spec seed[] = {
        OPTION("seed", &own.seed, .maximum = INFINITY, .help = "seed of the disturbed start"), OPTIONS_END};
    option_table_add(table, data);
    if (command != FIT_RENDER) option_table_add(table, channels);
    if (command == FIT_TRAIN) option_table_add(table, seed);
}

static bool complete(int64_t *width, int64_t *iterations, fault *why) {
    static const int widths[2][DATA_SETS] = {{512, 1024}, {192, 160}}; // on a GPU, on the CPU
    static const int steps[2][DATA_SETS] = {{2000, 2000}, {200, 16}};
    (void)why;
    if (*width == 0) *width = widths[KERNELS_ARE_COUNTED][own.data];
    *iterations = steps[KERNELS_ARE_COUNTED][own.data];
    return true;
}

static bool open(const char *path, int width, int height, fit_scene *out, fault *why) {
    static const int channels[] = {3, 8, 16, 32};
    const pinhole_camera camera = scene_camera(0, FIT_VIEWS, width, height);
    const sphere_blend blend = scene_blend((int)own.kept);
    sphere_set host;
    if (!(path ? sphere_file_read(path, &host, why)
               : scene_generate((data_set)own.data, channels[own.channels], &host, why)))
        return false;
    own.set = sphere_set_on_device(&host);
    sphere_set_close(&host);
    own.frame = sphere_frame_open(&own.set, &camera, &blend);
    const int64_t n = own.set.count;
    *out = (fit_scene){.channels = own.set.channels,
                       .color = own.frame.color,
                       .color_gradient = own.frame.color_gradient,
                       .sums = &own.frame.moments,
                       .parameters = own.set.center,
                       .groups = {{3 * n, 0.02f}, {n, 0.04f}, {n, 0.1f}, {n * own.set.channels, 0.04f}}};
    snprintf(out->text, sizeof out->text, "%s, %d channels, %lld spheres",
             path ? path : data_set_names[own.data], own.set.channels, (long long)n);
    return true;
}

static void close(void) {
    sphere_frame_close(&own.frame);
    device_free(own.set.center);
}

static void draw(int view) {
    own.frame.camera = scene_camera(view, FIT_VIEWS, own.frame.camera.width, own.frame.camera.height);
    spheres_draw(&own.frame);
}

// A block of parameters, or of their gradients.
static sphere_set over(float *block) {
    return sphere_set_over(block, own.set.count, own.set.channels);
}

static void start(float *host) {
    sphere_set set = over(host);
    scene_disturb(&set, (uint64_t)own.seed);
}

static void backward(distwar_policy policy, lane_histogram *lanes) {
    spheres_render_backward(&own.frame, policy, lanes);
}

static void gather(float *gradient) {
    const sphere_set set = over(gradient);
    spheres_project_backward(&own.frame, &set);
}

static bool write(const char *path, float *host, fault *why) {
    const sphere_set set = over(host);
    return sphere_file_write(path, &set, why);
}

static void describe(json_writer *json) {
    json_put_text(json, "data", data_set_names[own.data]);
    json_put_integer(json, "spheres", own.set.count);
    json_put_integer(json, "channels", own.set.channels);
    json_put_integer(json, "kept", own.frame.blend.kept);
}

static const fit_workload spheres = {
    .program = "spheres",
    .summary = "fits spheres to pictures",
    .file = "spheres.txt",
    .file_name = "SPHERES.txt",
    .help =
        {[FIT_TRAIN] =
             {"fit disturbed spheres to pictures of a data set",
              "Disturbs the spheres of a generated data set, then fits them to pictures of the data set. Writes\n"
              "DIR/spheres.png (target, start, result) and DIR/spheres.txt.",
              "  spheres train\n"
              "  spheres train -o out --data large --iterations 2000\n"
              "  spheres train -o out --channels 8 --reduce fixed\n"},
         [FIT_RENDER] =
             {"one view of a data set or of trained spheres -> a picture",
              "Renders one view of a data set, or of the spheres in a file that 'spheres train' wrote:\n"
              "the first three channels of their features.",
              "  spheres render -o small.png\n"
              "  spheres render out/spheres.txt -o view.png --view 3 --width 640\n"},
         [FIT_BENCH] =
             {"measure the adjoint with every strategy and threshold",
              "Measures the adjoint of the blend with every strategy and threshold.",
              "  spheres bench\n"
              "  spheres bench --data large --views 8 --thresholds 0,2,4,6,8,12,16,24 --json spheres.json\n"
              "  spheres bench --channels 32 --reduce tree --thresholds 0,33\n"}},
    .list = list,
    .complete = complete,
    .open = open,
    .close = close,
    .draw = draw,
    .start = start,
    .backward = backward,
    .gather = gather,
    .write = write,
    .describe = describe};

int main(int argc, char **argv) {
    return fit_main(&spheres, argc, argv);
}
