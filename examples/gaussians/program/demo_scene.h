// SPDX-License-Identifier: MIT
// The built-in scene: a coloured torus knot with a sheen above a checkered floor, cameras in a ring around
// it.
#ifndef SPLAT_DEMO_SCENE_H
#define SPLAT_DEMO_SCENE_H

#include "fault.h"
#include "gs.h"

enum { DEMO_VIEWS = 8 };

extern const float demo_background[3];

gs_camera demo_camera(int view, int width, int height); // view: 0..DEMO_VIEWS - 1
// The scene as it should be, in host memory; freed by gaussians_free.
bool demo_scene(gs_gaussians *out, fault *why);
// Spoils it: means, sizes and orientations jittered, colours nearly lost, view dependence gone.
void demo_disturb(const gs_gaussians *scene, uint64_t seed);

#endif
