// SPDX-License-Identifier: MIT
#include "commands/camera_around.h"
#include "camera.h"
#include <math.h>
#include <stdlib.h>

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
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
