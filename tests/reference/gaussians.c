// SPDX-License-Identifier: MIT
// The reference's scene, and its way from and to floats.
#include "reference.h"

#include "memory.h"

#include <string.h>

static int64_t sh_values(int sh_degree) {
    return 3 * (int64_t)(sh_degree + 1) * (sh_degree + 1);
}

int64_t reference_gaussians_values(const reference_gaussians *gaussians) {
    return gaussians->count * (11 + sh_values(gaussians->sh_degree) + (gaussians->color ? 3 : 0) +
                               (gaussians->covariance ? 6 : 0));
}

// Points the members into a new block.
static void lay_out(reference_gaussians *gaussians, double *block) {
    const int64_t count = gaussians->count;
    gaussians->mean = block;
    gaussians->log_scale = gaussians->mean + 3 * count;
    gaussians->quaternion = gaussians->log_scale + 3 * count;
    gaussians->opacity_logit = gaussians->quaternion + 4 * count;
    gaussians->sh = gaussians->opacity_logit + count;
    double *end = gaussians->sh + sh_values(gaussians->sh_degree) * count;
    if (gaussians->color) {
        gaussians->color = end;
        end += 3 * count;
    }
    if (gaussians->covariance) gaussians->covariance = end;
}

reference_gaussians reference_gaussians_create(int64_t count, int sh_degree) {
    reference_gaussians gaussians = {.count = count, .sh_degree = sh_degree};
    lay_out(&gaussians, allocate(reference_gaussians_values(&gaussians), sizeof(double)));
    return gaussians;
}

void reference_gaussians_extend(reference_gaussians *gaussians, int with_color, int with_covariance) {
    const int64_t before = reference_gaussians_values(gaussians);
    double *old = gaussians->mean;
    if (with_color) gaussians->color = old; // anything that is not NULL, until laid out
    if (with_covariance) gaussians->covariance = old;
    lay_out(gaussians, allocate(reference_gaussians_values(gaussians), sizeof(double)));
    memcpy(gaussians->mean, old, (size_t)before * sizeof(double));
    free(old);
}

void reference_gaussians_destroy(reference_gaussians *gaussians) {
    free(gaussians->mean);
    *gaussians = (reference_gaussians){0};
}

static void widen(double *to, const float *from, int64_t n) {
    for (int64_t i = 0; from && i < n; i++) to[i] = from[i];
}

static void narrow(float *to, const double *from, int64_t n) {
    for (int64_t i = 0; to && from && i < n; i++) to[i] = (float)from[i];
}

reference_gaussians reference_gaussians_from_floats(const gs_gaussians *floats) {
    reference_gaussians gaussians = reference_gaussians_create(floats->count, floats->sh_degree);
    reference_gaussians_extend(&gaussians, floats->color != NULL, floats->covariance != NULL);
    gaussians.scale_modifier = floats->scale_modifier;
    gaussians.antialias = floats->antialias;
    widen(gaussians.mean, floats->mean, 3 * floats->count);
    widen(gaussians.log_scale, floats->log_scale, 3 * floats->count);
    widen(gaussians.quaternion, floats->quaternion, 4 * floats->count);
    widen(gaussians.opacity_logit, floats->opacity_logit, floats->count);
    widen(gaussians.sh, floats->sh, sh_values(floats->sh_degree) * floats->count);
    widen(gaussians.color, floats->color, 3 * floats->count);
    widen(gaussians.covariance, floats->covariance, 6 * floats->count);
    return gaussians;
}

void reference_gaussians_to_floats(const reference_gaussians *gaussians, const gs_gaussians *floats) {
    narrow(floats->mean, gaussians->mean, 3 * gaussians->count);
    narrow(floats->log_scale, gaussians->log_scale, 3 * gaussians->count);
    narrow(floats->quaternion, gaussians->quaternion, 4 * gaussians->count);
    narrow(floats->opacity_logit, gaussians->opacity_logit, gaussians->count);
    narrow(floats->sh, gaussians->sh, sh_values(gaussians->sh_degree) * gaussians->count);
    narrow(floats->color, gaussians->color, 3 * gaussians->count);
    narrow(floats->covariance, gaussians->covariance, 6 * gaussians->count);
}

reference_camera reference_camera_from_floats(const gs_camera *floats) {
    reference_camera camera = {floats->width, floats->height, .model = floats->model};
    camera.fx = floats->fx, camera.fy = floats->fy, camera.cx = floats->cx, camera.cy = floats->cy;
    camera.near_plane = floats->near_plane;
    widen(camera.distortion, floats->distortion, 4);
    widen(camera.rotation, floats->rotation, 9);
    widen(camera.translation, floats->translation, 3);
    return camera;
}

gs_camera reference_camera_to_floats(const reference_camera *camera) {
    gs_camera floats = {camera->width, camera->height, .model = camera->model};
    floats.fx = (float)camera->fx, floats.fy = (float)camera->fy;
    floats.cx = (float)camera->cx, floats.cy = (float)camera->cy;
    floats.near_plane = (float)camera->near_plane;
    narrow(floats.distortion, camera->distortion, 4);
    narrow(floats.rotation, camera->rotation, 9);
    narrow(floats.translation, camera->translation, 3);
    return floats;
}
