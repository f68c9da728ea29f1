// SPDX-License-Identifier: MIT
// The built-in scene: a striped knot around a mirror ball on a tiled plate, under a cage of wires with beads
// and among blades of grass. Thin structures, textures, and colours that depend on where they are seen from.
#ifndef SPLAT_DEMO_SCENE_H
#define SPLAT_DEMO_SCENE_H

#include "fault.h"
#include "gs.h"

enum { DEMO_VIEWS = 8 };

#define DEMO_CAMERA_DISTANCE 4.4 // of a camera from where it looks: all of the scene, upright along +z,
#define DEMO_VIEW_ANGLE 0.69     // is in a picture with this field of view, in radians

extern const double demo_center[3]; // where to look
extern const float demo_background[3];

gs_camera demo_camera(int view, int width, int height); // in a ring; view: 0..DEMO_VIEWS - 1
// About `about` (>= 1000) Gaussians of SH degree 3 (within a tenth from 10,000 on, at most 1.5 times as many
// for few), in host memory; freed by gaussians_free. seed: of the grass.
bool demo_scene(int64_t about, uint64_t seed, gs_gaussians *out, fault *why);
// Spoils it: means, sizes and orientations jittered, colours nearly lost, view dependence gone.
void demo_disturb(const gs_gaussians *scene, uint64_t seed);

#endif
