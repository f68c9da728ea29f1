// SPDX-License-Identifier: MIT
// Moves pictures of cut-out objects from one background to another.
#include "check.h"
#include "launch.cuh"

namespace {

constexpr int block_size = 256;

struct color_change {
    float of[GS_CHANNELS];
};

__global__ void __launch_bounds__(block_size)
    backdrop_kernel(const uint8_t *picture, const uint8_t *alpha, int64_t values, color_change change,
                    uint8_t *moved) {
    const int64_t i = int64_t(blockIdx.x) * block_size + threadIdx.x;
    if (i >= values) return;
    const float open = 255.0f - float(alpha[i / GS_CHANNELS]); // 255 (1 - alpha)
    const float value = float(picture[i]) + change.of[i % GS_CHANNELS] * open;
    moved[i] = uint8_t(fminf(fmaxf(value, 0.0f), 255.0f) + 0.5f);
}

} // namespace

gs_status gs_backdrop(const uint8_t *picture, const uint8_t *alpha, int32_t width, int32_t height,
                      const float change[GS_CHANNELS], uint8_t *moved, gs_stream stream) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(picture && alpha && change && moved, "picture, alpha, change and moved must be given");
    color_change added;
    for (int c = 0; c < GS_CHANNELS; c++) {
        GS_REQUIRE(change[c] >= -1 && change[c] <= 1, "a change must be in -1..1");
        added.of[c] = change[c];
    }
    const int64_t values = int64_t(GS_CHANNELS) * width * height;
    return GS_STATUS(
        launch_for(stream, values, block_size, backdrop_kernel, picture, alpha, values, added, moved));
}
