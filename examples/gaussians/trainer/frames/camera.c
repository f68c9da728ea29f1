// SPDX-License-Identifier: MIT
#include "camera.h"
#include "gpu/pinhole.h"
#include "gpu/vector.h"

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

void camera_inside(const gs_camera *camera, const double point[3], double inside[3]) {
    for (int row = 0; row < 3; row++) {
        inside[row] = camera->translation[row];
        for (int i = 0; i < 3; i++) inside[row] += camera->rotation[3 * row + i] * point[i];
    }
}

double camera_depth(const gs_camera *camera, const double point[3]) {
    double p[3];
    camera_inside(camera, point, p);
    return lens_of(camera)->depth_of(p);
}

bool camera_project(const gs_camera *camera, const double p[3], double pixel[2]) {
    const camera_lens *const lens = lens_of(camera);
    double uv[2];
    if (!(lens->depth_of(p) > camera->near_plane && lens->uv_of(camera, p, uv))) return false;
    pixel[0] = camera->fx * uv[0] + camera->cx;
    pixel[1] = camera->fy * uv[1] + camera->cy;
    return pixel[0] >= 0 && pixel[0] < camera->width && pixel[1] >= 0 && pixel[1] < camera->height;
}

bool camera_pixel(const gs_camera *camera, const double point[3], double pixel[2]) {
    double inside[3];
    camera_inside(camera, point, inside);
    return camera_project(camera, inside, pixel);
}

void camera_point_at(const gs_camera *camera, const double pixel[2], double depth, double point[3]) {
    const double uv[2] = {(pixel[0] - camera->cx) / camera->fx, (pixel[1] - camera->cy) / camera->fy};
    double inside[3];
    lens_of(camera)->point_at(camera, uv, depth, inside);
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
        for (int axis = 0; axis < 3; axis++) center[axis] -= mean[axis];
        largest = fmax(largest, sqrt(dot(center, center)));
    }
    return largest > 0 ? 1.1 * largest : 1;
}

void camera_focus(const target_view *views, size_t count, double focus[3]) {
    const double far = 5 * scene_extent(views, count), weakness = 1e-4;
    double a[9] = {0}, b[3] = {0}, cofactors[9];
    for (size_t k = 0; k < count; k++) {
        const float *forward = views[k].camera.rotation + 6;
        double center[3];
        camera_center(&views[k].camera, center);
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) {
                const double across = (i == j) - (double)forward[i] * forward[j]; // projects the axis away
                a[3 * i + j] += across + weakness * (i == j);
                b[i] += across * center[j];
            }
            b[i] += weakness * (center[i] + far * forward[i]);
        }
    }
    const double determinant = determinant_and_cofactors(a, cofactors); // Cramer's rule; a is symmetric
    for (int i = 0; i < 3; i++) focus[i] = dot(cofactors + 3 * i, b) / determinant;
}
