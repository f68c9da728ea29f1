// SPDX-License-Identifier: MIT
#include "demo/demo_scene.h"
#include "gpu/vector.h"
#include "random.h"
#include "scene.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { DEGREE = GS_MAX_SH_DEGREE, BASES = SCENE_SH_COEFFICIENTS, DIRECTIONS = 256 };

// ---- surfaces and strands, covered with Gaussians whose colour is a function of place and direction

// A place on a surface or a strand.
typedef struct scene_place {
    const void *context; // the argument of scene_add_*
    double u, v;         // 0..1; v is 0 on a strand
    double position[3];
    double tangent[3]; // along u, of length 1
    double normal[3];  // 0 on a strand
} scene_place;

// The position of a place. Reads context, u and v.
typedef void (*scene_shape)(const scene_place *at, double position[3]);
// The colour of a place: `matt` for all directions, plus `gleam` along `view`, the direction from the eye,
// of length 1. The gleam should be smooth, as only SH degrees up to 3 of it are kept.
typedef struct scene_material {
    void (*matt)(const scene_place *place, double color[3]);                        // or NULL: black
    void (*gleam)(const scene_place *place, const double view[3], double added[3]); // or NULL
} scene_material;

typedef struct scene_builder {
    double spacing;     // of neighbours, in world units
    gs_gaussians *into; // NULL: they are only counted
    int64_t count;      // so far
} scene_builder;

// Projects the colours on the basis. The gleam is sampled in directions that cover the sphere evenly.
static void project_colors(const scene_place *place, const scene_material *material, double sh[BASES][3]) {
    const double golden = pi * (3 - sqrt(5));
    double basis[BASES], color[3] = {0};
    memset(sh, 0, sizeof(double[BASES][3]));
    if (material->matt) material->matt(place, color);
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

// x, y: two orthonormal axes; the third is their cross product.
static void add(scene_builder *builder, const scene_place *place, const double x[3], const double y[3],
                const double scale[3], const scene_material *material) {
    const double opacity = 0.95;
    const gs_gaussians *const out = builder->into;
    const int64_t i = builder->count++;
    double z[3], quaternion[4], sh[BASES][3];
    if (!out) return;
    cross(x, y, z);
    const double rotation[9] = {x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2]};
    quaternion_of_rotation(rotation, quaternion);
    project_colors(place, material, sh);
    for (int axis = 0; axis < 3; axis++) {
        out->mean[3 * i + axis] = (float)place->position[axis];
        out->log_scale[3 * i + axis] = (float)log(scale[axis]);
    }
    for (int k = 0; k < 4; k++) out->quaternion[4 * i + k] = (float)quaternion[k];
    for (int k = 0; k < GS_CHANNELS * BASES; k++)
        out->sh[GS_CHANNELS * BASES * i + k] = (float)sh[k / GS_CHANNELS][k % GS_CHANNELS];
    out->opacity_logit[i] = (float)log(opacity / (1 - opacity));
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

// Adds flat Gaussians at the spacing, u along, v across. The normal is u x v.
static void scene_add_surface(scene_builder *builder, scene_shape shape, const scene_material *material,
                              const void *context) {
    const double h = builder->spacing, golden = 0.6180339887498949;
    int row = 0;
    for (double u = 0; u < 1; row++) {
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

// Adds long Gaussians along u. radius: standard deviations at both ends, interpolated between.
static void scene_add_strand(scene_builder *builder, scene_shape shape, const double radius[2],
                             const scene_material *material, const void *context) {
    const double step = 2 * builder->spacing;
    for (double u = 0; u < 1;) {
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

// ---- the built-in scene

enum { WIRES = 10, RINGS = 3, BLADES = 220, SHADOWS = 160 };

static const double light[3] = {0.4243, -0.3394, 0.8396}; // direction to the light, of length 1
static const double plate_top = -0.6, plate_radius = 1.15, rim = 0.06, tube = 0.105, ball_radius = 0.27;

const double demo_center[3] = {0, 0, -0.12};

// ---- shapes

// The (2, 3) torus knot, and the tube around it.
static void knot(double t, double point[3]) {
    const double angle = 2 * pi * t, radius = 0.76 + 0.3 * cos(3 * angle);
    point[0] = radius * cos(2 * angle);
    point[1] = radius * sin(2 * angle);
    point[2] = 0.3 * sin(3 * angle);
}

static void knot_tube(const scene_place *at, double position[3]) {
    const double u = at->u, v = at->v;
    double before[3], after[3], along[3], a[3], b[3];
    knot(u, position);
    knot(u - 1e-4, before);
    knot(u + 1e-4, after);
    for (int i = 0; i < 3; i++) along[i] = after[i] - before[i];
    normalize(along);
    cross(along, (const double[3]){0, 0, 1}, a); // never parallel: the knot is nowhere steep
    normalize(a);
    cross(along, a, b);
    for (int i = 0; i < 3; i++)
        position[i] += tube * (cos(2 * pi * v) * a[i] - sin(2 * pi * v) * b[i]); // the normal points outwards
}

// A surface of revolution around the z axis. Its normal points away from the axis where z decreases with u.
static void turned(double radius, double z, double v, double position[3]) {
    position[0] = radius * cos(2 * pi * v);
    position[1] = radius * sin(2 * pi * v);
    position[2] = z;
}

static void plate(const scene_place *at, double position[3]) {
    const double u = at->u, v = at->v;
    if (u < 0.45 || u > 0.55) {
        const bool top = u < 0.5;
        turned(plate_radius * (top ? u : 1 - u) / 0.45, top ? plate_top : plate_top - 2 * rim, v, position);
    } else {
        const double angle = pi * (u - 0.45) / 0.1;
        turned(plate_radius + rim * sin(angle), plate_top - rim + rim * cos(angle), v, position);
    }
}

static void foot(const scene_place *at, double position[3]) {
    const double u = at->u;
    turned(0.05 + 0.13 * pow(u, 4) + 0.05 * pow(1 - u, 4), -0.22 + (plate_top + 0.22) * u, at->v, position);
}

typedef struct ball {
    double center[3], radius;
    double color[3];
} ball;

static void ball_surface(const scene_place *at, double position[3]) {
    const ball *b = at->context;
    turned(b->radius * sin(pi * at->u), b->radius * cos(pi * at->u), at->v, position);
    for (int i = 0; i < 3; i++) position[i] += b->center[i];
}

// A curve from the plate's edge over the top to the other side. height: 0 at the ends.
static void dome(double t, double around, double position[3]) {
    turned(1.08 * cos(pi * t), plate_top + 1.55 * sin(pi * t), around / (2 * pi), position);
}

static void wire(const scene_place *at, double position[3]) {
    dome(at->u, *(const double *)at->context, position);
}

static void ring(const scene_place *at, double position[3]) {
    dome(*(const double *)at->context, 2 * pi * at->u, position);
}

typedef struct blade {
    double root[3], lean[3], height;
} blade;

static void blade_line(const scene_place *at, double position[3]) {
    const blade *b = at->context;
    const double u = at->u;
    for (int i = 0; i < 3; i++) position[i] = b->root[i] + u * u * b->lean[i] + (i == 2) * u * b->height;
}

// ---- materials

// Smooth, in -1..1, without a visible period.
static double cloud(const double p[3], double frequency) {
    const double x = frequency * p[0], y = frequency * p[1], z = frequency * p[2];
    return (sin(1.7 * x + 2.3 * sin(0.9 * y + 0.4)) + sin(2.1 * y + 1.9 * sin(1.1 * z + 1.3)) +
            sin(1.9 * z + 2.1 * sin(0.8 * x + 2.2))) /
           3;
}

// 0 below the first edge, 1 above the second.
static double step_between(double low, double high, double x) {
    const double t = fmin(fmax((x - low) / (high - low), 0), 1);
    return t * t * (3 - 2 * t);
}

static void blend(const double a[3], const double b[3], double t, double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = a[i] + t * (b[i] - a[i]);
}

// 1 in the light, less in the shadow of the knot or the mirror ball.
static double lit(const double p[3]) {
    double clear = 1;
    for (int i = 0; i <= SHADOWS; i++) {
        double to[3] = {0}, across[3], radius = i < SHADOWS ? tube : ball_radius;
        if (i < SHADOWS) knot((double)i / SHADOWS, to);
        for (int axis = 0; axis < 3; axis++) to[axis] -= p[axis];
        cross(to, light, across);
        if (dot(to, light) > 1.5 * radius)
            clear = fmin(clear, step_between(0.7 * radius, 1.4 * radius, sqrt(dot(across, across))));
    }
    return clear;
}

// What a mirror shows of its surroundings: the sky, the ground and the sun.
static void reflect(const scene_place *place, const double view[3], double color[3]) {
    double mirrored[3];
    const double turn = 2 * dot(view, place->normal);
    for (int i = 0; i < 3; i++) mirrored[i] = view[i] - turn * place->normal[i];
    const double sky[3] = {0.35, 0.55, 0.95}, horizon[3] = {1.0, 0.93, 0.8}, ground[3] = {0.3, 0.2, 0.14};
    blend(horizon, mirrored[2] > 0 ? sky : ground, step_between(0, 0.7, fabs(mirrored[2])), color);
    const double sun = 0.8 * step_between(0.6, 1, dot(mirrored, light));
    for (int i = 0; i < 3; i++) color[i] += sun;
}

// Lights a matt colour.
static void light_up(const scene_place *place, double clear, double color[3]) {
    const double facing = fmax(0, dot(place->normal, light)) * clear;
    for (int i = 0; i < 3; i++) color[i] *= 0.35 + 0.1 * place->normal[2] + 0.6 * facing;
}

static void varnish(const scene_place *place, const double view[3], double added[3]) {
    reflect(place, view, added);
    for (int i = 0; i < 3; i++) added[i] = 0.28 * (added[i] - 0.4);
}

static void knot_colors(const scene_place *place, double color[3]) {
    const double cream[3] = {0.97, 0.93, 0.84};
    for (int i = 0; i < 3; i++) color[i] = 0.55 + 0.45 * cos(2 * pi * (place->u + i / 3.0));
    const double stripe = sin(2 * pi * (2 * place->v + 36 * place->u)) - 0.55;
    blend(color, cream, step_between(-0.15, 0.15, stripe), color);
    light_up(place, 1, color);
}

static void plate_colors(const scene_place *place, double color[3]) {
    const double *p = place->position, radius = hypot(p[0], p[1]) / plate_radius;
    const double dark[3] = {0.10, 0.16, 0.25}, pale[3] = {0.92, 0.87, 0.76}, wood[3] = {0.55, 0.32, 0.16};
    const double tiles = sin(24 * atan2(p[1], p[0])) * sin(8 * pi * radius);
    blend(dark, pale, step_between(-0.25, 0.25, tiles), color);
    blend(color, wood, step_between(0.92, 0.95, radius), color);
    const double grain = 1 + 0.18 * cloud(p, 9) + 0.08 * cloud(p, 31);
    for (int i = 0; i < 3; i++) color[i] *= grain;
    light_up(place, lit(p), color);
}

static void bead_colors(const scene_place *place, double color[3]) {
    memcpy(color, ((const ball *)place->context)->color, 3 * sizeof *color);
    light_up(place, 1, color);
}

// Lights a thin cylinder, by its side that faces the light.
static void light_up_strand(const scene_place *place, double color[3]) {
    const double along = dot(place->tangent, light);
    for (int i = 0; i < 3; i++) color[i] *= 0.35 + 0.65 * sqrt(fmax(0, 1 - along * along));
}

static void wire_colors(const scene_place *place, double color[3]) {
    memcpy(color, (const double[3]){0.75, 0.56, 0.28}, 3 * sizeof *color);
    light_up_strand(place, color);
}

static void glint(const scene_place *place, const double view[3], double added[3]) {
    // 0: mirrors the light towards the eye
    const double off = dot(place->tangent, light) - dot(place->tangent, view);
    for (int i = 0; i < 3; i++) added[i] = 0.3 * exp(-6 * off * off);
}

static void blade_colors(const scene_place *place, double color[3]) {
    const blade *b = place->context;
    const double dry[3] = {0.8, 0.75, 0.3}, fresh[3] = {0.16, 0.5, 0.14};
    blend(fresh, dry, 0.5 + 0.5 * sin(40 * b->root[0] + 30 * b->root[1]), color);
    for (int i = 0; i < 3; i++) color[i] *= 0.4 + 0.6 * place->u;
    light_up_strand(place, color);
}

static const scene_material lacquer = {knot_colors, varnish}, stone = {plate_colors, NULL},
                            silver = {NULL, reflect}, glass = {bead_colors, varnish},
                            brass = {wire_colors, glint}, grass = {blade_colors, NULL};

// ---- the scene

static void add_cage(scene_builder *builder) {
    const double radius[2] = {0.006, 0.006};
    for (int i = 0; i < WIRES; i++) {
        const double around = pi * (i + 0.5) / WIRES;
        scene_add_strand(builder, wire, radius, &brass, &around);
    }
    for (int r = 1; r <= RINGS; r++) {
        const double t = 0.5 * r / (RINGS + 1);
        scene_add_strand(builder, ring, radius, &brass, &t);
        for (int i = 0; i < 2 * WIRES; i++) {
            const double hue = (i + 0.37 * r) / (2.0 * WIRES);
            ball bead = {.radius = 0.03};
            dome(t, pi * (i + 0.5) / WIRES, bead.center);
            for (int c = 0; c < 3; c++) bead.color[c] = 0.5 + 0.5 * cos(2 * pi * (hue + c / 3.0));
            scene_add_surface(builder, ball_surface, &glass, &bead);
        }
    }
}

static void add_grass(scene_builder *builder, uint64_t seed) {
    random_stream random = {seed};
    for (int i = 0; i < BLADES; i++) {
        const double around = 2 * pi * random_unit(&random), radius = 0.78 + 0.2 * random_unit(&random);
        const blade b = {.root = {radius * cos(around), radius * sin(around), plate_top},
                         .lean = {0.12 * random_normal(&random), 0.12 * random_normal(&random), -0.05},
                         .height = 0.15 + 0.2 * random_unit(&random)};
        scene_add_strand(builder, blade_line, (const double[2]){0.008, 0.001}, &grass, &b);
    }
}

bool demo_scene_open(int64_t about, uint64_t seed, gs_gaussians *out, fault *why) {
    const double area = 18.4, strands = 14; // the number of Gaussians is area / h^2 + strands / h
    const double n = (double)about, h = (strands + sqrt(strands * strands + 4 * n * area)) / (2 * n);
    const ball mirror = {.radius = ball_radius};
    int64_t count = 0;
    for (int pass = 0; pass < 2; pass++) { // counts them, then fills the scene
        scene_builder builder = {.spacing = h, .into = pass > 0 ? out : NULL};
        if (pass > 0 && !scene_open(out, count, DEGREE, why)) return false;
        scene_add_surface(&builder, knot_tube, &lacquer, NULL);
        scene_add_surface(&builder, ball_surface, &silver, &mirror);
        scene_add_surface(&builder, foot, &stone, NULL);
        scene_add_surface(&builder, plate, &stone, NULL);
        add_cage(&builder);
        add_grass(&builder, seed);
        count = builder.count;
    }
    return true;
}
