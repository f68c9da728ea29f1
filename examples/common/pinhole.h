// SPDX-License-Identifier: MIT
// A pinhole camera: where it stands and what it looks at.
#ifndef COMMON_PINHOLE_H
#define COMMON_PINHOLE_H

#ifdef __cplusplus
extern "C" {
#endif

// The conventions of docs/math.md, section 1.
typedef struct pinhole_camera {
    int width, height;    // pixels
    float focal;          // pixels, both ways
    float center[2];      // of the picture, in pixels; pixel (i, j) has its centre at (i + 0.5, j + 0.5)
    float rotation[9];    // world to camera, row-major; +x right, +y down, +z forward
    float translation[3]; // x' = rotation x + translation
} pinhole_camera;

// World to camera, from `eye` towards `target` (another point), `up` (not parallel to that) upwards in the
// picture.
void look_at(const double eye[3], const double target[3], const double up[3], float rotation[9],
             float translation[3]);
// A camera that stands so; angle: the vertical field of view in radians.
pinhole_camera pinhole_look_at(int width, int height, double angle, const double eye[3],
                               const double target[3], const double up[3]);

#ifdef __cplusplus
}
#endif
#endif
