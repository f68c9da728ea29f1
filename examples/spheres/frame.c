// SPDX-License-Identifier: MIT
#include "device.h"
#include "spheres.h"

sphere_frame sphere_frame_open(const sphere_set *set, const pinhole_camera *camera,
                               const sphere_blend *blend) {
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    const size_t values = pixels * (size_t)set->channels;
    sphere_frame out = {.set = *set, .camera = *camera, .blend = *blend};
    out.views = device_allocate((size_t)set->count * sizeof *out.views);
    out.list = device_allocate(pixels * (size_t)blend->kept * sizeof *out.list);
    out.list_length = device_allocate(pixels * sizeof *out.list_length);
    out.color = device_allocate(values * sizeof *out.color);
    out.total = device_allocate(pixels * sizeof *out.total);
    out.color_gradient = device_allocate(values * sizeof *out.color_gradient);
    out.moments = sum_memory_open(set->count, SPHERES_MOMENTS + set->channels);
    return out;
}

void sphere_frame_close(sphere_frame *frame) {
    device_free(frame->views);
    device_free(frame->list);
    device_free(frame->list_length);
    device_free(frame->color);
    device_free(frame->total);
    device_free(frame->color_gradient);
    sum_memory_close(&frame->moments);
    *frame = (sphere_frame){0};
}
