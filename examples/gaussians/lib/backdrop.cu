// SPDX-License-Identifier: MIT
// Pictures of cut-out objects, moved from the background they were put on to another.
#include "launch.cuh"
#include "status.h"

namespace {

constexpr int block_size = 256;

struct change {
    float of[3];
};

__global__ void __launch_bounds__(block_size)
    backdrop_kernel(const uint8_t *picture, const uint8_t *alpha, int64_t values, change by, uint8_t *moved) {
    const int64_t i = int64_t(blockIdx.x) * block_size + threadIdx.x;
    if (i >= values) return;
    const float open = 255.0f - float(alpha[i / 3]); // in 255ths: what shows the background
    const float value = float(picture[i]) + by.of[i % 3] * open;
    moved[i] = uint8_t(fminf(fmaxf(value, 0.0f), 255.0f) + 0.5f);
}

} // namespace

gs_status gs_backdrop(const uint8_t *picture, const uint8_t *alpha, int32_t width, int32_t height,
                      const float change_by[3], uint8_t *moved, gs_stream stream) {
    GS_REQUIRE(width >= 1 && width <= GS_MAX_SIZE && height >= 1 && height <= GS_MAX_SIZE,
               "width and height must be 1..GS_MAX_SIZE");
    GS_REQUIRE(picture && alpha && change_by && moved, "an argument is NULL");
    change by;
    for (int c = 0; c < 3; c++) {
        GS_REQUIRE(change_by[c] >= -1 && change_by[c] <= 1, "a change must be in -1..1");
        by.of[c] = change_by[c];
    }
    const int64_t values = int64_t(3) * width * height;
    GS_CUDA(launch(stream, blocks_for(values, block_size), block_size, backdrop_kernel, picture, alpha,
                   values, by, moved));
    return GS_OK;
}
