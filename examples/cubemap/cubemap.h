// SPDX-License-Identifier: MIT
//
// A mesh that mirrors its surroundings. The surroundings are a cubemap with mip levels, which training finds.
// One call for each stage:
//
//   cubemap_raster -> cubemap_render -> l1_loss
//     -> cubemap_render_backward -> cubemap_gather_levels -> adam_groups_step
//
// A stage reads from the frame what earlier stages wrote, and writes its own part. All memory is device
// memory. The formulas are in math.md. A pixel adds to four texels of each of two levels. Neighbours
// share some of them, so a warp holds several keys, each with few lanes.
//
// Work is queued on the default stream. A failure of the device ends the program.
#pragma once

#include "gpu/pinhole.h"
#include "strategies/strategies.h"

C_LINKAGE_BEGIN

// ---- the mesh

// Triangles with a normal at every vertex.
typedef struct mesh {
    int vertices, triangles;
    float *position; // [vertices][3]
    float *normal;   // [vertices][3], of any length but 0
    int *corner;     // [triangles][3]: vertices
} mesh;

// In host memory, all 0. Fails if there is no memory.
bool mesh_open(mesh *out, int vertices, int triangles, fault *why);
void mesh_close(mesh *host); // harmless on {0}
// Writes normal: at each vertex the sum of the normals of its triangles, weighted by their areas.
void mesh_find_normals(mesh *host);

// Meshes made by formulas, in host memory, with normals. All lie in the unit ball around the origin.
// An icosahedron whose triangles are cut into 4^level each, on the sphere; 0 <= level <= 8.
bool shape_icosphere(int level, mesh *out, fault *why);
// rings >= 3 along the ring, sides >= 3 around its tube; rings * sides <= 2^24.
bool shape_torus(int rings, int sides, mesh *out, fault *why);
// A sphere with waves: 32 strips of 64 quadrilaterals between its poles on the y axis. Its normals point inwards, which
// makes no difference to a mirror.
bool shape_wavy(mesh *out, fault *why);

// ---- the cubemap

enum { CUBEMAP_MAX_SIZE = 2048 }; // texels, the side of a face

// Level l has faces of s x s texels, s = size >> l, and follows level l - 1. In it texel (i, j) of face f has the number
// (f * s + j) * s + i. Face 2k looks along the axis k, face 2k + 1 against it; i goes along the axis k + 1, j along k + 2
// (mod 3).

// One camera's view, from the texels to the picture and back.
typedef struct cubemap_frame {
    mesh surface; // a copy on the device
    // From the caller. Between views camera and `sample` may change, but not the picture's size:
    pinhole_camera camera; // width * height < 2^30
    int size;              // texels, the side of a face: a power of two up to CUBEMAP_MAX_SIZE
    float background;      // colour without a mesh, in all channels
    // Memory of cubemap_frame_open, but for `sample`, which is the caller's:
    int levels, texels;    // levels: down to faces of one texel; texels: of all levels
    float *corner;         // [triangles][3][3]: vertices, camera
    float *sample;         // [height][width][4]: unit mirror direction in world space, and level of detail;
                           // -1: nothing is mirrored
    float *texel;          // [texels][3]: level 0 is trained, the others follow from it
    float *color;          // [3][height][width]
    float *color_gradient; // [3][height][width]: from the loss
    sum_memory sums;       // [texels][3]: of the adjoint, by level
} cubemap_frame;

cubemap_frame cubemap_frame_open(const mesh *host, const pinhole_camera *camera, int size, float background);
void cubemap_frame_close(cubemap_frame *frame); // not `sample`

// Writes corner, and sample from the closest triangle on each pixel's ray; of equally close triangles, the one with the
// least index. Nothing is mirrored if there is no triangle, or if its normals cancel out. Cost: every tile
// tests every triangle.
void cubemap_raster(const cubemap_frame *frame);
// Writes the texels of levels 1, 2, ...: each the mean of four of the level below. Writes color.
void cubemap_render(const cubemap_frame *frame);
// Adjoint of the lookup: from color_gradient writes sums. policy, lanes: as sum_values of commit.cuh has them.
// DISTWAR_FIXED expects gradients about as large as those of a mean over all values (l1_loss).
void cubemap_render_backward(const cubemap_frame *frame, distwar_policy policy, lane_histogram *lanes);
// Adjoint of the means: from sums writes gradient, [6][size][size][3].
void cubemap_gather_levels(const cubemap_frame *frame, float *gradient);

// ---- surroundings made by formulas, cameras around the mesh

#define SCENE_BACKGROUND 0.05f

pinhole_camera scene_camera(int view, int views, int width, int height); // 0 <= view < views
// texel: [6][size][size][3] on the host; a sky with a sun, walls with stripes and lamps, a checkered floor.
void scene_surroundings(int size, float *texel);

C_LINKAGE_END
