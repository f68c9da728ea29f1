// SPDX-License-Identifier: MIT
// Depth maps of photographs, as networks estimate them from single pictures.
#pragma once

#include "dataset.h"

C_LINKAGE_BEGIN

// The views whose maps are read.
typedef enum depth_maps_of { DEPTH_MAPS_TRAINING, DEPTH_MAPS_HELD_OUT, DEPTH_MAPS_ALL } depth_maps_of;

// Reads the depth maps of views, those held out or the others, into view->depth: the first of NAME.png, STEM.png,
// NAME.pfm, STEM.pfm in the folder (companion.h, plane.h), which has the size of the photograph's file. It holds
// inverse depth, scaled and shifted by numbers that are not known: depth is the camera's z, of a fisheye the
// distance. It is undistorted and downscaled with the picture, as `options` say with which the data was loaded.
// Values that are not finite, and those that are made of one, are unknown: NaN. Each map has known values. The
// files become files of the data. After a failure some views may have maps.
bool depth_maps_load(dataset *data, const char *folder, const dataset_options *options, depth_maps_of of,
                     fault *why);

C_LINKAGE_END
