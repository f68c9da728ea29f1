// SPDX-License-Identifier: MIT
// Refines the poses of the training views with the scene: Adam on a twist for each view.
#pragma once

#include "view/pose.h"
#include "view/target_view.h"
#include <stdint.h>

C_LINKAGE_BEGIN

typedef struct refined_pose {
    pose now;
    double first_moment[6], second_moment[6]; // of Adam, by the motion below
} refined_pose;

// A step turns the camera about the pivot, the point of the world that all cameras look at, and moves it.
// About its own centre a turn would shift the picture nearly as a move does: Adam, which has a rate for each
// of the six numbers, does not get far along the difference of two that do the same. About the pivot a turn
// shows parallax alone.
typedef struct pose_rates {
    double
        rate; // radians of the turn; of the move in distances to the pivot: both about rate * focal length pixels
    double pivot[3];
} pose_rates;

// The poses of the views, moments 0.
void refined_poses_start(refined_pose *poses, const target_view *views, size_t count);
// One step of Adam on the pose of a view, its step-th: 1, 2, ... Scene and poses may move together by a
// similarity, which no picture shows. Poses are not held against it: the scene holds them where it starts,
// and a mean of perturbed poses that was held would drag the scene along.
void refined_pose_step(refined_pose *p, const float twist_gradient[6], const pose_rates *rates, int64_t step);

// Turns each camera about its centre by an angle, and moves it by a distance: both in random directions, of
// the seed and the view's place.
void perturb_poses(target_view *views, size_t count, double degrees, double distance, uint64_t seed);

C_LINKAGE_END
