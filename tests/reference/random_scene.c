// SPDX-License-Identifier: MIT
// Scenes with everything in them that a rasteriser must survive. Only + - * / and sqrt, which round alike
// everywhere.
#include "reference.h"

#include "memory.h"

#include <math.h>
#include <string.h>

// SplitMix64 (Steele, Lea and Flood 2014).
static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// volatile, because gcc 12 at -O3 loses the rounding where it vectorises around it.
static double as_float(double value) {
    volatile float rounded = (float)value;
    return rounded;
}

// A float in [low, high].
static double uniform(uint64_t *state, double low, double high) {
    return as_float(low + (high - low) * ((double)(next(state) >> 11) * 0x1p-53));
}

static void random_quaternion(uint64_t *state, double q[4]) {
    double square;
    do {
        square = 0;
        for (int k = 0; k < 4; k++) {
            q[k] = uniform(state, -1, 1);
            square += q[k] * q[k];
        }
    } while (square < 0.1);
}

static reference_camera random_camera(uint64_t *state, int width, int height) {
    reference_camera camera = {.width = width, .height = height, .near_plane = as_float(0.2)};
    camera.fx = as_float(width * uniform(state, 0.8, 1.2));
    camera.fy = as_float(camera.fx * uniform(state, 0.9, 1.1));
    camera.cx = as_float(width * uniform(state, 0.35, 0.65));
    camera.cy = as_float(height * uniform(state, 0.35, 0.65));
    double q[4];
    random_quaternion(state, q);
    const double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    const double w = q[0] / norm, x = q[1] / norm, y = q[2] / norm, z = q[3] / norm;
    const double rotation[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                                2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                                2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    for (int k = 0; k < 9; k++) camera.rotation[k] = as_float(rotation[k]);
    for (int k = 0; k < 3; k++) camera.translation[k] = uniform(state, -3, 3);
    return camera;
}

// D grows up to 160 degrees: the sum of what these can take from D' there stays below 1.
static void make_fisheye(uint64_t *state, reference_camera *camera) {
    static const double most[4] = {0.02, 1e-3, 1e-4, 1e-5};
    camera->model = GS_FISHEYE;
    camera->fx = as_float(0.33 * camera->fx);
    camera->fy = as_float(0.33 * camera->fy);
    for (int k = 0; k < 4; k++) camera->distortion[k] = uniform(state, k == 0 ? 0 : -most[k], most[k]);
}

// The direction that the camera sees at a place of the image, about: for a fisheye with an angle of
// 2 atan(r / 2), r in focal lengths.
static void direction_at(const reference_camera *camera, double column, double row, double out[3]) {
    const double x = (column * camera->width - camera->cx) / camera->fx;
    const double y = (row * camera->height - camera->cy) / camera->fy;
    const double quarter = (x * x + y * y) / 4, part = camera->model == GS_FISHEYE ? 1 / (1 + quarter) : 1;
    out[0] = x * part;
    out[1] = y * part;
    out[2] = camera->model == GS_FISHEYE ? (1 - quarter) * part : 1;
}

reference_kind reference_kind_of(int64_t i) {
    static const reference_kind odd[REFERENCE_KIND_CYCLE / 2] = {
        REFERENCE_OPAQUE,      REFERENCE_CLAMPED, REFERENCE_NEEDLE,     REFERENCE_HUGE,
        REFERENCE_OPAQUE,      REFERENCE_TINY,    REFERENCE_FLAT,       REFERENCE_CLOSE,
        REFERENCE_OPAQUE,      REFERENCE_FAINT,   REFERENCE_BEHIND,     REFERENCE_CLAMPED,
        REFERENCE_TRANSPARENT, REFERENCE_OPAQUE,  REFERENCE_OFF_SCREEN, REFERENCE_ZERO_QUATERNION,
    };
    return i % 2 == 0 ? REFERENCE_ORDINARY : odd[i / 2 % (REFERENCE_KIND_CYCLE / 2)];
}

// What sets a kind apart from the ordinary: ranges, {0, 0} where it is as they are.
typedef struct range {
    double low, high;
} range;
static const struct {
    range depth, column, row, log_scale, logit;
    int flat_axes;
} kinds[REFERENCE_KINDS] = {
    [REFERENCE_OPAQUE] = {.column = {0.3, 0.7}, .row = {0.3, 0.7}, .log_scale = {-1, 0.3}, .logit = {4.5, 9}},
    [REFERENCE_CLAMPED] = {.log_scale = {0, 1}},
    [REFERENCE_NEEDLE] = {.log_scale = {-0.5, 1}, .flat_axes = 2},
    [REFERENCE_FLAT] = {.flat_axes = 1},
    [REFERENCE_HUGE] = {.depth = {5, 9}, .log_scale = {0.5, 2}},
    [REFERENCE_TINY] = {.log_scale = {-9, -6}},
    [REFERENCE_CLOSE] = {.depth = {0.25, 0.6}, .log_scale = {-4, -2}},
    [REFERENCE_FAINT] = {.logit = {-5.3, -4.5}},
    [REFERENCE_TRANSPARENT] = {.logit = {-8, -5.6}},
    [REFERENCE_BEHIND] = {.depth = {-2, 0.19}},
    [REFERENCE_OFF_SCREEN] = {.column = {2, 4}},
};

static void draw(uint64_t *state, range of, double *value) {
    if (of.low != 0 || of.high != 0) *value = uniform(state, of.low, of.high);
}

// Beside the image on one side or the other.
static double beside(uint64_t *state) {
    return next(state) % 2 ? uniform(state, 1.2, 1.5) : uniform(state, -0.5, -0.2);
}

static void random_gaussian(uint64_t *state, const reference_camera *camera,
                            const reference_gaussians *gaussians, int64_t i) {
    const reference_kind kind = reference_kind_of(i);
    // The camera's frame: depth, and pixel in widths and heights of the image. A log-scale of -3 .. -0.7 at
    // depth 4 is about 1% to 10% of the image's width.
    double depth = uniform(state, 2, 6), column = uniform(state, 0, 1), row = uniform(state, 0, 1);
    double logit = uniform(state, -2, 4);
    const range usual = {-3, -0.7}, own = kinds[kind].log_scale;
    const range log_scale = own.low != 0 || own.high != 0 ? own : usual;
    draw(state, kinds[kind].depth, &depth);
    draw(state, kinds[kind].column, &column);
    draw(state, kinds[kind].row, &row);
    draw(state, kinds[kind].logit, &logit);
    if (kind == REFERENCE_CLAMPED) {
        column = beside(state);
        if (next(state) % 2) row = beside(state);
    }
    // A fisheye looks backwards as well.
    if (kind == REFERENCE_BEHIND && camera->model == GS_FISHEYE && depth < 0) depth *= -0.09;

    double from_camera[3];
    direction_at(camera, column, row, from_camera);
    for (int r = 0; r < 3; r++) {
        from_camera[r] *= camera->model == GS_ORTHO && r < 2 ? 1 : depth;
        from_camera[r] -= camera->translation[r];
    }
    for (int c = 0; c < 3; c++) {
        double mean = 0;
        for (int r = 0; r < 3; r++) mean += camera->rotation[3 * r + c] * from_camera[r];
        gaussians->mean[3 * i + c] = as_float(mean);
        gaussians->log_scale[3 * i + c] =
            c < kinds[kind].flat_axes ? -12 : uniform(state, log_scale.low, log_scale.high);
    }
    double q[4];
    random_quaternion(state, q);
    const double length = kind == REFERENCE_ZERO_QUATERNION ? 0 : uniform(state, 0.3, 3);
    for (int k = 0; k < 4; k++) gaussians->quaternion[4 * i + k] = as_float(length * q[k]);
    gaussians->opacity_logit[i] = logit;
    const int stored = 3 * (gaussians->sh_degree + 1) * (gaussians->sh_degree + 1);
    for (int k = 0; k < stored; k++)
        gaussians->sh[stored * i + k] = k < 3 ? uniform(state, -3, 3) : uniform(state, -0.5, 0.5);
}

reference_scene reference_scene_seen_by(int model, uint64_t seed, int64_t count, int sh_degree, int width,
                                        int height) {
    uint64_t state = seed;
    reference_scene scene = {.gaussians = reference_gaussians_create(count, sh_degree),
                             .camera = random_camera(&state, width, height),
                             .target = allocate(3 * (int64_t)width * height, 1)};
    if (model == GS_FISHEYE) make_fisheye(&state, &scene.camera);
    if (model == GS_ORTHO) { // what a pinhole sees at depth 4
        scene.camera.model = model;
        scene.camera.fx /= 4, scene.camera.fy /= 4;
    }
    for (int c = 0; c < 3; c++) scene.background[c] = uniform(&state, 0.1, 0.9);
    for (int64_t i = 0; i < count; i++) random_gaussian(&state, &scene.camera, &scene.gaussians, i);

    // Blocks of 4 by 4 pixels, and a little noise on them.
    const int blocks = width / 4 + 1;
    uint8_t *block = allocate(3 * (int64_t)blocks * (height / 4 + 1), 1);
    for (int64_t k = 0; k < 3 * (int64_t)blocks * (height / 4 + 1); k++)
        block[k] = (uint8_t)(next(&state) % 240);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                scene.target[3 * ((int64_t)y * width + x) + c] =
                    (uint8_t)(block[3 * ((int64_t)(y / 4) * blocks + x / 4) + c] + next(&state) % 16);
    free(block);
    return scene;
}

reference_scene reference_scene_create(uint64_t seed, int64_t count, int sh_degree, int width, int height) {
    return reference_scene_seen_by(GS_PINHOLE, seed, count, sh_degree, width, height);
}

void reference_scene_precompute(reference_scene *scene, int color, int covariance) {
    reference_gaussians *g = &scene->gaussians;
    reference_gaussians plain = *g;
    const int64_t count = g->count;
    reference_gaussians given = reference_gaussians_create(count, g->sh_degree);
    given.scale_modifier = g->scale_modifier;
    given.antialias = g->antialias;
    reference_gaussians_extend(&given, color, covariance);
    memcpy(given.mean, plain.mean, (size_t)reference_gaussians_values(&plain) * sizeof(double));
    // Colours without the cut: held decisions that say every channel is above it.
    const reference_splat_decisions uncut = {.visible = 1, .color_positive = {1, 1, 1}};
    for (int64_t i = 0; i < count; i++) {
        reference_splat splat;
        reference_project(&plain, i, plain.sh_degree, &scene->camera, &uncut, &splat);
        for (int c = 0; color && c < 3; c++) given.color[3 * i + c] = as_float(splat.color[c]);
        double upper[6];
        reference_covariance(&plain, i, upper);
        for (int k = 0; covariance && k < 6; k++) given.covariance[6 * i + k] = as_float(upper[k]);
    }
    reference_gaussians_destroy(g);
    *g = given;
}

void reference_scene_destroy(reference_scene *scene) {
    reference_gaussians_destroy(&scene->gaussians);
    free(scene->target);
    *scene = (reference_scene){0};
}
