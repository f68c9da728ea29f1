// SPDX-License-Identifier: MIT
#pragma once

#include "lenses.h"
#include "scene.h"
#include "views.h"

C_LINKAGE_BEGIN

// ---- what a camera sees, and what the cameras of all views say of the scene

// A camera with a vertical field of view in radians, the principal point in the middle, near plane 0.2, no pose.
gs_camera camera_with_view_angle(int width, int height, double angle);
// Where the camera sees a point of the world, in pixels. False if it is culled (gs_camera) or outside the picture.
bool camera_pixel(const gs_camera *camera, const double point[3], double pixel[2]);
// A point of the world in camera space.
void camera_inside(const gs_camera *camera, const double point[3], double inside[3]);
// The camera z of a point of the world; of a fisheye the distance.
double camera_depth(const gs_camera *camera, const double point[3]);
// The point of the world that is seen at a place of the picture, in pixels, at that camera z; by a fisheye at
// that distance.
void camera_point_at(const gs_camera *camera, const double pixel[2], double depth, double point[3]);
// Sets the pose: at `eye`, looking at `target` (another point), with `up` (not parallel to the view) upwards.
void camera_look_at(gs_camera *camera, const double eye[3], const double target[3], const double up[3]);

// The next two calls read only the views' cameras; count >= 1.

// The size of the scene in world units: 1.1 times the largest distance of a camera from the mean of the
// cameras. 1 if all cameras are in one place. The learning rate of means is proportional to it.
double scene_extent(const target_view *views, size_t count);

// The point nearest to the optical axes of all cameras (least squares). A weak term pulls it towards the
// points 5 scene extents in front of the cameras; it decides where the axes are parallel.
void camera_focus(const target_view *views, size_t count, double focus[3]);

// ---- poses of cameras in double precision: motions, and the similarity between two sets of poses

typedef struct pose {
    double rotation[9], translation[3]; // world to camera, as in gs_camera
} pose;

pose pose_of(const gs_camera *camera);
void pose_to_camera(const pose *from, gs_camera *camera);
void pose_center(const pose *p, double center[3]); // the camera's position in the world
// x' -> exp([w]) x' + v of camera space: the motion (w, v) that gs_camera_gradient.se3_grad is by.
void pose_move(pose *p, const double motion[6]);

// The rotation about a vector of length one, by an angle in radians: Rodrigues' formula.
void rotation_about(const double axis[3], double angle, double out[9]);

// Similarities move the world: x -> scale rotation x + translation.

// The camera as it is in the moved world: it sees the same picture. Depths are multiplied by the scale.
void similarity_apply(const similarity *s, pose *p);
// Takes the world of the poses `from` to that of `to`. The rotation is the mean of those that take a camera
// to its counterpart, scale and translation are of least squares between the centres. Scale 1 if all centres
// of `from` or `to` are in one place. count >= 1.
similarity similarity_between(const pose *from, const pose *to, size_t count);

// How far poses are from others, after their similarity: angles, distances of centres in units of the world of `to`.
typedef struct pose_difference {
    double mean_degrees, largest_degrees, mean_distance, largest_distance;
} pose_difference;

pose_difference pose_difference_between(const pose *from, const pose *to, size_t count); // count >= 1

// ---- how a small motion of a camera moves what it sees: the measure of a step of its pose

enum { POSE_METRIC_VALUES = 21 };

// Points of the world, each with a weight >= 0.
typedef struct weighted_points {
    size_t count;
    const float (*points)[3];
    const float *weights; // NULL: all 1
} weighted_points;

// What is known of the scene and its poses beforehand.
typedef struct pose_scale {
    double focus[3];          // a point of the world that the cameras look at
    double radians, distance; // by which poses are expected to be wrong
} pose_scale;

// L, lower triangle, row by row, of the factorisation H = L L^T. H is the weighted mean over the points that the camera
// sees of J^T J, J the derivative of a point's pixel by the camera's motion (pose_move), plus a diagonal of
// (0.3 pixels / expected error)^2. So a step L^-T y moves points by up to |y| pixels, root mean square, and turns and
// moves the camera by up to |y| / 0.3 expected errors: little moves at a size where pictures say less than is known.
// Points nearer than a sixteenth of the focus are left out; of many a part is used.
void pose_metric(const gs_camera *camera, const weighted_points *points, const pose_scale *scale,
                 double factor[POSE_METRIC_VALUES]);

// Solve L x = b and L^T x = b in place.
void pose_metric_solve(const double factor[POSE_METRIC_VALUES], double x[6]);
void pose_metric_solve_transposed(const double factor[POSE_METRIC_VALUES], double x[6]);

// ---- refines the poses of the training views with the scene: Adam on a motion for each view

// A motion is L^-T y: see pose_metric. Adam steps y with one second moment for its six numbers, so the direction
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
void refined_pose_step(refined_pose *p, const float se3_grad[6], double rate, int64_t step);

// Turns each camera about its centre by an angle, and moves it by a distance: both in random directions, of
// the seed and the view's place.
void perturb_poses(target_view *views, size_t count, double degrees, double distance, uint64_t seed);

C_LINKAGE_END
