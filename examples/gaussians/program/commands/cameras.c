// SPDX-License-Identifier: MIT
#include "commands/cameras.h"
#include "camera.h"
#include "gpu/vector.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The part of v perpendicular to a direction of length 1.
static void across(const double v[3], const double direction[3], double out[3]) {
    const double along = dot(v, direction);
    for (int i = 0; i < 3; i++) out[i] = v[i] - along * direction[i];
}

bool camera_orbit_open(camera_orbit *orbit, const target_view *views, size_t count, fault *why) {
    *orbit = (camera_orbit){0};
    camera_focus(views, count, orbit->focus);
    for (size_t k = 0; k < count; k++)
        for (int i = 0; i < 3; i++) orbit->up[i] -= views[k].camera.rotation[3 + i] / (double)count;
    if (!(dot(orbit->up, orbit->up) > 1e-4)) // they cancel each other
        return fail(why, "the cameras have no common up direction, which an orbit needs");
    normalize(orbit->up);
    double height = 0, radius = 0, distance = 0, first[3] = {0};
    for (size_t i = 0; i < count; i++) {
        double from[3], level[3];
        camera_center(&views[i].camera, from);
        for (int axis = 0; axis < 3; axis++) from[axis] -= orbit->focus[axis];
        across(from, orbit->up, level);
        if (i == 0) memcpy(first, level, sizeof first);
        height += dot(from, orbit->up) / (double)count;
        radius += sqrt(dot(level, level)) / (double)count;
        distance += sqrt(dot(from, from)) / (double)count;
    }
    if (!(distance > 0))
        return fail(why, "all cameras are at the point that they look at, so there is no orbit");
    if (!(sqrt(dot(first, first)) > 1e-3 * distance)) // the first camera is above: use any direction
        across((const double[3]){fabs(orbit->up[0]) < 0.7, fabs(orbit->up[0]) >= 0.7, 0}, orbit->up, first);
    normalize(first);
    radius = fmax(radius, 0.1 * distance); // from straight above no direction in the picture is up
    for (int i = 0; i < 3; i++) orbit->center[i] = orbit->focus[i] + height * orbit->up[i];
    cross(orbit->up, first, orbit->axes[1]);
    for (int i = 0; i < 3; i++) orbit->axes[0][i] = radius * first[i], orbit->axes[1][i] *= radius;
    return true;
}

target_view *views_of_data(const dataset *data, fault *why) {
    target_view *const views = calloc(data->view_count, sizeof *views);
    if (!views) fail(why, "no memory for %zu cameras", data->view_count);
    for (size_t i = 0; views && i < data->view_count; i++) views[i].camera = data->views[i].camera;
    return views;
}

void camera_orbit_place(const camera_orbit *orbit, double t, gs_camera *camera) {
    const double angle = 2 * pi * t;
    double eye[3];
    for (int i = 0; i < 3; i++)
        eye[i] = orbit->center[i] + cos(angle) * orbit->axes[0][i] + sin(angle) * orbit->axes[1][i];
    camera_look_at(camera, eye, orbit->focus, orbit->up);
}

// ---- without photographs

static int compare_floats(const void *a, const void *b) {
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

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
