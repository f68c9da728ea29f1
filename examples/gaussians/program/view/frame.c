// SPDX-License-Identifier: MIT
#include "view/frame.h"
#include "device.h"
#include "view/gs_check.h"
#include <stdlib.h>
#include <string.h>

static size_t pixels_of(const gs_camera *camera) {
    return (size_t)camera->width * (size_t)camera->height;
}

void frame_free(frame *f) {
    device_buffer *const all[] = {&f->splats,          &f->bin,       &f->color,          &f->transmittance,
                                  &f->consumed,        &f->loss,      &f->color_gradient, &f->moments,
                                  &f->mean2d_gradient, &f->corrected, &f->exposure};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) device_buffer_close(all[i]);
    *f = (frame){0};
}

static void bin(frame *f) {
    int32_t width = f->camera.width, height = f->camera.height;
    for (;;) {
        size_t bytes;
        GS_CHECK(gs_bin_workspace(f->gaussians.count, width, height, f->pair_capacity, &bytes));
        void *workspace = device_buffer_reserve(&f->bin, bytes);
        int64_t needed;
        gs_status status = gs_bin(f->splats.memory, f->gaussians.count, width, height, f->pair_capacity,
                                  workspace, bytes, &f->lists, &needed, NULL);
        if (status != GS_PAIRS_DO_NOT_FIT) {
            GS_CHECK(status);
            return;
        }
        f->pair_capacity = needed + needed / 4; // other views need a little more
    }
}

void frame_render(frame *f, const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *camera,
                  const float background[3]) {
    f->gaussians = *gaussians;
    f->sh_degree_used = sh_degree_used;
    f->camera = *camera;
    memcpy(f->background, background, sizeof f->background);
    size_t pixels = pixels_of(camera);
    gs_splat *splats = device_buffer_reserve(&f->splats, (size_t)gaussians->count * sizeof(gs_splat));
    f->image = (gs_image){.color = device_buffer_reserve(&f->color, 3 * pixels * sizeof(float)),
                          .transmittance = device_buffer_reserve(&f->transmittance, pixels * sizeof(float)),
                          .consumed = device_buffer_reserve(&f->consumed, pixels * sizeof(uint32_t))};
    f->compared = f->image.color;

    GS_CHECK(gs_project(gaussians, sh_degree_used, camera, splats, NULL));
    stage_clock_mark(f->clock, STAGE_PROJECT);
    bin(f);
    stage_clock_mark(f->clock, STAGE_BIN);
    GS_CHECK(gs_render(splats, &f->lists, camera->width, camera->height, background, &f->image, NULL));
    stage_clock_mark(f->clock, STAGE_RENDER);
}

void frame_loss(frame *f, const uint8_t *target, double *result, bool with_gradient) {
    int32_t width = f->camera.width, height = f->camera.height;
    size_t bytes;
    GS_CHECK(gs_loss_workspace(width, height, &bytes));
    void *workspace = device_buffer_reserve(&f->loss, bytes);
    float *gradient = device_buffer_reserve(&f->color_gradient, 3 * pixels_of(&f->camera) * sizeof(float));
    GS_CHECK(gs_loss(f->compared, target, width, height, workspace, bytes, result,
                     with_gradient ? gradient : NULL, NULL));
    stage_clock_mark(f->clock, STAGE_LOSS);
}

void frame_expose(frame *f, const float *matrix) {
    float *corrected = device_buffer_reserve(&f->corrected, 3 * pixels_of(&f->camera) * sizeof(float));
    GS_CHECK(gs_exposure(matrix, f->image.color, f->camera.width, f->camera.height, corrected, NULL));
    f->compared = corrected;
}

void frame_expose_backward(frame *f, const float *matrix, float *matrix_gradient) {
    size_t bytes;
    GS_CHECK(gs_exposure_workspace(f->camera.width, f->camera.height, &bytes));
    void *workspace = device_buffer_reserve(&f->exposure, bytes);
    GS_CHECK(gs_exposure_backward(matrix, f->image.color, f->camera.width, f->camera.height, workspace, bytes,
                                  f->color_gradient.memory, matrix_gradient, NULL));
    stage_clock_mark(f->clock, STAGE_LOSS);
}

void frame_set_gradient(frame *f, const float *gradient) {
    size_t bytes = 3 * pixels_of(&f->camera) * sizeof(float);
    device_upload(device_buffer_reserve(&f->color_gradient, bytes), gradient, bytes);
}

void frame_render_backward(frame *f, distwar_policy policy) {
    const gs_reduction reduction =
        (gs_reduction)gs_reduction_from_name(distwar_strategy_name(policy.strategy));
    size_t bytes;
    GS_CHECK(gs_moments_bytes(f->gaussians.count, reduction, &bytes));
    float *moments = device_buffer_reserve(&f->moments, bytes);
    GS_CHECK(gs_render_backward(f->splats.memory, f->gaussians.count, &f->lists, f->camera.width,
                                f->camera.height, f->background, &f->image, f->color_gradient.memory, NULL,
                                reduction, policy.balance_threshold, moments, NULL));
    stage_clock_mark(f->clock, STAGE_RENDER_BACKWARD);
}

void frame_project_backward(frame *f, const gs_gaussians *gradients) {
    size_t count = (size_t)f->gaussians.count;
    float *mean2d_gradient = device_buffer_reserve(&f->mean2d_gradient, count * 2 * sizeof(float));
    GS_CHECK(gs_project_backward(&f->gaussians, f->sh_degree_used, &f->camera, f->splats.memory,
                                 f->moments.memory, gradients, mean2d_gradient, NULL));
    stage_clock_mark(f->clock, STAGE_PROJECT_BACKWARD);
}

bool frame_picture(const frame *f, image *out, fault *why) {
    size_t bytes = 3 * pixels_of(&f->camera) * sizeof(float);
    float *planes = malloc(bytes);
    if (!planes) return fail(why, "no memory for a picture of %d x %d", f->camera.width, f->camera.height);
    device_download(planes, f->image.color, bytes);
    bool done = image_from_planes(planes, f->camera.width, f->camera.height, out, why);
    free(planes);
    return done;
}

size_t frame_bytes(const frame *f, stage which) {
    switch (which) {
    case STAGE_PROJECT:
        return f->splats.bytes;
    case STAGE_BIN:
        return f->bin.bytes;
    case STAGE_RENDER:
        return f->color.bytes + f->transmittance.bytes + f->consumed.bytes;
    case STAGE_LOSS:
        return f->loss.bytes + f->color_gradient.bytes + f->corrected.bytes + f->exposure.bytes;
    case STAGE_RENDER_BACKWARD:
        return f->moments.bytes;
    case STAGE_PROJECT_BACKWARD:
        return f->mean2d_gradient.bytes;
    default: // those of training write where the Gaussians are
        return 0;
    }
}
