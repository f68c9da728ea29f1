// SPDX-License-Identifier: MIT
//
// libdistwar_gs: depth of pictures whose cameras are known, by a plane sweep (Collins 1996), and the points on which the
// views agree. The rules of distwar_gs.h hold. gs_stereo_depths, then gs_stereo_points for one view after another.
#ifndef GS_STEREO_H
#define GS_STEREO_H

#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GS_STEREO_NEIGHBOURS = 4 };

typedef struct gs_stereo_view {
    gs_camera camera;                        // GS_PINHOLE
    const uint8_t *rgb;                      // [height][width][3], any alignment; green is compared
    const uint8_t *mask;                     // [height][width]: a pixel with 0 gets no depth; NULL: all count
    float *inverse_depth;                    // [height][width]: 1 / z; NaN: unknown
    uint8_t *covered;                        // [height][width]: not 0: a point of gs_stereo_points is there
    float step;                              // planes are at inverse depths 0, step, ..., (steps - 1) step
    int32_t steps, neighbours;               // at least 3; 0..GS_STEREO_NEIGHBOURS
    int32_t neighbour[GS_STEREO_NEIGHBOURS]; // indices of other views
} gs_stereo_view;

typedef struct gs_stereo {
    const gs_stereo_view *views; // [count]
    int32_t count;               // 1..65535
    int64_t most_pixels;         // at least those of each view
    float least_score;           // a depth with a lower score, -1..1, is unknown
    float least_lead;            // so is one whose score is not this much above that of the next best peak
    float tolerance;             // steps of a view within which its depth agrees with a point
} gs_stereo;

// Writes inverse_depth of all views. A plane's score at a pixel is the mean of the two best normalised correlations with
// the neighbours, over 25 samples of a window of 7x7 pixels, warped by the plane. The depth is the vertex of a parabola
// through the best score and those beside it; half a step where plane 0, at infinity, is best. Unknown: pixels within 3
// of the border, in front of one colour, that fewer than two neighbours see, whose best plane is the last, or whose
// score says so. Cost: pixels * steps * neighbours * 25 samples.
gs_status gs_stereo_depths(const gs_stereo *stereo, gs_stream stream);

// Writes the points of view `view`: points[pixel] in the world, NaN where there is none; room for most_pixels. A pixel of
// known depth that is not covered becomes a point if the depths of at least 2 other views agree with it, and no more
// views than agree look through it. Its depth is corrected by the mean of what they say. Sets `covered` here and where
// those views see the point, so that a surface becomes points once; clear `covered` before the first view. Cost: pixels *
// count projections.
gs_status gs_stereo_points(const gs_stereo *stereo, int32_t view, float *points, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
