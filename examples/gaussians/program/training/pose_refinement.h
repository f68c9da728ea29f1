// SPDX-License-Identifier: MIT
// Refines the poses of the training views with the scene: Adam on a twist for each view.
#ifndef SPLAT_POSE_REFINEMENT_H
#define SPLAT_POSE_REFINEMENT_H

#include "view/pose.h"
#include "view/target_view.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct refined_pose {
    pose now;
    double first_moment[6], second_moment[6]; // of Adam, by the twist
} refined_pose;

typedef struct pose_rates {
    double turn, move; // radians; units of the world
} pose_rates;

// 1e-3 radians and 1e-3 extents at the first step, a hundredth at the last, exponential between (BARF, Lin et
// al. 2021): a step turns the picture by about a pixel at first, by a hundredth of one at the end. progress: 0
// at the first step, 1 at the last.
pose_rates pose_rates_at(double extent, double progress);

// The poses of the views, moments 0.
void refined_poses_start(refined_pose *poses, const target_view *views, size_t count);
// One step of Adam on the pose of one view, its step-th: 1, 2, ... Then all poses move as one body, so that the
// mean of the centres, their mean square distance from it and, to first order, the mean of the rotations stay: else
// scene and poses could drift together. The scene follows as it is trained.
void refined_poses_step(refined_pose *poses, size_t count, size_t view, const float twist_gradient[6],
                        const pose_rates *rates, int64_t step);

// Turns each camera about its centre by an angle, and moves it by a distance: both in random directions, of
// the seed and the view's place.
void perturb_poses(target_view *views, size_t count, double degrees, double distance, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
