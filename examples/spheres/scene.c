// SPDX-License-Identifier: MIT
#include "scene.h"
#include "random.h"
#include <math.h>

static const double pi = 3.141592653589793;

const char *const data_set_names[DATA_SETS + 1] = {"small", "large", NULL};

// The numbers and sizes of the spheres of the knot and the floor.
static const struct {
    int along, around; // of the knot's tube; around == 1: spheres on its axis
    int floor_side;
    double knot_radius, floor_radius;
} shapes[DATA_SETS] = {
    [DATA_SMALL] = {.along = 133, .around = 1, .floor_side = 13, .knot_radius = 0.26, .floor_radius = 0.25},
    [DATA_LARGE] = {
        .along = 1600, .around = 22, .floor_side = 160, .knot_radius = 0.045, .floor_radius = 0.03}};

pinhole_camera scene_camera(int view, int width, int height) {
    const double around = 2 * pi * view / SCENE_VIEWS + 0.8, up = view % 2 ? 3.2 : 4.8;
    return pinhole_look_at(width, height, 0.8, (const double[3]){6.4 * cos(around), 6.4 * sin(around), up},
                           (const double[3]){0, 0, 0}, (const double[3]){0, 0, 1});
}

sphere_blend scene_blend(int kept) {
    return (sphere_blend){.near_limit = 3,
                          .far_limit = 13,
                          .softness = 0.1f,
                          .background_weight = 10,
                          .background = 0.08f,
                          .kept = kept};
}

// The (2, 3) torus knot, t from 0 to 1.
static void knot(double t, double point[3]) {
    const double angle = 2 * pi * t, radius = 1.9 + 0.85 * cos(3 * angle);
    point[0] = radius * cos(2 * angle);
    point[1] = radius * sin(2 * angle);
    point[2] = 0.85 * sin(3 * angle) + 0.35;
}

// A point of the tube of the given radius around the knot.
static void tube(double t, double turn, double radius, double point[3]) {
    double here[3], there[3], side[3], up[3];
    knot(t, here);
    knot(t + 1e-4, there);
    const double x = there[0] - here[0], y = there[1] - here[1], z = there[2] - here[2];
    const double flat = hypot(x, y), length = hypot(flat, z); // the knot is nowhere vertical
    side[0] = -y / flat, side[1] = x / flat, side[2] = 0;
    up[0] = -x * z / (flat * length), up[1] = -y * z / (flat * length), up[2] = flat / length;
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

static void add_knot(data_set which, sphere_set *set, int64_t first) {
    const double wide = shapes[which].around > 1 ? 0.22 : 0;
    for (int i = 0; i < shapes[which].along; i++)
        for (int j = 0; j < shapes[which].around; j++) {
            const double t = (double)i / shapes[which].along, turn = (double)j / shapes[which].around;
            double center[3], color[3];
            tube(t, turn + i * 0.5 / shapes[which].around, wide, center);
            for (int k = 0; k < 3; k++) color[k] = 0.52 + 0.42 * cos(2 * pi * (t + 2 * turn + k / 3.0));
            set_sphere(set, first + (int64_t)i * shapes[which].around + j, center, shapes[which].knot_radius,
                       0.9, color);
        }
}

static void add_floor(data_set which, sphere_set *set, int64_t first) {
    const int side = shapes[which].floor_side;
    const double size = 6.6, level = -1.15;
    for (int row = 0; row < side; row++)
        for (int column = 0; column < side; column++) {
            const double x = ((column + 0.5) / side - 0.5) * size, y = ((row + 0.5) / side - 0.5) * size;
            const double wave = 0.12 * sin(2.2 * x) * sin(2.2 * y);
            const bool light = ((int)floor(x / 0.55 + 100) + (int)floor(y / 0.55 + 100)) % 2;
            const double shade = light ? 0.8 : 0.25, color[3] = {shade, shade, shade + 0.08};
            set_sphere(set, first + (int64_t)row * side + column, (const double[3]){x, y, level + wave},
                       shapes[which].floor_radius, 0.8, color);
        }
}

bool scene_generate(data_set which, int channels, sphere_set *out, fault *why) {
    const int64_t beads = (int64_t)shapes[which].along * shapes[which].around;
    const int64_t floor_count = (int64_t)shapes[which].floor_side * shapes[which].floor_side;
    if (!sphere_set_open(out, beads + floor_count, channels, why)) return false;
    add_knot(which, out, 0);
    add_floor(which, out, beads);
    return true;
}

void scene_disturb(sphere_set *host, uint64_t seed) {
    random_stream random = {seed};
    for (int64_t i = 0; i < host->count; i++) {
        const double radius = exp((double)host->log_radius[i]);
        for (int axis = 0; axis < 3; axis++)
            host->center[3 * i + axis] += (float)(0.5 * radius * random_normal(&random));
        host->log_radius[i] += (float)(0.25 * random_normal(&random));
        host->opacity_logit[i] = 0;
        for (int k = 0; k < host->channels; k++)
            host->feature[host->channels * i + k] = (float)(0.5 + 0.1 * random_normal(&random));
    }
}
