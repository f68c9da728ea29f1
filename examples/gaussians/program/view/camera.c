// SPDX-License-Identifier: MIT
#include "view/camera.h"
#include "geometry/fisheye.h"
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

static void to_camera(const gs_camera *camera, const double point[3], double p[3]) {
    for (int row = 0; row < 3; row++) {
        p[row] = camera->translation[row];
        for (int i = 0; i < 3; i++) p[row] += camera->rotation[3 * row + i] * point[i];
    }
}

double camera_depth(const gs_camera *camera, const double point[3]) {
    double p[3];
    to_camera(camera, point, p);
    return camera->model == GS_FISHEYE ? hypot(hypot(p[0], p[1]), p[2]) : p[2];
}

bool camera_pixel(const gs_camera *camera, const double point[3], double pixel[2]) {
    double p[3], divisor; // (x, y) over the divisor are focal lengths
    to_camera(camera, point, p);
    if (camera->model == GS_FISHEYE) {
        const double across = hypot(p[0], p[1]), angle = atan2(across, p[2]);
        if (!(hypot(across, p[2]) > camera->near_plane && angle <= fisheye_angle_limit(camera->distortion)))
            return false;
        divisor = across > 0 ? across / fisheye_radius(camera->distortion, angle) : 1;
    } else {
        if (!(p[2] > camera->near_plane)) return false;
        divisor = p[2];
    }
    pixel[0] = camera->fx * p[0] / divisor + camera->cx;
    pixel[1] = camera->fy * p[1] / divisor + camera->cy;
    return pixel[0] >= 0 && pixel[0] < camera->width && pixel[1] >= 0 && pixel[1] < camera->height;
}

void camera_point_at(const gs_camera *camera, const double pixel[2], double depth, double point[3]) {
    double inside[3] = {depth * (pixel[0] - camera->cx) / camera->fx,
                        depth * (pixel[1] - camera->cy) / camera->fy, depth};
    if (camera->model == GS_FISHEYE) {
        const double across = hypot(inside[0], inside[1]);
        const double angle = fisheye_angle(camera->distortion, across / depth);
        for (int i = 0; i < 2; i++) inside[i] *= across > 0 ? depth * sin(angle) / across : 0;
        inside[2] = depth * cos(angle);
    }
    for (int i = 0; i < 3; i++) {
        point[i] = 0;
        for (int row = 0; row < 3; row++)
            point[i] += camera->rotation[3 * row + i] * (inside[row] - camera->translation[row]);
    }
}

void camera_look_at(gs_camera *camera, const double eye[3], const double target[3], const double up[3]) {
    look_at(eye, target, up, camera->rotation, camera->translation);
}

double scene_extent(const target_view *views, size_t count) {
    double mean[3] = {0}, center[3], largest = 0;
    for (size_t i = 0; i < count; i++) {
        camera_center(&views[i].camera, center);
        for (int axis = 0; axis < 3; axis++) mean[axis] += center[axis] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        camera_center(&views[i].camera, center);
        double square = 0;
        for (int axis = 0; axis < 3; axis++)
            square += (center[axis] - mean[axis]) * (center[axis] - mean[axis]);
        largest = fmax(largest, sqrt(square));
    }
    return largest > 0 ? 1.1 * largest : 1;
}

// Solves the symmetric, positive definite a x = b by Cramer's rule.
static void solve(double a[3][3], const double b[3], double x[3]) {
    double cofactor[3][3], determinant = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
            cofactor[i][j] = a[i1][j1] * a[i2][j2] - a[i1][j2] * a[i2][j1];
        }
    for (int j = 0; j < 3; j++) determinant += a[0][j] * cofactor[0][j];
    for (int i = 0; i < 3; i++) {
        x[i] = 0;
        for (int j = 0; j < 3; j++) x[i] += cofactor[j][i] * b[j] / determinant;
    }
}

void camera_focus(const target_view *views, size_t count, double focus[3]) {
    const double far = 5 * scene_extent(views, count), weakness = 1e-4;
    double a[3][3] = {{0}}, b[3] = {0};
    for (size_t k = 0; k < count; k++) {
        const float *forward = views[k].camera.rotation + 6;
        double center[3];
        camera_center(&views[k].camera, center);
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) {
                const double across = (i == j) - (double)forward[i] * forward[j]; // projects the axis away
                a[i][j] += across + weakness * (i == j);
                b[i] += across * center[j];
            }
            b[i] += weakness * (center[i] + far * forward[i]);
        }
    }
    solve(a, b, focus);
}
