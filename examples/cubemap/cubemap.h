// SPDX-License-Identifier: MIT
//
// A mesh that mirrors its surroundings. The surroundings are a cubemap with mip levels, which training finds.
// One call for each stage:
//
//   cubemap_project -> cubemap_raster -> cubemap_reduce_levels -> cubemap_render -> l1_loss
//     -> cubemap_render_backward -> cubemap_gather_levels -> cubemap_adam
//
// A stage reads from the frame what earlier stages wrote, and writes its own part. All memory is device
// memory. The formulas are in math-examples.md. A pixel adds to four texels of each of two levels. Neighbours
// share some of them, so a warp holds several keys, each with few lanes.
//
// Work is queued on the default stream. A failure of the device ends the program.
#pragma once

#include "mesh.h"
#include "gpu/pinhole.h"
#include "strategies/sum_memory.h"

C_LINKAGE_BEGIN

enum {
    CUBEMAP_MAX_SIZE = 2048 // texels, the side of a face: six faces below each other fit an image
};

#ifdef __CUDACC__
#define CUBEMAP_CALL static inline __host__ __device__
#else
#define CUBEMAP_CALL static inline
#endif

// Texel (i, j) of face f of level l has the number
//   cubemap_level_begin(size, l) + (f * s + j) * s + i,   s = size >> l.
// Face 2k looks along the axis k, face 2k + 1 against it; i goes along the axis k + 1, j along k + 2 (mod 3).
CUBEMAP_CALL int cubemap_level_begin(int size, int level) {
    const int s = size >> level;
    return 8 * (size * size - s * s); // the sum of 6 (size >> m)^2 over m < level
}

// One camera's view, from the texels to the picture and back.
typedef struct cubemap_frame {
    // From the caller. Between views the camera may change, but not the picture's size:
    mesh surface;          // device
    pinhole_camera camera; // width * height < 2^30
    int size;              // texels, the side of a face: a power of two up to CUBEMAP_MAX_SIZE
    float background;      // colour without a mesh, in all channels
    // Memory of cubemap_frame_open:
    int levels, texels;    // levels: down to faces of one texel; texels: of all levels
    float *corner;         // [triangles][3][3]: vertices, camera
    float *sample;         // [height][width][4]: unit mirror direction in world space, and level of detail;
                           // -1: nothing is mirrored
    float *texel;          // [texels][3]: level 0 is trained, the others follow from it
    float *color;          // [3][height][width]
    float *color_gradient; // [3][height][width]: from the loss
    sum_memory sums;       // [texels][3]: of the adjoint, by level
} cubemap_frame;

cubemap_frame cubemap_frame_open(const mesh *surface, const pinhole_camera *camera, int size,
                                 float background);
void cubemap_frame_close(cubemap_frame *frame); // not the mesh

// Writes corner.
void cubemap_project(const cubemap_frame *frame);
// Writes sample, from the closest triangle on each pixel's ray; of equally close triangles, the one with the
// least index. Nothing is mirrored if there is no triangle, or if its normals cancel out. Cost: every tile
// tests every triangle.
void cubemap_raster(const cubemap_frame *frame);
// Writes the texels of levels 1, 2, ...: each the mean of four of the level below.
void cubemap_reduce_levels(const cubemap_frame *frame);
// Writes color.
void cubemap_render(const cubemap_frame *frame);
// Adjoint of cubemap_render: from color_gradient writes sums. policy: one of sum_strategies, threshold
// 0..MAX_THRESHOLD. DISTWAR_FIXED expects gradients about as large as those of a mean over all values
// (l1_loss).
void cubemap_render_backward(const cubemap_frame *frame, distwar_policy policy);
// Counts the commits of cubemap_render_backward without making them: adds to `counts`, device memory.
void cubemap_count_lanes(const cubemap_frame *frame, lane_histogram *counts);
// Adjoint of cubemap_reduce_levels: from sums writes gradient, [6][size][size][3].
void cubemap_gather_levels(const cubemap_frame *frame, float *gradient);

// One step of Adam on level 0; step = 1, 2, ... Gradient and moments: [6][size][size][3]; the moments start
// as zeros.
void cubemap_adam(const cubemap_frame *frame, const float *gradient, float *first_moment,
                  float *second_moment, float rate, int64_t step);

C_LINKAGE_END
