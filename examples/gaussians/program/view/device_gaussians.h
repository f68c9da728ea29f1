// SPDX-License-Identifier: MIT
// gs_gaussians in device memory.
#ifndef SPLAT_DEVICE_GAUSSIANS_H
#define SPLAT_DEVICE_GAUSSIANS_H

#include "gs.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// One allocation, at `mean`, of zeros.
gs_gaussians device_gaussians_open(int64_t count, int sh_degree);
size_t device_gaussians_bytes(int64_t count, int sh_degree); // of that allocation
void device_gaussians_close(gs_gaussians *device);
// Host and device must have the same count and sh_degree. `antialias` comes along.
void device_gaussians_upload(gs_gaussians *device, const gs_gaussians *host);
// From device to device; `to` may have memory for more rows than its count, which is that of `from`.
void device_gaussians_copy(const gs_gaussians *to, const gs_gaussians *from);
void device_gaussians_download(const gs_gaussians *host, const gs_gaussians *device);

#ifdef __cplusplus
}
#endif
#endif
