// SPDX-License-Identifier: MIT
// Covers surfaces and strands with Gaussians, coloured from every direction by a function.
#ifndef SPLAT_SCENE_BUILDER_H
#define SPLAT_SCENE_BUILDER_H

#include "fault.h"
#include "gs.h"
#include <stddef.h>

// A place on a surface or a strand.
typedef struct scene_place {
    double u, v; // as the shape's function had them; v is 0 on a strand
    double position[3];
    double tangent[3]; // along u, of length 1
    double normal[3];  // of a strand: 0
} scene_place;

// u and v run from 0 to 1; what comes back is a position. context: here and below, what the caller of
// scene_add_* gave.
typedef void (*scene_shape)(double u, double v, const void *context, double position[3]);
// A place's colour: one for all directions, and what is added along `view`, of length 1, from the eye. The
// latter should be smooth, as only SH degrees up to 3 of it remain.
typedef struct scene_material {
    void (*matt)(const scene_place *place, const void *context, double color[3]);
    void (*gleam)(const scene_place *place, const double view[3], const void *context,
                  double added[3]); // or NULL
} scene_material;

typedef struct scene_builder {
    double spacing; // of neighbours, in units of the world
    size_t count, room;
    struct scene_gaussian *gaussians;
    bool full; // memory ran out; what came after was left out
} scene_builder;

// Flat Gaussians at the spacing, u along, v across; the normal is that of u x v.
void scene_add_surface(scene_builder *builder, scene_shape shape, const scene_material *material,
                       const void *context);
// Long Gaussians along u, of a radius (a standard deviation) that goes from one end's to the other's.
void scene_add_strand(scene_builder *builder, scene_shape shape, const double radius[2],
                      const scene_material *material, const void *context);
// Hands over everything, as SH of degree 3 in host memory; freed by scene_close. Frees the builder, also
// on failure.
bool scene_finish(scene_builder *builder, gs_gaussians *out, fault *why);

#endif
