// SPDX-License-Identifier: MIT
// gs_gaussians in device memory.
#pragma once

#include "c_linkage.h"
#include "distwar_gs.h"
#include <stddef.h>

C_LINKAGE_BEGIN

// All arrays in one allocation, which begins at `mean`, filled with zeros.
gs_gaussians device_gaussians_open(int64_t count, int sh_degree);
gs_gaussians device_gaussians_from(const gs_gaussians *host); // with its values
// The rows first .. first + count - 1 of others, on the host or the device, whose memory they are.
gs_gaussians gaussians_rows(const gs_gaussians *all, int64_t first, int64_t count);
size_t device_gaussians_bytes(int64_t count, int sh_degree); // of that allocation
void device_gaussians_close(gs_gaussians *device);
// Host and device have the same count and sh_degree. Copies `antialias` too.
void device_gaussians_upload(gs_gaussians *device, const gs_gaussians *host);
// From device to device, of equal count and sh_degree.
void device_gaussians_copy(const gs_gaussians *to, const gs_gaussians *from);
void device_gaussians_download(const gs_gaussians *host, const gs_gaussians *device);

C_LINKAGE_END
