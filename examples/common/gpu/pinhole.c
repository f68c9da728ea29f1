// SPDX-License-Identifier: MIT
#include "pinhole.h"
#include "vector.h"
#include <math.h>

void look_at(const double eye[3], const double target[3], const double up[3], float rotation[9],
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

pinhole_camera pinhole_look_at(int width, int height, double angle, const double eye[3],
                               const double target[3], const double up[3]) {
    pinhole_camera camera = {.width = width,
                             .height = height,
                             .focal = (float)(height / 2.0 / tan(angle / 2)),
                             .center = {(float)width / 2, (float)height / 2}};
    look_at(eye, target, up, camera.rotation, camera.translation);
    return camera;
}
