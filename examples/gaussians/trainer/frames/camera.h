// SPDX-License-Identifier: MIT
// The direction of a camera, what it sees, and what the cameras of all views say of the scene.
#pragma once

#include "lenses.h"
#include "target_view.h"

C_LINKAGE_BEGIN

// A camera with a vertical field of view in radians, the principal point in the middle, near plane 0.2, no
// pose.
gs_camera camera_with_view_angle(int width, int height, double angle);
// A point of the world in camera space.
void camera_inside(const gs_camera *camera, const double point[3], double inside[3]);
// Where the camera sees a point of camera space, in pixels. False as below.
bool camera_project(const gs_camera *camera, const double inside[3], double pixel[2]);
// Where the camera sees a point of the world, in pixels. False if it is culled (gs_camera) or outside the
// picture.
bool camera_pixel(const gs_camera *camera, const double point[3], double pixel[2]);
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

C_LINKAGE_END
