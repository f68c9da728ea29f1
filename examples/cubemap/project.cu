// SPDX-License-Identifier: MIT
// The corners of the triangles in camera space.
#include "cubemap.h"
#include "device.h"
#include "launch.cuh"

namespace {

enum { THREADS = 256 };

__global__ void __launch_bounds__(THREADS) project_kernel(cubemap_frame f) {
    const int64_t k = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (k >= 3 * int64_t(f.surface.triangles)) return;
    const float *p = f.surface.position + 3 * int64_t(f.surface.corner[k]), *r = f.camera.rotation;
    for (int row = 0; row < 3; ++row)
        f.corner[3 * k + row] =
            fmaf(r[3 * row], p[0],
                 fmaf(r[3 * row + 1], p[1], fmaf(r[3 * row + 2], p[2], f.camera.translation[row])));
}

} // namespace

void cubemap_project(const cubemap_frame *frame) {
    DEVICE_CHECK(launch_for(NULL, 3 * int64_t(frame->surface.triangles), THREADS, project_kernel, *frame));
}
