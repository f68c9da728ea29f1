// SPDX-License-Identifier: MIT
// Covers surfaces and strands with Gaussians whose colour is a function of place and direction.
#pragma once

#include "files/fault.h"
#include "distwar_gs.h"
#include <stddef.h>

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
    void (*matt)(const scene_place *place, double color[3]);
    void (*gleam)(const scene_place *place, const double view[3], double added[3]); // or NULL
} scene_material;

typedef struct scene_builder {
    double spacing; // of neighbours, in world units
    size_t count, room;
    struct scene_gaussian *gaussians;
    bool full; // memory ran out; later Gaussians are left out
} scene_builder;

// Adds flat Gaussians at the spacing, u along, v across. The normal is u x v.
void scene_add_surface(scene_builder *builder, scene_shape shape, const scene_material *material,
                       const void *context);
// Adds long Gaussians along u. radius: standard deviations at both ends, interpolated between.
void scene_add_strand(scene_builder *builder, scene_shape shape, const double radius[2],
                      const scene_material *material, const void *context);
// Moves all Gaussians to a scene of SH degree 3 (scene_close closes it) and closes the builder, also on
// failure.
bool scene_builder_finish(scene_builder *builder, gs_gaussians *out, fault *why);
