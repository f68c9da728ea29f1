// SPDX-License-Identifier: MIT
// Refines the poses of the training views with the scene: Adam on a twist for each view.
#pragma once

#include "poses/pose_metric.h"
#include "frames/pose.h"
#include "frames/target_view.h"
#include <stdint.h>

C_LINKAGE_BEGIN

// A twist is L^-T y: see pose_metric. Adam steps y with one second moment for its six numbers, so the direction
// stays that of the gradient by y: a number that the picture hardly decides hardly moves.
typedef struct refined_pose {
    pose now;
    double metric[POSE_METRIC_VALUES]; // L
    double first_moment[6], second_moment;
} refined_pose;

// The poses of the views, moments 0. refined_poses_measure must follow.
void refined_poses_start(refined_pose *poses, const target_view *views, size_t count);
// Writes the metrics. points: where the scene is. Of the views only cameras are read.
void refined_poses_measure(refined_pose *poses, const target_view *views, size_t count,
                           const weighted_points *points);
// One step of Adam on the pose of a view, its step-th: 1, 2, ... rate: pixels. Scene and poses may move
// together by a similarity, which no picture shows. Poses are not held against it: the scene holds them where
// it starts, and a mean of perturbed poses that was held would drag the scene along.
void refined_pose_step(refined_pose *p, const float twist_gradient[6], double rate, int64_t step);

// Turns each camera about its centre by an angle, and moves it by a distance: both in random directions, of
// the seed and the view's place.
void perturb_poses(target_view *views, size_t count, double degrees, double distance, uint64_t seed);

C_LINKAGE_END
