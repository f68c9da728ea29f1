// SPDX-License-Identifier: MIT
#pragma once

#include "views.h"

C_LINKAGE_BEGIN

// ---- the Gaussians that training starts from: one at each point

typedef struct start_settings {
    int sh_degree;
    double extent;
    double opacity; // 0..1, exclusive
    double size;    // in mean distances to the three nearest neighbours
} start_settings;

// Makes a Gaussian at each point, with its colour. All axes are equal: settings->size times the mean distance to the
// three nearest points, and at least 1e-4 of the extent, as points may coincide. Closed by scene_close.
bool gaussians_from_points(const float (*points)[3], const uint8_t (*colors)[3], size_t count,
                           const start_settings *settings, gs_gaussians *out, fault *why);

// distance[i]: the mean distance of point i to its three nearest other points; to all others if there are fewer than three;
// 0 if there is one point. Coordinates must be finite. Cost: O(n log n) for any distribution, also with duplicates.
bool nearest_mean_distance(const float (*points)[3], size_t count, double *distance, fault *why);

// ---- for data without points: random ones, with colours of the photographs

// Writes `wanted` points and their colours. count >= 1.
// An object: points are uniform in the cube around the focus of the cameras that every picture contains, but not where no
// picture shows them or the outline of a view is transparent. The colour is that of a random picture that shows it, or gray.
// Any other scene: a point is at a random pixel that counts of a random picture, its depth log-uniform between 1/4 and 4
// times that of the focus, where at least 3 cameras (or all, if fewer) see it.
// After 300 and 20 refusals the last point is used.
void random_points(const target_view *views, size_t count, bool is_object, size_t wanted, uint64_t seed,
                   float (*points)[3], uint8_t (*colors)[3]);

// ---- for data without points: those that stereo finds in the pictures

typedef struct stereo_result {
    size_t points; // written
    size_t found;  // by stereo, of which those written are a part, beside points where it has found nothing
    size_t views;  // that were swept
} stereo_result;

// Writes at most `wanted` points and their colours. Sweeps each view, or every n-th so that they are at most 150, at 320
// pixels or less on the longer side, against up to four others that see the same at an angle of about 10 degrees: from
// infinity to a quarter of the distance of what the cameras look at, in steps of about a pixel. What the views agree on
// becomes points (gs_stereo_points), any of them with the same chance if they are more than wanted. Pixels without a
// point get a few: at the depth that is known next in some direction, or at any where none is. Writes none if stereo
// finds fewer than 2,000 and than wanted: few views, one pose, no texture, cameras that are not pinholes. Nothing stays on
// the device. Fails if there is no memory.
bool stereo_points(const target_view *views, size_t count, size_t wanted, uint64_t seed, float (*points)[3],
                   uint8_t (*colors)[3], stereo_result *result);

// ---- scale and shift of a depth map, from the points that its view sees (docs/developers/math.md, section 5)

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

// Each point that the view sees gives a sample where its pixel has a value. If `seen` is not known, a point inside the picture
// is seen unless another is nearer by a fiftieth of its depth, in the same cell of a grid of 64 cells across or in a cell
// beside it. samples: room for `count`, or for seen_count. *found: how many.
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
