// SPDX-License-Identifier: MIT
// The texture fit again, in double precision and in world space, written from the formulas; and its adjoint.
// Arrays are the caller's.
#ifndef CUBEMAP_REFERENCE_H
#define CUBEMAP_REFERENCE_H

#include "cubemap.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- which triangle, what it mirrors

typedef struct reference_hit {
    double depth;     // along the viewing axis
    double weight[3]; // barycentric coordinates; all in 0..1: the ray meets the triangle
} reference_hit;

// The line through the place (x, y) of the picture, in pixels, and the triangle's plane. False if they are
// parallel.
bool reference_meet(const mesh *host, const pinhole_camera *camera, int triangle, double x, double y,
                    reference_hit *out);
// What the plane of the triangle mirrors there, of length 1; and the level of detail.
bool reference_mirror(const mesh *host, const pinhole_camera *camera, int triangle, double x, double y,
                      double direction[3]);
double reference_detail(const mesh *host, const pinhole_camera *camera, int triangle, double x, double y,
                        int size);

// ---- the cubemap: texels [6][s][s] of a level, levels one after the other

int reference_level_begin(int size, int level);
// The number of the texel of the level that holds a point of the cube's surface; coordinates -1..1.
int reference_texel_at(const double point[3], int size);
// The place of the centre of texel (i, j) of a face, one beyond it at most: that is folded around the edge.
void reference_center(int face, int i, int j, int size, double point[3]);
// Texels and weights of a direction in a level of that size; returns how many, at most 4.
int reference_footprint(const double direction[3], int size, int texel[4], double weight[4]);

// texel: [texels][3] of all levels.
void reference_lookup(const double *texel, int size, const double direction[3], double detail,
                      double color[3]);
// Adds to gradient, of the shape of texel.
void reference_lookup_backward(double *gradient, int size, const double direction[3], double detail,
                               const double color_gradient[3]);

#ifdef __cplusplus
}
#endif
#endif
