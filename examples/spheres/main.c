// SPDX-License-Identifier: MIT
// spheres: a differentiable renderer of spheres, the second workload of the DISTWAR paper.
#include "fit/fit.h"
#include "scene.h"
#include "sphere_file.h"
#include "strategies/kernel_counts.h"
#include <math.h>
#include <stdio.h>

static struct {
    // The options:
    int data;     // data_set
    int channels; // an index of channel_names
    int64_t kept, seed;
    // What is open:
    sphere_set host, set, gradient, first_moment, second_moment; // all but the first: device
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
    kernel_counts unused;
    const bool on_cpu = kernel_counts_now(&unused);
    (void)why;
    if (*width == 0) *width = widths[on_cpu][own.data];
    *iterations = steps[on_cpu][own.data];
    return true;
}

static bool open(const char *path, int width, int height, fit_scene *out, fault *why) {
    static const int channels[] = {3, 8, 16, 32};
    const pinhole_camera camera = scene_camera(0, width, height);
    const sphere_blend blend = scene_blend((int)own.kept);
    if (!(path ? sphere_file_read(path, &own.host, why)
               : scene_generate((data_set)own.data, channels[own.channels], &own.host, why)))
        return false;
    own.set = device_sphere_set_open(own.host.count, own.host.channels);
    sphere_set_upload(&own.set, &own.host);
    own.frame = sphere_frame_open(&own.set, &camera, &blend);
    *out = (fit_scene){own.host.channels, own.frame.color, own.frame.color_gradient, &own.frame.moments, ""};
    snprintf(out->text, sizeof out->text, "%s, %d channels, %lld spheres",
             path ? path : data_set_names[own.data], own.host.channels, (long long)own.host.count);
    return true;
}

static void close(void) {
    sphere_frame_close(&own.frame);
    sphere_set *const sets[] = {&own.set, &own.gradient, &own.first_moment, &own.second_moment};
    for (int i = 0; i < 4; i++) device_sphere_set_close(sets[i]);
    sphere_set_close(&own.host);
}

static void draw(int view) {
    own.frame.camera = scene_camera(view, own.frame.camera.width, own.frame.camera.height);
    spheres_project(&own.frame);
    spheres_candidates(&own.frame);
    spheres_render(&own.frame);
}

static void start(void) {
    sphere_set *const sets[] = {&own.gradient, &own.first_moment, &own.second_moment};
    for (int i = 0; i < 3; i++) *sets[i] = device_sphere_set_open(own.set.count, own.set.channels);
    scene_disturb(&own.host, (uint64_t)own.seed);
    sphere_set_upload(&own.set, &own.host);
}

static void backward(distwar_policy policy) {
    spheres_render_backward(&own.frame, policy);
}

static void update(float rate, int64_t step) {
    const sphere_rates rates = {.center = 0.02f * rate,
                                .log_radius = 0.04f * rate,
                                .opacity_logit = 0.1f * rate,
                                .feature = 0.04f * rate};
    spheres_project_backward(&own.frame, &own.gradient);
    spheres_adam(&own.set, &own.gradient, &own.first_moment, &own.second_moment, &rates, step);
}

static bool write(const char *path, fault *why) {
    sphere_set_download(&own.host, &own.set);
    return sphere_file_write(path, &own.host, why);
}

static void count_lanes(lane_histogram *counts) {
    spheres_count_lanes(&own.frame, counts);
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
    .update = update,
    .write = write,
    .count_lanes = count_lanes,
    .describe = describe};

int main(int argc, char **argv) {
    return fit_main(&spheres, argc, argv);
}
