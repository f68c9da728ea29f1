// SPDX-License-Identifier: MIT
// The camera models on the host: what libdistwar_gs and its users ask of each. A model of GS_CAMERA_LIST without its
// functions name_... does not compile. The kernels' version: camera.cuh.
#pragma once

#include "distwar_gs.h"
#include "geometry/fisheye.h"
#include <math.h>

// The functions of a camera model. A point p of camera space appears at fx uv[0] + cx, fy uv[1] + cy.
typedef struct camera_lens {
    int distortions;                             // numbers of gs_camera.distortion that count
    double (*depth_of)(const double p[3]);       // gs_splat.depth
    double (*limit_of)(const gs_camera *camera); // is_in_front's angle_limit
    int (*uv_of)(const gs_camera *camera, const double p[3], double uv[2]); // 0: beyond the limit
    void (*point_at)(const gs_camera *camera, const double uv[2], double depth, double p[3]);
} camera_lens;

enum { pinhole_distortions = 0, fisheye_distortions = 4, ortho_distortions = 0 };

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
