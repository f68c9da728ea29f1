// SPDX-License-Identifier: MIT
// Scenes to measure on, made from a trained one; the same on every machine for the same seed.
#ifndef BENCHMARKS_SCENES_H
#define BENCHMARKS_SCENES_H

#include "files/fault.h"
#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// Many small ones: `count` copies at a third of the size, each moved along its axes by the size it had times
// normal random numbers. All Gaussians are copied equally often, give or take one; which are copied once more
// (or at all, if count is smaller than theirs) is drawn.
bool scene_of_many(const gs_gaussians *from, int64_t count, uint64_t seed, gs_gaussians *out, fault *why);

// Few huge ones: `count` drawn copies, round, of standard deviation 0.4 times the distance from the camera,
// and of opacity 0.12, so that in front of it each reaches over a quarter of its picture.
bool scene_of_huge(const gs_gaussians *from, int64_t count, const gs_camera *camera, uint64_t seed,
                   gs_gaussians *out, fault *why);

// `from` with SH of degree 3, whose new coefficients are 0: the same picture at the cost of any
// scene of that degree.
bool scene_of_degree_3(const gs_gaussians *from, gs_gaussians *out, fault *why);

#ifdef __cplusplus
}
#endif
#endif
