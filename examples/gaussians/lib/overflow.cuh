// SPDX-License-Identifier: MIT
// A view whose lists had no room says so in its image: NaN.
#pragma once

#include "check.h"
#include "launch.cuh"
#include <cuda_runtime.h>
#include <math.h>

namespace gs {

constexpr int overflow_block = 256, overflow_blocks = 64;

static __global__ void __launch_bounds__(overflow_block)
    overflow_kernel(const gs_bin_report *report, int64_t pair_capacity, int64_t pixels, int channels,
                    gs_image image) {
    if (report->pairs_needed <= pair_capacity) return;
    const int64_t step = int64_t(gridDim.x) * overflow_block;
    for (int64_t i = int64_t(blockIdx.x) * overflow_block + threadIdx.x; i < channels * pixels; i += step) {
        image.color[i] = NAN;
        if (i >= pixels) continue;
        image.transmittance[i] = NAN;
        if (image.depth) image.depth[i] = NAN;
        if (image.median_depth) image.median_depth[i] = NAN;
    }
}

// Queues the kernel, for a view with a report.
inline cudaError_t launch_overflow(gs_stream stream, const gs_view *view) {
    const int64_t pixels = int64_t(view_count(view)) * view->camera.width * view->camera.height;
    return launch(stream, overflow_blocks, overflow_block, overflow_kernel, view->report, view->pair_capacity,
                  pixels, channels_of(&view->gaussians), view->image);
}

} // namespace gs
