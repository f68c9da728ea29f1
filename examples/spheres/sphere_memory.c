// SPDX-License-Identifier: MIT
#include "sphere_memory.h"
#include "device.h"
#include <stdlib.h>

static size_t values_of(int64_t count, int channels) {
    return (size_t)count * (size_t)(5 + channels);
}

static size_t sphere_set_values(const sphere_set *set) {
    return values_of(set->count, set->channels);
}

static sphere_set over(float *block, int64_t count, int channels) {
    return (sphere_set){.count = count,
                        .channels = channels,
                        .center = block,
                        .log_radius = block + 3 * count,
                        .opacity_logit = block + 4 * count,
                        .feature = block + 5 * count};
}

bool sphere_set_open(sphere_set *out, int64_t count, int channels, fault *why) {
    float *block = calloc(values_of(count, channels), sizeof *block);
    *out = (sphere_set){0};
    if (!block) return fail(why, "no memory for %lld spheres", (long long)count);
    *out = over(block, count, channels);
    return true;
}

void sphere_set_close(sphere_set *host) {
    free(host->center);
    *host = (sphere_set){0};
}

sphere_set device_sphere_set_open(int64_t count, int channels) {
    const size_t bytes = values_of(count, channels) * sizeof(float);
    float *block = device_allocate(bytes);
    device_clear(block, bytes);
    return over(block, count, channels);
}

void device_sphere_set_close(sphere_set *device) {
    device_free(device->center);
    *device = (sphere_set){0};
}

void sphere_set_upload(const sphere_set *device, const sphere_set *host) {
    device_upload(device->center, host->center, sphere_set_values(host) * sizeof(float));
}

void sphere_set_download(const sphere_set *host, const sphere_set *device) {
    device_download(host->center, device->center, sphere_set_values(host) * sizeof(float));
}
