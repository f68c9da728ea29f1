// SPDX-License-Identifier: MIT
// spheres: a differentiable renderer of spheres, the second workload of the DISTWAR paper.
#include "fit/fit.h"
#include "device.h"
#include "gpu/vector.h"
#include "random.h"
#include "spheres.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// The generated data sets: a knot of beads over a floor of beads, seen from cameras around it. Small: 302 spheres; large:
// 60,800, the knot's surface and the floor in small ones.
static const char *const data_names[] = {"small", "large", NULL};
static const struct data_set {
    int along, around; // of the knot's tube; around == 1: spheres on its axis
    int floor_side;
    double knot_radius, floor_radius;
    int width[2], iterations[2]; // the defaults, on a GPU and on the CPU
} data_sets[] = {{133, 1, 13, 0.26, 0.25, {512, 192}, {2000, 200}},
                 {1600, 22, 160, 0.045, 0.03, {1024, 160}, {2000, 16}}};
static const char *const channel_names[] = {"3", "8", "16", "32", NULL};

static struct {
    // The options:
    int data, channels; // indices of data_names and channel_names
    int64_t kept;
    sphere_frame frame; // what is open
} own = {.kept = 8};

// ---- a data set

// A point of the tube of the given radius around the (2, 3) torus knot, t from 0 to 1.
static void tube(double t, double turn, double radius, double point[3]) {
    static const double vertical[3] = {0, 0, 1}; // which the knot is nowhere
    double here[3], along[3], side[3], up[3];
    for (int next = 0; next < 2; next++) {
        const double angle = 2 * pi * (next ? t + 1e-4 : t), away = 1.9 + 0.85 * cos(3 * angle);
        double *const knot = next ? along : here;
        knot[0] = away * cos(2 * angle);
        knot[1] = away * sin(2 * angle);
        knot[2] = 0.85 * sin(3 * angle) + 0.35;
    }
    for (int axis = 0; axis < 3; axis++) along[axis] -= here[axis];
    cross(vertical, along, side);
    cross(along, side, up);
    normalize(side);
    normalize(up);
    for (int axis = 0; axis < 3; axis++)
        point[axis] = here[axis] + radius * (cos(2 * pi * turn) * side[axis] + sin(2 * pi * turn) * up[axis]);
}

static void set_sphere(sphere_set *set, int64_t i, const double center[3], double radius, double opacity,
                       const double color[3]) {
    for (int axis = 0; axis < 3; axis++) set->center[3 * i + axis] = (float)center[axis];
    set->log_radius[i] = (float)log(radius);
    set->opacity_logit[i] = (float)log(opacity / (1 - opacity));
    for (int k = 0; k < set->channels; k++)
        set->feature[set->channels * i + k] =
            (float)(k < 3 ? color[k] : 0.5 + 0.4 * sin(k + (1 + 0.1 * k) * center[k % 3]));
}

// Channels 0..2 are red, green and blue; the others vary with the position.
static bool generate(const struct data_set *of, int channels, sphere_set *out, fault *why) {
    const int64_t beads = (int64_t)of->along * of->around, side = of->floor_side;
    const int64_t count = beads + side * side;
    float *const block = malloc((size_t)count * (size_t)(5 + channels) * sizeof *block);
    if (!block) return fail(why, "no memory for %" PRId64 " spheres", count);
    *out = sphere_set_over(block, count, channels);
    double center[3], color[3];
    for (int64_t n = 0; n < beads; n++) {
        const int64_t i = n / of->around;
        const double t = (double)i / of->along, turn = (double)(n % of->around) / of->around;
        tube(t, turn + (double)i * 0.5 / of->around, of->around > 1 ? 0.22 : 0, center);
        for (int k = 0; k < 3; k++) color[k] = 0.52 + 0.42 * cos(2 * pi * (t + 2 * turn + k / 3.0));
        set_sphere(out, n, center, of->knot_radius, 0.9, color);
    }
    for (int64_t n = 0; n < side * side; n++) {
        const double size = 6.6, level = -1.15;
        const double x = (((double)(n % side) + 0.5) / (double)side - 0.5) * size,
                     y = (((double)(n / side) + 0.5) / (double)side - 0.5) * size;
        const bool light = ((int)floor(x / 0.55 + 100) + (int)floor(y / 0.55 + 100)) % 2;
        const double shade = light ? 0.8 : 0.25;
        set_sphere(out, beads + n, (const double[3]){x, y, level + 0.12 * sin(2.2 * x) * sin(2.2 * y)},
                   of->floor_radius, 0.8, (const double[3]){shade, shade, shade + 0.08});
    }
    return true;
}

static pinhole_camera camera_of(int view, int width, int height) {
    const double around = 2 * pi * view / FIT_VIEWS + 0.8, up = view % 2 ? 3.2 : 4.8;
    return pinhole_look_at(width, height, 0.8, (const double[3]){6.4 * cos(around), 6.4 * sin(around), up},
                           (const double[3]){0}, (const double[3]){0, 0, 1});
}

// ---- the workload

static const option_spec options[] = {
    OPTION("data", &own.data, .choices = data_names, .help = "generated data set"),
    OPTION("kept", &own.kept, .minimum = 1, .maximum = SPHERES_MAX_KEPT,
           .help = "spheres that a pixel blends at most, the closest ones"),
    OPTION("channels", &own.channels, .choices = channel_names,
           .help = "channels of a sphere's feature; 3: a colour"),
    OPTIONS_END};

static bool complete(int64_t *width, int64_t *iterations, fault *why) {
    (void)why;
    if (*width == 0) *width = data_sets[own.data].width[ON_CPU];
    *iterations = data_sets[own.data].iterations[ON_CPU];
    return true;
}

static bool open(int width, int height, fit_scene *out, fault *why) {
    const pinhole_camera camera = camera_of(0, width, height);
    const sphere_blend blend = {.near_limit = 3,
                                .far_limit = 13,
                                .softness = 0.1f,
                                .background_weight = 10,
                                .background = 0.08f,
                                .kept = (int)own.kept};
    sphere_set host;
    if (!generate(&data_sets[own.data], atoi(channel_names[own.channels]), &host, why)) return false;
    own.frame = sphere_frame_open(&host, &camera, &blend);
    free(host.center);
    const sphere_set set = own.frame.set;
    const int64_t n = set.count;
    *out = (fit_scene){.channels = set.channels,
                       .color = own.frame.color,
                       .color_gradient = own.frame.color_gradient,
                       .sums = &own.frame.moments,
                       .parameters = set.center,
                       .groups = {{3 * n, 0.02f}, {n, 0.04f}, {n, 0.1f}, {n * set.channels, 0.04f}}};
    snprintf(out->text, sizeof out->text, "%s, %d channels, %lld spheres", data_names[own.data], set.channels,
             (long long)n);
    return true;
}

static void close(void) {
    sphere_frame_close(&own.frame);
}

static void draw(int view) {
    own.frame.camera = camera_of(view, own.frame.camera.width, own.frame.camera.height);
    spheres_draw(&own.frame);
}

// Disturbed centres and radii, gray features, opacity one half.
static void start(float *host) {
    const sphere_set set = sphere_set_over(host, own.frame.set.count, own.frame.set.channels);
    random_stream random = {1};
    for (int64_t i = 0; i < set.count; i++) {
        const double radius = exp((double)set.log_radius[i]);
        for (int axis = 0; axis < 3; axis++)
            set.center[3 * i + axis] += (float)(0.5 * radius * random_normal(&random));
        set.log_radius[i] += (float)(0.25 * random_normal(&random));
        set.opacity_logit[i] = 0;
        for (int k = 0; k < set.channels; k++)
            set.feature[set.channels * i + k] = (float)(0.5 + 0.1 * random_normal(&random));
    }
}

static void backward(distwar_policy policy, lane_histogram *lanes) {
    spheres_render_backward(&own.frame, policy, lanes);
}

static void gather(float *gradient) {
    const sphere_set set = sphere_set_over(gradient, own.frame.set.count, own.frame.set.channels);
    spheres_project_backward(&own.frame, &set);
}

static const fit_workload spheres = {
    .program = "spheres",
    .summary = "fit disturbed spheres to pictures of a data set",
    .training =
        "Disturbs the spheres of a generated data set, then fits them to pictures of the data set. Writes\n"
        "DIR/fit.png (target, start, result) and DIR/fit.f32: all centres, logarithms of radii, logits of\n"
        "opacities and features, as float32.",
    .examples = "  spheres train\n"
                "  spheres train -o out --data large --channels 8 --iterations 2000 --reduce fixed\n"
                "  spheres bench --data large --views 8 --thresholds 0,2,4,6,8,12,16,24 --json spheres.json\n"
                "  spheres bench --channels 32 --reduce tree --thresholds 0,33\n",
    .options = options,
    .complete = complete,
    .open = open,
    .close = close,
    .draw = draw,
    .start = start,
    .backward = backward,
    .gather = gather};

int main(int argc, char **argv) {
    return fit_main(&spheres, argc, argv);
}
