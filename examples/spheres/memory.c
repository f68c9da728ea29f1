// SPDX-License-Identifier: MIT
// Spheres in memory and in files.
#include "spheres.h"
#include "device.h"
#include "files/output_file.h"
#include <inttypes.h>
#include <stdlib.h>

// ---- memory

static size_t bytes_of(int64_t count, int channels) {
    return (size_t)count * (size_t)(5 + channels) * sizeof(float);
}

sphere_set sphere_set_over(float *block, int64_t count, int channels) {
    return (sphere_set){.count = count,
                        .channels = channels,
                        .center = block,
                        .log_radius = block + 3 * count,
                        .opacity_logit = block + 4 * count,
                        .feature = block + 5 * count};
}

bool sphere_set_open(sphere_set *out, int64_t count, int channels, fault *why) {
    float *block = calloc(bytes_of(count, channels), 1);
    *out = (sphere_set){0};
    if (!block) return fail(why, "no memory for %lld spheres", (long long)count);
    *out = sphere_set_over(block, count, channels);
    return true;
}

void sphere_set_close(sphere_set *host) {
    free(host->center);
    *host = (sphere_set){0};
}

sphere_set sphere_set_on_device(const sphere_set *host) {
    const size_t bytes = bytes_of(host->count, host->channels);
    float *block = device_allocate(bytes);
    device_upload(block, host->center, bytes);
    return sphere_set_over(block, host->count, host->channels);
}

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

// ---- files

// The numbers of sphere i in the order of a line, 0 <= k < 5 + channels.
static float *value_at(const sphere_set *set, int64_t i, int k) {
    return k < 3    ? set->center + 3 * i + k
           : k == 3 ? set->log_radius + i
           : k == 4 ? set->opacity_logit + i
                    : set->feature + set->channels * i + k - 5;
}

bool sphere_file_write(const char *path, const sphere_set *host, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    fprintf(file.stream, "spheres 1\n%" PRId64 " %d\n", host->count, host->channels);
    for (int64_t i = 0; i < host->count; i++)
        for (int k = 0; k < 5 + host->channels; k++)
            fprintf(file.stream, "%.9g%c", *value_at(host, i, k), k < 4 + host->channels ? ' ' : '\n');
    return output_file_commit(&file, why);
}
