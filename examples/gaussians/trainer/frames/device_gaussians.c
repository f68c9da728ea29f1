// SPDX-License-Identifier: MIT
#include "device_gaussians.h"
#include "arrays.h"
#include "device.h"
#include "scene.h"
#include <assert.h>

enum { ALIGNMENT = 256 };

size_t device_gaussians_bytes(int64_t count, int sh_degree) {
    gs_gaussians shape = {.count = count, .sh_degree = sh_degree};
    return gaussians_place(&shape, NULL, ALIGNMENT);
}

gs_gaussians device_gaussians_open(int64_t count, int sh_degree) {
    gs_gaussians out = {.count = count, .sh_degree = sh_degree};
    const size_t bytes = gaussians_place(&out, NULL, ALIGNMENT);
    void *memory = device_allocate(bytes);
    device_clear(memory, bytes);
    gaussians_place(&out, memory, ALIGNMENT);
    return out;
}

gs_gaussians device_gaussians_from(const gs_gaussians *host) {
    gs_gaussians out = device_gaussians_open(host->count, host->sh_degree);
    device_gaussians_upload(&out, host);
    return out;
}

gs_gaussians gaussians_rows(const gs_gaussians *all, int64_t first, int64_t count) {
    gs_gaussians rows = *all;
    const gs_arrays a = gs_arrays_of(all);
    rows.count = count;
    rows.mean += first * a.width[0], rows.log_scale += first * a.width[1],
        rows.quaternion += first * a.width[2];
    rows.opacity_logit += first * a.width[3], rows.sh += first * a.width[4];
    return rows;
}

void device_gaussians_close(gs_gaussians *device) {
    device_free(device->mean);
    *device = (gs_gaussians){0};
}

static void copy(const gs_gaussians *to, const gs_gaussians *from, enum cudaMemcpyKind kind) {
    assert(to->count == from->count && to->sh_degree == from->sh_degree);
    const gs_arrays target = gs_arrays_of(to), source = gs_arrays_of(from);
    for (int i = 0; i < GS_ARRAYS; i++) {
        const size_t bytes = (size_t)from->count * (size_t)source.width[i] * sizeof(float);
        DEVICE_CHECK(cudaMemcpy(target.of[i], source.of[i], bytes, kind));
    }
}

void device_gaussians_upload(gs_gaussians *device, const gs_gaussians *host) {
    device->antialias = host->antialias;
    copy(device, host, cudaMemcpyHostToDevice);
}

void device_gaussians_copy(const gs_gaussians *to, const gs_gaussians *from) {
    copy(to, from, cudaMemcpyDeviceToDevice);
}

void device_gaussians_download(const gs_gaussians *host, const gs_gaussians *device) {
    copy(host, device, cudaMemcpyDeviceToHost);
}
