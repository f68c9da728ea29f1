// SPDX-License-Identifier: MIT
#include "camera.h"
#include "vector.h"
#include <math.h>

void camera_center(const gs_camera *camera, double center[3]) {
    for (int axis = 0; axis < 3; axis++) {
        center[axis] = 0;
        for (int row = 0; row < 3; row++)
            center[axis] -= (double)camera->rotation[3 * row + axis] * camera->translation[row];
    }
}

gs_camera camera_with_view_angle(int width, int height, double angle) {
    float focal = (float)(height / 2.0 / tan(angle / 2));
    return (gs_camera){.width = width,
                       .height = height,
                       .fx = focal,
                       .fy = focal,
                       .cx = (float)width / 2,
                       .cy = (float)height / 2,
                       .rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                       .near_plane = 0.2f};
}

void camera_look_at(gs_camera *camera, const double eye[3], const double target[3], const double up[3]) {
    double axes[3][3]; // right, down, forward
    for (int i = 0; i < 3; i++) axes[2][i] = target[i] - eye[i];
    normalize(axes[2]);
    cross(axes[2], up, axes[0]);
    normalize(axes[0]);
    cross(axes[2], axes[0], axes[1]);
    for (int row = 0; row < 3; row++) {
        double translation = 0;
        for (int i = 0; i < 3; i++) {
            camera->rotation[3 * row + i] = (float)axes[row][i];
            translation -= axes[row][i] * eye[i];
        }
        camera->translation[row] = (float)translation;
    }
}
