// SPDX-License-Identifier: MIT
// The texture fit again, in double precision and in world space, written from the formulas; and its adjoint.
#ifndef CUBEMAP_REFERENCE_H
#define CUBEMAP_REFERENCE_H

#include "camera_ray.h"
#include "cubemap.h"
#include <cmath>
#include <vector>

// ---- which triangle, what it mirrors

struct reference_hit {
    double depth = 0;             // along the viewing axis
    double weight[3] = {0, 0, 0}; // barycentric coordinates; all in 0..1: the ray meets the triangle
};

inline void at_corner(const float *values, const mesh &host, int triangle, int k, double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = values[3 * host.corner[3 * triangle + k] + i];
}

// The line through the place (x, y) of the picture, in pixels, and the triangle's plane, after Moeller and Trumbore 1997.
// False if they are parallel.
inline bool reference_meet(const mesh &host, const pinhole_camera &camera, int triangle, double x, double y,
                           reference_hit *out) {
    double origin[3], ray[3], a[3], b[3], c[3], p[3], q[3];
    camera_ray(&camera, x, y, origin, ray);
    at_corner(host.position, host, triangle, 0, a);
    at_corner(host.position, host, triangle, 1, b);
    at_corner(host.position, host, triangle, 2, c);
    for (int i = 0; i < 3; i++) b[i] -= a[i], c[i] -= a[i], a[i] = origin[i] - a[i];
    cross(ray, c, p);
    cross(a, b, q);
    const double volume = dot(b, p);
    if (volume == 0) return false;
    out->weight[1] = dot(a, p) / volume;
    out->weight[2] = dot(ray, q) / volume;
    out->weight[0] = 1 - out->weight[1] - out->weight[2];
    out->depth = dot(c, q) / volume;
    return true;
}

// What the plane of the triangle mirrors there, of length 1.
inline bool reference_mirror(const mesh &host, const pinhole_camera &camera, int triangle, double x, double y,
                             double direction[3]) {
    reference_hit hit;
    if (!reference_meet(host, camera, triangle, x, y, &hit)) return false;
    double origin[3], normal[3] = {0, 0, 0};
    camera_ray(&camera, x, y, origin, direction);
    for (int k = 0; k < 3; k++) {
        double n[3];
        at_corner(host.normal, host, triangle, k, n);
        normalize(n);
        for (int i = 0; i < 3; i++) normal[i] += hit.weight[k] * n[i];
    }
    normalize(normal);
    const double along = dot(direction, normal);
    for (int i = 0; i < 3; i++) direction[i] -= 2 * along * normal[i];
    normalize(direction);
    return true;
}

// The level of detail there.
inline double reference_detail(const mesh &host, const pinhole_camera &camera, int triangle, double x,
                               double y, int size) {
    double here[3], across[3], down[3];
    reference_mirror(host, camera, triangle, x, y, here);
    reference_mirror(host, camera, triangle, x + 1, y, across);
    reference_mirror(host, camera, triangle, x, y + 1, down);
    for (int i = 0; i < 3; i++) across[i] -= here[i], down[i] -= here[i];
    const double farther = std::fmax(dot(across, across), dot(down, down));
    return std::fmin(std::fmax(std::log2(std::sqrt(farther) * size / 2), 0), std::log2(size));
}

// ---- the cubemap: texels [6][s][s] of a level, levels one after the other

inline int reference_level_begin(int size, int level) {
    int sum = 0;
    for (int l = 0; l < level; l++) sum += 6 * (size >> l) * (size >> l);
    return sum;
}

inline int axis_of(const double point[3]) {
    int axis = 0;
    for (int i = 1; i < 3; i++)
        if (std::fabs(point[i]) > std::fabs(point[axis])) axis = i;
    return axis;
}

// The number of the texel of the level that holds a point of the cube's surface; coordinates -1..1.
inline int reference_texel_at(const double point[3], int size) {
    const int axis = axis_of(point), face = 2 * axis + (point[axis] < 0);
    int at[2];
    for (int k = 0; k < 2; k++) {
        at[k] = int(std::floor((point[(axis + 1 + k) % 3] + 1) / 2 * size));
        at[k] = at[k] < 0 ? 0 : at[k] >= size ? size - 1 : at[k];
    }
    return (face * size + at[1]) * size + at[0];
}

// The place of the centre of texel (i, j) of a face, one beyond it at most: that is folded around the edge.
inline void reference_center(int face, int i, int j, int size, double point[3]) {
    const int axis = face / 2, at[2] = {i, j};
    const double sign = face % 2 ? -1 : 1;
    point[axis] = sign;
    for (int k = 0; k < 2; k++) {
        double *along = &point[(axis + 1 + k) % 3];
        *along = (2 * at[k] + 1.0) / size - 1;
        const double beyond = std::fabs(*along) - 1;
        if (beyond <= 0) continue;
        *along = *along < 0 ? -1 : 1;
        point[axis] -= sign * beyond;
    }
}

struct weighted_texel {
    int texel;
    double weight;
};

// Those of a direction in a level of that size, at most 4.
inline std::vector<weighted_texel> reference_footprint(const double direction[3], int size) {
    const int axis = axis_of(direction), face = 2 * axis + (direction[axis] < 0);
    double place[2], left = 0;
    int first[2];
    for (int k = 0; k < 2; k++) {
        place[k] = (direction[(axis + 1 + k) % 3] / std::fabs(direction[axis]) + 1) / 2 * size - 0.5;
        first[k] = int(std::floor(place[k]));
        place[k] -= first[k];
    }
    std::vector<weighted_texel> out;
    for (int n = 0; n < 4; n++) {
        const int i = first[0] + n % 2, j = first[1] + n / 2;
        const double w = (n % 2 ? place[0] : 1 - place[0]) * (n / 2 ? place[1] : 1 - place[1]);
        if ((i < 0 || i >= size) && (j < 0 || j >= size)) { // across a corner: there is no texel
            left = w;
            continue;
        }
        double point[3];
        reference_center(face, i, j, size, point);
        out.push_back({reference_texel_at(point, size), w});
    }
    for (weighted_texel &one : out) one.weight += left / double(out.size());
    return out;
}

// The texels of all levels that a direction takes.
inline std::vector<weighted_texel> texels_of(int size, const double direction[3], double detail) {
    std::vector<weighted_texel> out;
    for (int level = 0; size >> level > 0; level++) {
        const double part = 1 - std::fabs(detail - level); // a hat: 1 at its own level, 0 at the next ones
        if (part <= 0) continue;
        for (const weighted_texel &one : reference_footprint(direction, size >> level))
            out.push_back({reference_level_begin(size, level) + one.texel, part * one.weight});
    }
    return out;
}

// texel: [texels][3] of all levels.
inline void reference_lookup(const double *texel, int size, const double direction[3], double detail,
                             double color[3]) {
    for (int i = 0; i < 3; i++) color[i] = 0;
    for (const weighted_texel &one : texels_of(size, direction, detail))
        for (int i = 0; i < 3; i++) color[i] += one.weight * texel[3 * one.texel + i];
}

// Adds to gradient, of the shape of texel.
inline void reference_lookup_backward(double *gradient, int size, const double direction[3], double detail,
                                      const double color_gradient[3]) {
    for (const weighted_texel &one : texels_of(size, direction, detail))
        for (int i = 0; i < 3; i++) gradient[3 * one.texel + i] += one.weight * color_gradient[i];
}

#endif
