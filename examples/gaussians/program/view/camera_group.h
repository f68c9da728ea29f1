// SPDX-License-Identifier: MIT
// Properties of the cameras of all views: the size of the scene, and the point that they look at.
#ifndef SPLAT_CAMERA_GROUP_H
#define SPLAT_CAMERA_GROUP_H

#include "view/target_view.h"
#include <stddef.h>

C_LINKAGE_BEGIN

// Only the views' cameras are read. count >= 1.

// The size of the scene in world units: 1.1 times the largest distance of a camera from the mean of the
// cameras. 1 if all cameras are in one place. The learning rate of means is proportional to it.
double scene_extent(const target_view *views, size_t count);

// The point nearest to the optical axes of all cameras (least squares). A weak term pulls it towards the
// points 5 scene extents in front of the cameras; it decides where the axes are parallel.
void camera_focus(const target_view *views, size_t count, double focus[3]);

C_LINKAGE_END
#endif
