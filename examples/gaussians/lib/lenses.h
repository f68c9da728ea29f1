// SPDX-License-Identifier: MIT
// Cameras on the host: where they are, and what libdistwar_gs and its users ask of each model. A model of
// GS_CAMERA_LIST without its functions name_... does not compile. The kernels' version: camera.cuh.
#pragma once

#include "distwar_gs.h"
#include <math.h>

// The camera's position in the world: -rotation^T translation.
static inline void camera_center(const gs_camera *camera, double center[3]) {
    for (int axis = 0; axis < 3; axis++) {
        center[axis] = 0;
        for (int row = 0; row < 3; row++)
            center[axis] -= (double)camera->rotation[3 * row + axis] * (double)camera->translation[row];
    }
}

// The distance of their positions.
static inline double camera_separation(const gs_camera *a, const gs_camera *b) {
    double p[3], q[3];
    camera_center(a, p);
    camera_center(b, q);
    return hypot(hypot(p[0] - q[0], p[1] - q[1]), p[2] - q[2]);
}

// ---- the fisheye's distortion (Kannala and Brandt 2006): a ray at an angle theta off the axis appears at the distance
// theta (1 + k1 theta^2 + k2 theta^4 + k3 theta^6 + k4 theta^8) from the principal point, in focal lengths ----

// Radians, 160 degrees. Towards 180 the circle of all directions shrinks to a point and J grows without limit.
#define FISHEYE_MOST_ANGLE 2.792526803190927

static inline double fisheye_radius(const float k[4], double angle) {
    const double w = angle * angle;
    return angle * (1 + w * (k[0] + w * (k[1] + w * (k[2] + w * k[3]))));
}

// The derivative of the radius.
static inline double fisheye_slope(const float k[4], double angle) {
    const double w = angle * angle;
    return 1 + w * (3 * k[0] + w * (5 * k[1] + w * (7 * k[2] + w * 9 * k[3])));
}

// The largest angle that the camera can see: up to it the radius grows. At most FISHEYE_MOST_ANGLE.
static inline double fisheye_angle_limit(const float k[4]) {
    enum { STEPS = 64 }; // a fold within 2.5 degrees may be missed
    double low = 0, high = 0;
    for (int i = 1; i <= STEPS; i++) {
        high = FISHEYE_MOST_ANGLE * i / STEPS;
        if (!(fisheye_slope(k, high) > 0)) break;
        low = high;
    }
    for (int i = 0; i < 40 && low < high; i++) {
        const double middle = (low + high) / 2;
        if (fisheye_slope(k, middle) > 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The angle at a radius, or the limit if no angle below it has that radius.
static inline double fisheye_angle(const float k[4], double radius) {
    double low = 0, high = fisheye_angle_limit(k);
    for (int i = 0; i < 50; i++) {
        const double middle = (low + high) / 2;
        if (fisheye_radius(k, middle) < radius)
            low = middle;
        else
            high = middle;
    }
    return high;
}

// ---- camera models ----

// The functions of a camera model. A point p of camera space appears at fx uv[0] + cx, fy uv[1] + cy.
typedef struct camera_lens {
    int distortions;                             // numbers of gs_camera.distortion that count
    double (*depth_of)(const double p[3]);       // gs_splat.depth
    double (*limit_of)(const gs_camera *camera); // is_in_front's angle_limit
    int (*uv_of)(const gs_camera *camera, const double p[3], double uv[2]); // 0: beyond the limit
    void (*point_at)(const gs_camera *camera, const double uv[2], double depth, double p[3]);
} camera_lens;

enum { pinhole_distortions = 0, fisheye_distortions = 4 };

static inline double pinhole_depth_of(const double p[3]) {
    return p[2];
}
static inline double pinhole_limit_of(const gs_camera *camera) {
    (void)camera;
    return 0;
}
static inline int pinhole_uv_of(const gs_camera *camera, const double p[3], double uv[2]) {
    (void)camera;
    for (int k = 0; k < 2; k++) uv[k] = p[k] / p[2];
    return 1;
}
static inline void pinhole_point_at(const gs_camera *camera, const double uv[2], double depth, double p[3]) {
    (void)camera;
    p[0] = depth * uv[0], p[1] = depth * uv[1], p[2] = depth;
}

static inline double fisheye_depth_of(const double p[3]) {
    return hypot(hypot(p[0], p[1]), p[2]);
}
static inline double fisheye_limit_of(const gs_camera *camera) {
    return fisheye_angle_limit(camera->distortion);
}
static inline int fisheye_uv_of(const gs_camera *camera, const double p[3], double uv[2]) {
    const double across = hypot(p[0], p[1]), angle = atan2(across, p[2]);
    const double scale = across > 0 ? fisheye_radius(camera->distortion, angle) / across : 1;
    uv[0] = scale * p[0], uv[1] = scale * p[1];
    return angle <= fisheye_limit_of(camera);
}
static inline void fisheye_point_at(const gs_camera *camera, const double uv[2], double depth, double p[3]) {
    const double radius = hypot(uv[0], uv[1]), angle = fisheye_angle(camera->distortion, radius);
    const double scale = radius > 0 ? depth * sin(angle) / radius : 0;
    p[0] = scale * uv[0], p[1] = scale * uv[1], p[2] = depth * cos(angle);
}

#define ortho_distortions pinhole_distortions
#define ortho_depth_of pinhole_depth_of
#define ortho_limit_of pinhole_limit_of
static inline int ortho_uv_of(const gs_camera *camera, const double p[3], double uv[2]) {
    (void)camera;
    uv[0] = p[0], uv[1] = p[1];
    return 1;
}
static inline void ortho_point_at(const gs_camera *camera, const double uv[2], double depth, double p[3]) {
    (void)camera;
    p[0] = uv[0], p[1] = uv[1], p[2] = depth;
}

// camera->model: below GS_CAMERA_MODELS.
static inline const camera_lens *lens_of(const gs_camera *camera) {
#define GS_LENS(name, NAME)                                                                                  \
    {name##_distortions, name##_depth_of, name##_limit_of, name##_uv_of, name##_point_at},
    static const camera_lens lenses[] = {GS_CAMERA_LIST(GS_LENS)};
#undef GS_LENS
    return &lenses[camera->model];
}
