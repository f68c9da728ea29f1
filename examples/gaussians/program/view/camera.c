// SPDX-License-Identifier: MIT
#include "view/camera.h"
#include "pinhole.h"
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
    look_at(eye, target, up, camera->rotation, camera->translation);
}
