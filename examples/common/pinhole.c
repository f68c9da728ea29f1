// SPDX-License-Identifier: MIT
#include "pinhole.h"
#include <math.h>

static void normalize(double v[3]) {
    const double length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int i = 0; i < 3; i++) v[i] /= length;
}

static void cross(const double a[3], const double b[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

pinhole_camera pinhole_look_at(int width, int height, double angle, const double eye[3],
                               const double target[3], const double up[3]) {
    pinhole_camera camera = {.width = width,
                             .height = height,
                             .focal = (float)(height / 2.0 / tan(angle / 2)),
                             .center = {(float)width / 2, (float)height / 2}};
    double axes[3][3]; // right, down, forward
    for (int i = 0; i < 3; i++) axes[2][i] = target[i] - eye[i];
    normalize(axes[2]);
    cross(axes[2], up, axes[0]);
    normalize(axes[0]);
    cross(axes[2], axes[0], axes[1]);
    for (int row = 0; row < 3; row++) {
        double along = 0;
        for (int i = 0; i < 3; i++) {
            camera.rotation[3 * row + i] = (float)axes[row][i];
            along += axes[row][i] * eye[i];
        }
        camera.translation[row] = (float)-along;
    }
    return camera;
}
