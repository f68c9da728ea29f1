// SPDX-License-Identifier: MIT
// The generated data sets: a knot of beads over a floor of beads, seen from cameras around it.
#pragma once

#include "sphere_memory.h"

C_LINKAGE_BEGIN

typedef enum data_set {
    DATA_SMALL, // 302 spheres
    DATA_LARGE, // 60,800: the knot's surface and the floor in small ones
    DATA_SETS
} data_set;

enum { SCENE_VIEWS = 8 };

// For OPTION_CHOICE, NULL-ended, in the order of data_set.
extern const char *const data_set_names[DATA_SETS + 1];

// Into host memory, to close with sphere_set_close. Channels 0..2 are red, green and blue; the others vary
// with the position.
bool scene_generate(data_set which, int channels, sphere_set *out, fault *why);
// The start of training: disturbed centres and radii, gray features, opacity one half.
void scene_disturb(sphere_set *host, uint64_t seed);
pinhole_camera scene_camera(int view, int width, int height); // 0 <= view < SCENE_VIEWS
sphere_blend scene_blend(int kept);

C_LINKAGE_END
