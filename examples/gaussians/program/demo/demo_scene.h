// SPDX-License-Identifier: MIT
// The built-in scene: a striped knot around a mirror ball on a tiled plate, under a cage of wires with
// beads and among blades of grass. It has thin structures, textures, and colours that depend on the viewing
// direction.
#pragma once

#include "files/fault.h"
#include "distwar_gs.h"

// A camera at this distance from demo_center, with this field of view in radians, sees the whole scene. Up is +z.
#define DEMO_CAMERA_DISTANCE 4.4
#define DEMO_VIEW_ANGLE 0.69

extern const double demo_center[3]; // where to look

// Makes the scene with approximately `about` (>= 1000) Gaussians of SH degree 3: within 10 % from 10,000
// on, at most 1.5 times as many below. Host memory, closed by scene_close. seed: of the grass.
bool demo_scene_open(int64_t about, uint64_t seed, gs_gaussians *out, fault *why);
