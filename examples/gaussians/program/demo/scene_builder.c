// SPDX-License-Identifier: MIT
#include "demo/scene_builder.h"
#include "gpu/growing.h"
#include "scene.h"
#include "gpu/vector.h"
#include <math.h>
#include <string.h>

enum { DEGREE = GS_MAX_SH_DEGREE, BASES = SCENE_SH_COEFFICIENTS, DIRECTIONS = 256 };

typedef struct scene_gaussian {
    double mean[3], scale[3], quaternion[4], sh[BASES][3];
} scene_gaussian;

// Projects the colours on the basis. The gleam is sampled in directions that cover the sphere evenly.
static void project_colors(const scene_place *place, const scene_material *material, double sh[BASES][3]) {
    const double golden = pi * (3 - sqrt(5));
    double basis[BASES], color[3];
    memset(sh, 0, sizeof(double[BASES][3]));
    material->matt(place, color);
    for (int channel = 0; channel < GS_CHANNELS; channel++)
        sh[0][channel] = scene_sh_constant(color[channel]);
    for (int i = 0; material->gleam && i < DIRECTIONS; i++) {
        const double z = 1 - (2 * i + 1) / (double)DIRECTIONS, across = sqrt(1 - z * z);
        const double direction[3] = {across * cos(golden * i), across * sin(golden * i), z};
        scene_sh_basis(direction, basis);
        material->gleam(place, direction, color);
        for (int k = 0; k < BASES; k++)
            for (int channel = 0; channel < GS_CHANNELS; channel++)
                sh[k][channel] += 4 * pi / DIRECTIONS * basis[k] * color[channel];
    }
}

// The quaternion of the rotation whose columns are three orthonormal axes.
static void quaternion_from_axes(const double x[3], const double y[3], const double z[3], double out[4]) {
    const double squares[4] = {1 + x[0] + y[1] + z[2], 1 + x[0] - y[1] - z[2], 1 - x[0] + y[1] - z[2],
                               1 - x[0] - y[1] + z[2]}; // 4 times those of w, x, y, z
    const double products[4][4] = {{squares[0], y[2] - z[1], z[0] - x[2], x[1] - y[0]},
                                   {y[2] - z[1], squares[1], x[1] + y[0], x[2] + z[0]},
                                   {z[0] - x[2], x[1] + y[0], squares[2], y[2] + z[1]},
                                   {x[1] - y[0], x[2] + z[0], y[2] + z[1], squares[3]}};
    int largest = 0;
    for (int k = 1; k < 4; k++)
        if (squares[k] > squares[largest]) largest = k;
    for (int k = 0; k < 4; k++) out[k] = products[largest][k] / (2 * sqrt(squares[largest]));
}

// x, y: two orthonormal axes; the third is their cross product.
static void add(scene_builder *builder, const scene_place *place, const double x[3], const double y[3],
                const double scale[3], const scene_material *material) {
    scene_gaussian g;
    double z[3];
    cross(x, y, z);
    quaternion_from_axes(x, y, z, g.quaternion);
    memcpy(g.mean, place->position, sizeof g.mean);
    memcpy(g.scale, scale, sizeof g.scale);
    project_colors(place, material, g.sh);
    builder->full =
        builder->full || !append(&builder->gaussians, &builder->count, &builder->room, &g, sizeof g);
}

// out: the derivative of the shape by u or v. Returns its length.
static double velocity(scene_shape shape, scene_place at, bool along_u, double out[3]) {
    const double step = 1e-4;
    double before[3], after[3], *const moving = along_u ? &at.u : &at.v, here = *moving;
    *moving = here - step;
    shape(&at, before);
    *moving = here + step;
    shape(&at, after);
    for (int i = 0; i < 3; i++) out[i] = (after[i] - before[i]) / (2 * step);
    return sqrt(dot(out, out));
}

static double length_across(scene_shape shape, scene_place at) {
    enum { SAMPLES = 16 };
    double sum = 0, unused[3];
    for (int i = 0; i < SAMPLES; i++) {
        at.v = (i + 0.5) / SAMPLES;
        sum += velocity(shape, at, false, unused) / SAMPLES;
    }
    return sum;
}

void scene_add_surface(scene_builder *builder, scene_shape shape, const scene_material *material,
                       const void *context) {
    const double h = builder->spacing, golden = 0.6180339887498949;
    int row = 0;
    for (double u = 0; u < 1 && !builder->full; row++) {
        double along[3], across[3];
        scene_place place = {.context = context, .u = u, .v = 0.5};
        const double length = fmin(h / velocity(shape, place, true, along), 1 - u);
        place.u = u + length / 2; // not an end, which may be a pole
        const double width = length_across(shape, place);
        const int columns = (int)fmax(1, round(width / h));
        for (int column = 0; column < columns; column++) {
            place.v = (column + fmod(row * golden, 1)) / columns;
            shape(&place, place.position);
            velocity(shape, place, true, along);
            velocity(shape, place, false, across);
            cross(along, across, place.normal);
            normalize(place.normal);
            normalize(along);
            cross(place.normal, along, across);
            memcpy(place.tangent, along, sizeof along);
            const double scale[3] = {0.55 * h, 0.55 * width / columns, 0.1 * h};
            add(builder, &place, along, across, scale, material);
        }
        u += length;
    }
}

void scene_add_strand(scene_builder *builder, scene_shape shape, const double radius[2],
                      const scene_material *material, const void *context) {
    const double step = 2 * builder->spacing;
    for (double u = 0; u < 1 && !builder->full;) {
        scene_place place = {.context = context, .u = u};
        double along[3], across[3];
        const double length = fmin(step / velocity(shape, place, true, along), 1 - u);
        place.u = u + length / 2;
        const double speed = velocity(shape, place, true, along);
        const double thick = radius[0] + place.u * (radius[1] - radius[0]);
        shape(&place, place.position);
        normalize(along);
        const double other[3] = {fabs(along[0]) < 0.5, fabs(along[0]) >= 0.5, 0};
        cross(along, other, across);
        normalize(across);
        memcpy(place.tangent, along, sizeof along);
        const double scale[3] = {fmax(0.5 * length * speed, thick), thick, thick};
        add(builder, &place, along, across, scale, material);
        u += length;
    }
}

bool scene_builder_finish(scene_builder *builder, gs_gaussians *out, fault *why) {
    const double opacity = 0.95;
    bool done = builder->full ? fail(why, "no memory for more than %zu Gaussians", builder->count)
                              : scene_open(out, (int64_t)builder->count, DEGREE, why);
    for (size_t i = 0; done && i < builder->count; i++) {
        const scene_gaussian *g = &builder->gaussians[i];
        for (int axis = 0; axis < 3; axis++) {
            out->mean[3 * i + axis] = (float)g->mean[axis];
            out->log_scale[3 * i + axis] = (float)log(g->scale[axis]);
        }
        for (int k = 0; k < 4; k++) out->quaternion[4 * i + k] = (float)g->quaternion[k];
        for (int k = 0; k < GS_CHANNELS * BASES; k++)
            out->sh[GS_CHANNELS * BASES * i + k] = (float)g->sh[k / GS_CHANNELS][k % GS_CHANNELS];
        out->opacity_logit[i] = (float)log(opacity / (1 - opacity));
    }
    free(builder->gaussians);
    *builder = (scene_builder){0};
    return done;
}
