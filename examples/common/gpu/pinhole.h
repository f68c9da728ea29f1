// SPDX-License-Identifier: MIT
// A pinhole camera.
#pragma once

#include "vector.h"

// The conventions of docs/developers/math.md, section 1.
typedef struct pinhole_camera {
    int width, height;    // pixels
    float focal;          // pixels, both ways
    float center[2];      // of the picture, in pixels; pixel (i, j) has its centre at (i + 0.5, j + 0.5)
    float rotation[9];    // world to camera, row-major; +x right, +y down, +z forward
    float translation[3]; // x' = rotation x + translation
} pinhole_camera;

// World to camera, of a camera at `eye` that looks at `target`, with `up` upwards in the picture. target
// differs from eye; up is not parallel to the view direction.
static inline void look_at(const double eye[3], const double target[3], const double up[3], float rotation[9],
                           float translation[3]) {
    double axes[3][3]; // right, down, forward
    for (int i = 0; i < 3; i++) axes[2][i] = target[i] - eye[i];
    normalize(axes[2]);
    cross(axes[2], up, axes[0]);
    normalize(axes[0]);
    cross(axes[2], axes[0], axes[1]);
    for (int row = 0; row < 3; row++) {
        for (int i = 0; i < 3; i++) rotation[3 * row + i] = (float)axes[row][i];
        translation[row] = (float)-dot(axes[row], eye);
    }
}

// A camera with that pose. angle: the vertical field of view in radians.
static inline pinhole_camera pinhole_look_at(int width, int height, double angle, const double eye[3],
                                             const double target[3], const double up[3]) {
    pinhole_camera camera = {
        width, height, (float)(height / 2.0 / tan(angle / 2)), {(float)width / 2, (float)height / 2},
        {0},   {0}};
    look_at(eye, target, up, camera.rotation, camera.translation);
    return camera;
}
