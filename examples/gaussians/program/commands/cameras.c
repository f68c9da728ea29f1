// SPDX-License-Identifier: MIT
#include "commands/cameras.h"
#include "camera.h"
#include "gpu/vector.h"
#include "measure/maps.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The normalised mean of a row of the rotations, times `sign`. False if the rows cancel.
static bool mean_direction(const target_view *views, size_t count, int row, double sign, double out[3]) {
    for (int i = 0; i < 3; i++) {
        out[i] = 0;
        for (size_t k = 0; k < count; k++)
            out[i] += sign * views[k].camera.rotation[3 * row + i] / (double)count;
    }
    const bool common = dot(out, out) > 1e-4;
    normalize(out);
    return common;
}

// The part of v perpendicular to a direction of length 1.
static void across(const double v[3], const double direction[3], double out[3]) {
    const double along = dot(v, direction);
    for (int i = 0; i < 3; i++) out[i] = v[i] - along * direction[i];
}

static void scaled(const double v[3], double factor, double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = factor * v[i];
}

static bool open_orbit(camera_path *path, const target_view *views, size_t count, fault *why) {
    if (!mean_direction(views, count, 1, -1, path->up))
        return fail(why, "the cameras have no common up direction, which an orbit needs");
    double height = 0, radius = 0, distance = 0, first[3] = {0};
    for (size_t i = 0; i < count; i++) {
        double from[3], level[3];
        camera_center(&views[i].camera, from);
        for (int axis = 0; axis < 3; axis++) from[axis] -= path->focus[axis];
        across(from, path->up, level);
        if (i == 0) memcpy(first, level, sizeof first);
        height += dot(from, path->up) / (double)count;
        radius += sqrt(dot(level, level)) / (double)count;
        distance += sqrt(dot(from, from)) / (double)count;
    }
    if (!(distance > 0))
        return fail(why, "all cameras are at the point that they look at, so there is no orbit");
    if (!(sqrt(dot(first, first)) > 1e-3 * distance)) // the first camera is above: use any direction
        across((const double[3]){fabs(path->up[0]) < 0.7, fabs(path->up[0]) >= 0.7, 0}, path->up, first);
    normalize(first);
    radius = fmax(radius, 0.1 * distance); // from straight above no direction in the picture is up
    for (int i = 0; i < 3; i++) path->center[i] = path->focus[i] + height * path->up[i];
    cross(path->up, first, path->axes[1]);
    scaled(first, radius, path->axes[0]);
    scaled(path->axes[1], radius, path->axes[1]);
    return true;
}

static bool open_spiral(camera_path *path, const target_view *views, size_t count, fault *why) {
    double forward[3], down[3], right[3], spread[3] = {0};
    if (!mean_direction(views, count, 2, 1, forward) || !mean_direction(views, count, 1, 1, down) ||
        !(fabs(dot(forward, down)) < 0.9))
        return fail(why,
                    "the cameras look in all directions; a spiral needs cameras that look in nearly one");
    across(down, forward, down);
    normalize(down);
    cross(down, forward, right);
    scaled(down, -1, path->up);
    const double *const axes[3] = {right, down, forward};
    for (size_t i = 0; i < count; i++) {
        double center[3];
        camera_center(&views[i].camera, center);
        for (int axis = 0; axis < 3; axis++) path->center[axis] += center[axis] / (double)count;
    }
    double to_focus[3];
    for (int i = 0; i < 3; i++) to_focus[i] = path->focus[i] - path->center[i];
    const double depth = dot(to_focus, forward);
    if (!(depth > 0)) return fail(why, "the point that the cameras look at is behind their mean");
    for (size_t i = 0; i < count; i++) {
        double off[3];
        camera_center(&views[i].camera, off);
        for (int axis = 0; axis < 3; axis++) off[axis] -= path->center[axis];
        for (int axis = 0; axis < 3; axis++)
            spread[axis] += dot(off, axes[axis]) * dot(off, axes[axis]) / (double)count;
    }
    const double least[3] = {0.04, 0.04, 0}, most = 0.3; // bounds in depths; `least` is for a single camera
    for (int axis = 0; axis < 3; axis++)
        scaled(axes[axis], fmin(fmax(sqrt(spread[axis]), least[axis] * depth), most * depth),
               path->axes[axis]);
    for (int i = 0; i < 3; i++) path->focus[i] = path->center[i] + depth * forward[i];
    return true;
}

bool camera_path_open(camera_path *path, camera_path_kind kind, const target_view *views, size_t count,
                      fault *why) {
    *path = (camera_path){.kind = kind};
    camera_focus(views, count, path->focus);
    return kind == PATH_ORBIT ? open_orbit(path, views, count, why) : open_spiral(path, views, count, why);
}

target_view *views_of_data(const dataset *data, fault *why) {
    target_view *const views = calloc(data->view_count, sizeof *views);
    if (!views) fail(why, "no memory for %zu cameras", data->view_count);
    for (size_t i = 0; views && i < data->view_count; i++) views[i].camera = data->views[i].camera;
    return views;
}

void camera_path_place(const camera_path *path, double t, gs_camera *camera) {
    const double turns = path->kind == PATH_ORBIT ? 1 : 2, angle = 2 * pi * t;
    const double along[3] = {cos(turns * angle), sin(turns * angle), sin(angle)};
    double eye[3];
    for (int i = 0; i < 3; i++) {
        eye[i] = path->center[i];
        for (int axis = 0; axis < 3; axis++) eye[i] += along[axis] * path->axes[axis][i];
    }
    camera_look_at(camera, eye, path->focus, path->up);
}

// ---- without photographs

bool camera_around(const gs_gaussians *scene, const double direction[3], gs_camera *camera, double middle[3],
                   fault *why) {
    const double angle = 2 * atan(camera->height / (2 * (double)camera->fy));
    double center[3] = {0}, eye[3], radius = 1;
    if (scene->count > 0) {
        size_t count = (size_t)scene->count, last = count - 1, trimmed = last / 50;
        float *sorted = malloc(count * sizeof *sorted);
        if (!sorted) return fail(why, "no memory for the bounds of %zu Gaussians", count);
        double square = 0;
        for (int axis = 0; axis < 3; axis++) {
            for (size_t i = 0; i < count; i++) sorted[i] = scene->mean[3 * i + (size_t)axis];
            qsort(sorted, count, sizeof *sorted, compare_floats);
            const double low = sorted[trimmed], high = sorted[last - trimmed];
            center[axis] = (low + high) / 2;
            square += (high - low) * (high - low) / 4;
        }
        for (size_t i = 0; i < count; i++) sorted[i] = scene->log_scale[3 * i];
        qsort(sorted, count, sizeof *sorted, compare_floats);
        radius = sqrt(square) + 3 * exp(sorted[count / 2]);
        free(sorted);
    }
    for (int k = 0; middle && k < 3; k++) middle[k] = center[k];
    for (int k = 0; k < 3; k++) eye[k] = center[k] - direction[k] * radius / sin(angle / 2);
    camera->near_plane = (float)(radius / 100);
    camera_look_at(camera, eye, center, (const double[3]){0, -1, 0});
    for (int i = 0; i < 3; i++)
        if (!isfinite(camera->translation[i]))
            return fail(why, "the scene is too large or too small for a view of the whole");
    return true;
}
