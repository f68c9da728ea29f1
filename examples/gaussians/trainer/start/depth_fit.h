// SPDX-License-Identifier: MIT
// Scale and shift of a depth map, from the points that its view sees (docs/developers/math.md, section 5).
#pragma once

#include "files/fault.h"
#include "distwar_gs.h"
#include <stddef.h>

C_LINKAGE_BEGIN

// A point of the scene in a view: the map's value there, and 1 / depth of the point.
typedef struct depth_sample {
    double value, inverse;
} depth_sample;

enum { DEPTH_FIT_LEAST = 10 }; // samples

// inverse depth = scale value + shift
typedef struct depth_fit {
    double scale, shift;
    size_t used;  // samples that are no outliers
    double error; // root mean square of their differences, over their mean inverse depth
} depth_fit;

// Points of the scene, and which of them the view sees.
typedef struct depth_points {
    const float (*at)[3];
    size_t count;
    const uint32_t *seen; // [seen_count], indices; NULL: not known
    size_t seen_count;
} depth_points;

// A view with its map.
typedef struct depth_view {
    const gs_camera *camera;
    const float *map;    // [height][width]; NaN: unknown
    const uint8_t *mask; // [height][width]: pixels with 0 give no sample; NULL: all may
} depth_view;

// Each point that the view sees gives a sample where its pixel has a value. If `seen` is not known, a point
// inside the picture is seen unless in the same cell of a grid of 64 cells across, or in a cell beside it, another
// point is nearer by a fiftieth of its depth. samples: room for `count`, or for seen_count. *found: how many.
bool depth_samples(const depth_view *view, const depth_points *points, depth_sample *samples, size_t *found,
                   fault *why);

// The line by reweighted least squares (Rousseeuw and Leroy 1987): it begins at the line through two samples whose
// median absolute difference is least, of 500 random pairs, always the same ones; then, until nothing changes, it
// is that of least squares through the samples that differ from it by less than 2.5 of the robust standard
// deviation. Up to half of the samples may be outliers. Fails without DEPTH_FIT_LEAST samples, if their values
// are alike, and if the scale is not above 0: then the map has depth in place of its inverse.
bool depth_fit_line(const depth_sample *samples, size_t count, depth_fit *out, fault *why);

// map[i] becomes inverse depth, at least 0. NaN stays.
void depth_fit_apply(const depth_fit *fit, float *map, size_t count);

C_LINKAGE_END
