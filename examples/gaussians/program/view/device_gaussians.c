// SPDX-License-Identifier: MIT
#include "view/device_gaussians.h"
#include "device.h"
#include <assert.h>

enum { ARRAYS = 5, ALIGNMENT = 256 };

// The arrays of a gs_gaussians, and how many bytes are in each.
typedef struct layout {
    float **array[ARRAYS];
    size_t bytes[ARRAYS];
} layout;

static layout layout_of(gs_gaussians *gaussians) {
    size_t row = (size_t)gaussians->count * sizeof(float);
    size_t bases = (size_t)(gaussians->sh_degree + 1) * (size_t)(gaussians->sh_degree + 1);
    return (layout){{&gaussians->mean, &gaussians->log_scale, &gaussians->quaternion,
                     &gaussians->opacity_logit, &gaussians->sh},
                    {row * 3, row * 3, row * 4, row, row * 3 * bases}};
}

// Where the arrays begin, in bytes; [ARRAYS]: where they end.
static void place(const layout *arrays, size_t offset[ARRAYS + 1]) {
    offset[0] = 0;
    for (int i = 0; i < ARRAYS; i++)
        offset[i + 1] = offset[i] + (arrays->bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t device_gaussians_bytes(int64_t count, int sh_degree) {
    gs_gaussians shape = {.count = count, .sh_degree = sh_degree};
    layout arrays = layout_of(&shape);
    size_t offset[ARRAYS + 1];
    place(&arrays, offset);
    return offset[ARRAYS];
}

gs_gaussians device_gaussians_open(int64_t count, int sh_degree) {
    gs_gaussians out = {.count = count, .sh_degree = sh_degree};
    layout arrays = layout_of(&out);
    size_t offset[ARRAYS + 1];
    place(&arrays, offset);
    const size_t total = offset[ARRAYS];
    char *memory = device_allocate(total);
    device_clear(memory, total);
    for (int i = 0; i < ARRAYS; i++) *arrays.array[i] = (float *)(void *)(memory + offset[i]);
    return out;
}

void device_gaussians_close(gs_gaussians *device) {
    device_free(device->mean);
    *device = (gs_gaussians){0};
}

void device_gaussians_upload(gs_gaussians *device, const gs_gaussians *host) {
    assert(device->count == host->count && device->sh_degree == host->sh_degree);
    device->antialias = host->antialias;
    gs_gaussians to = *device, from = *host;
    layout target = layout_of(&to), source = layout_of(&from);
    for (int i = 0; i < ARRAYS; i++) device_upload(*target.array[i], *source.array[i], source.bytes[i]);
}

void device_gaussians_copy(const gs_gaussians *to, const gs_gaussians *from) {
    assert(to->count == from->count && to->sh_degree == from->sh_degree);
    gs_gaussians target_of = *to, source_of = *from;
    layout target = layout_of(&target_of), source = layout_of(&source_of);
    for (int i = 0; i < ARRAYS; i++)
        DEVICE_CHECK(
            cudaMemcpy(*target.array[i], *source.array[i], source.bytes[i], cudaMemcpyDeviceToDevice));
}

void device_gaussians_download(const gs_gaussians *host, const gs_gaussians *device) {
    assert(device->count == host->count && device->sh_degree == host->sh_degree);
    gs_gaussians to = *host, from = *device;
    layout target = layout_of(&to), source = layout_of(&from);
    for (int i = 0; i < ARRAYS; i++) device_download(*target.array[i], *source.array[i], source.bytes[i]);
}
