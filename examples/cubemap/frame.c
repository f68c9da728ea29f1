// SPDX-License-Identifier: MIT
#include "cubemap.h"
#include "device.h"

cubemap_frame cubemap_frame_open(const mesh *surface, const pinhole_camera *camera, int size,
                                 float background) {
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    cubemap_frame out = {.surface = *surface, .camera = *camera, .size = size, .background = background};
    while (size >> out.levels > 0) out.levels++;
    out.texels = cubemap_level_begin(size, out.levels - 1) + 6;
    out.corner = device_allocate((size_t)surface->triangles * 9 * sizeof *out.corner);
    out.sample = device_allocate(pixels * 4 * sizeof *out.sample);
    out.texel = device_allocate((size_t)out.texels * 3 * sizeof *out.texel);
    out.color = device_allocate(pixels * 3 * sizeof *out.color);
    out.color_gradient = device_allocate(pixels * 3 * sizeof *out.color_gradient);
    out.sums = sum_memory_open(out.texels, 3);
    return out;
}

void cubemap_frame_close(cubemap_frame *frame) {
    device_free(frame->corner);
    device_free(frame->sample);
    device_free(frame->texel);
    device_free(frame->color);
    device_free(frame->color_gradient);
    sum_memory_close(&frame->sums);
    *frame = (cubemap_frame){0};
}
