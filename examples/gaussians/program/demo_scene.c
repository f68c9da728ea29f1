// SPDX-License-Identifier: MIT
#include "demo_scene.h"
#include "camera.h"
#include "ply.h"
#include "random.h"
#include "start.h"
#include <math.h>

enum { KNOT = 220, FLOOR_SIDE = 12, SH_DEGREE = 1, COEFFICIENTS = 3 * (SH_DEGREE + 1) * (SH_DEGREE + 1) };

static const double pi = 3.141592653589793;

const float demo_background[3] = {0.06f, 0.07f, 0.11f};

gs_camera demo_camera(int view, int width, int height) {
    double around = 2 * pi * view / DEMO_VIEWS + 0.8, up = view % 2 ? 3.2 : 4.8;
    gs_camera camera = camera_with_view_angle(width, height, 0.8);
    camera_look_at(&camera, (const double[3]){6.4 * cos(around), 6.4 * sin(around), up},
                   (const double[3]){0, 0, 0}, (const double[3]){0, 0, 1});
    return camera;
}

static void set_gaussian(gs_gaussians *scene, int64_t i, const double mean[3], const double scale[3],
                         const double quaternion[4], double opacity, const double color[3]) {
    for (int axis = 0; axis < 3; axis++) {
        scene->mean[3 * i + axis] = (float)mean[axis];
        scene->log_scale[3 * i + axis] = (float)log(scale[axis]);
        scene->sh[COEFFICIENTS * i + axis] = (float)sh_constant_from_color(color[axis]);
    }
    for (int k = 0; k < 4; k++) scene->quaternion[4 * i + k] = (float)quaternion[k];
    scene->opacity_logit[i] = (float)log(opacity / (1 - opacity));
}

// Adds strength * dot(direction of view, towards) to all channels; docs/math.md, section 2, degree 1.
static void add_sheen(gs_gaussians *scene, int64_t i, double strength, const double towards[3]) {
    const double basis[3] = {-towards[1], towards[2], -towards[0]};
    for (int k = 0; k < 3; k++)
        for (int channel = 0; channel < 3; channel++)
            scene->sh[COEFFICIENTS * i + 3 * (k + 1) + channel] =
                (float)(strength * basis[k] / 0.4886025119029199);
}

// The (2, 3) torus knot, t from 0 to 1.
static void knot(double t, double point[3]) {
    double angle = 2 * pi * t, radius = 1.9 + 0.85 * cos(3 * angle);
    point[0] = radius * cos(2 * angle);
    point[1] = radius * sin(2 * angle);
    point[2] = 0.85 * sin(3 * angle) + 0.35;
}

// The shortest rotation that takes +x to a direction (of any length).
static void rotation_from_x_to(const double direction[3], double quaternion[4]) {
    double length =
        sqrt(direction[0] * direction[0] + direction[1] * direction[1] + direction[2] * direction[2]);
    double cosine = direction[0] / length;
    bool opposite = cosine < -0.999999;
    quaternion[0] = opposite ? 0 : 1 + cosine;
    quaternion[1] = 0;
    quaternion[2] = opposite ? 1 : -direction[2] / length;
    quaternion[3] = opposite ? 0 : direction[1] / length;
}

static void add_knot(gs_gaussians *scene, int64_t first) {
    const double light[3] = {-0.5, 0.3, -0.8}; // where the sheen's views look to
    for (int i = 0; i < KNOT; i++) {
        double t = (double)i / KNOT, mean[3], before[3], after[3], along[3], quaternion[4], color[3];
        knot(t, mean);
        knot(t - 0.5 / KNOT, before);
        knot(t + 0.5 / KNOT, after);
        for (int axis = 0; axis < 3; axis++) {
            along[axis] = after[axis] - before[axis];
            color[axis] = 0.52 + 0.4 * cos(2 * pi * (t + axis / 3.0));
        }
        rotation_from_x_to(along, quaternion);
        double step = sqrt(along[0] * along[0] + along[1] * along[1] + along[2] * along[2]);
        set_gaussian(scene, first + i, mean, (const double[3]){0.6 * step, 0.19, 0.19}, quaternion, 0.93,
                     color);
        add_sheen(scene, first + i, 0.22, light);
    }
}

static void add_floor(gs_gaussians *scene, int64_t first) {
    const double cell = 0.6, level = -1.05;
    const double upright[4] = {1, 0, 0, 0}, size[3] = {0.27, 0.27, 0.02};
    for (int row = 0; row < FLOOR_SIDE; row++)
        for (int column = 0; column < FLOOR_SIDE; column++) {
            double x = (column - (FLOOR_SIDE - 1) / 2.0) * cell, y = (row - (FLOOR_SIDE - 1) / 2.0) * cell;
            double shade = (row + column) % 2 ? 0.85 : 0.22, fade = exp(-0.03 * (x * x + y * y));
            set_gaussian(scene, first + row * FLOOR_SIDE + column, (const double[3]){x, y, level}, size,
                         upright, 0.9, (const double[3]){shade * fade, shade * fade, (shade + 0.08) * fade});
        }
}

bool demo_scene(gs_gaussians *out, fault *why) {
    if (!gaussians_allocate(out, KNOT + FLOOR_SIDE * FLOOR_SIDE, SH_DEGREE, why)) return false;
    add_knot(out, 0);
    add_floor(out, KNOT);
    return true;
}

void demo_disturb(const gs_gaussians *scene, uint64_t seed) {
    random_stream random = {seed};
    for (int64_t i = 0; i < scene->count; i++) {
        float *sh = scene->sh + COEFFICIENTS * i;
        for (int axis = 0; axis < 3; axis++) {
            scene->mean[3 * i + axis] += (float)(0.12 * random_normal(&random));
            scene->log_scale[3 * i + axis] += (float)(0.3 * random_normal(&random));
            sh[axis] = 0.15f * sh[axis] + (float)(0.3 * random_normal(&random));
        }
        for (int k = 0; k < 4; k++) scene->quaternion[4 * i + k] += (float)(0.15 * random_normal(&random));
        for (int k = 3; k < COEFFICIENTS; k++) sh[k] = 0;
        scene->opacity_logit[i] = 0; // 0.5
    }
}
