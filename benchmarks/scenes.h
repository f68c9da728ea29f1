// SPDX-License-Identifier: MIT
// Scenes to measure on, made from a trained one; the same on every machine for the same seed.
#pragma once

#include "files/fault.h"
#include "distwar_gs.h"

C_LINKAGE_BEGIN

typedef enum scene_kind {
    // Many small ones: `count` copies at a third of the size, each moved along its axes by normal random numbers times
    // the original's size. All Gaussians are copied equally often; the rest of the division of count by their number is
    // drawn.
    SCENE_MANY,
    // Few huge ones: `count` drawn copies, round, of standard deviation 0.4 times the distance from the camera, and of
    // opacity 0.12, so that in front of it each reaches over a quarter of its picture.
    SCENE_HUGE,
    // The same `count` with SH of degree 3, whose new coefficients are 0: the same picture at the cost of any scene of
    // that degree.
    SCENE_SH3
} scene_kind;

// camera: of huge ones.
bool scene_to_measure(scene_kind kind, const gs_gaussians *from, int64_t count, const gs_camera *camera,
                      uint64_t seed, gs_gaussians *out, fault *why);

C_LINKAGE_END
