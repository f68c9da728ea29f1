// SPDX-License-Identifier: MIT
// Photographs before they are trained on: pictures, masks and depth maps at a fraction of their size, and cut-out objects on
// another background. One thread per value of the result.
#include "check.h"
#include "distwar_gs_shrink.h"
#include "launch.cuh"

namespace {

constexpr int block_size = 256;

// The blocks of a picture: its row length, the sides of a block, and the size of the result.
struct blocks {
    int64_t row;
    int across, down, width, height;
};

int side_of(int32_t length, int32_t factor) {
    return factor < length ? factor : length;
}

blocks blocks_of(const gs_shrinking &s) {
    const int across = side_of(s.width, s.factor), down = side_of(s.height, s.factor);
    return {s.width, across, down, s.width / across, s.height / down};
}

// Calls visit(pixel) for each pixel of the block of pixel i of the result.
template <typename Visit>
__device__ void for_each_in_block(const blocks &of, int64_t i, Visit visit) {
    const int64_t left = i % of.width * of.across, top = i / of.width * of.down;
    for (int y = 0; y < of.down; y++)
        for (int x = 0; x < of.across; x++) visit((top + y) * of.row + left + x);
}

__global__ void __launch_bounds__(block_size)
    shrink_picture_kernel(blocks of, int channels, const uint8_t *picture, int64_t values, uint8_t *small) {
    const int64_t i = int64_t(blockIdx.x) * block_size + threadIdx.x;
    if (i >= values) return;
    const int channel = int(i % channels);
    uint64_t sum = 0;
    for_each_in_block(of, i / channels, [&](int64_t pixel) { sum += picture[pixel * channels + channel]; });
    const uint64_t area = uint64_t(of.across) * uint64_t(of.down);
    small[i] = uint8_t((sum + area / 2) / area);
}

struct pictures {
    const float *planes[GS_SHRINK_MOST];
    int count;
    int64_t pixels;
};

__global__ void __launch_bounds__(block_size)
    shrink_planes_kernel(blocks of, pictures from, int64_t values, uint8_t *small) {
    const int64_t i = int64_t(blockIdx.x) * block_size + threadIdx.x;
    if (i >= values) return;
    float sum = 0;
    for (int k = 0; k < from.count; k++) {
        const float *const plane = from.planes[k] + i % GS_CHANNELS * from.pixels;
        for_each_in_block(of, i / GS_CHANNELS, [&](int64_t pixel) { sum += plane[pixel]; });
    }
    const float mean = sum / (float(of.across) * float(of.down) * float(from.count));
    small[i] = uint8_t(fminf(fmaxf(mean, 0.f), 1.f) * 255.f + 0.5f);
}

__global__ void __launch_bounds__(block_size)
    shrink_mask_kernel(blocks of, const uint8_t *mask, int64_t values, uint8_t *small) {
    const int64_t i = int64_t(blockIdx.x) * block_size + threadIdx.x;
    if (i >= values) return;
    bool all = true;
    for_each_in_block(of, i, [&](int64_t pixel) { all &= mask[pixel] != 0; });
    small[i] = all ? 255 : 0;
}

__global__ void __launch_bounds__(block_size)
    shrink_depth_kernel(blocks of, const float *depth, int64_t values, float *small) {
    const int64_t i = int64_t(blockIdx.x) * block_size + threadIdx.x;
    if (i >= values) return;
    float sum = 0, known = 0;
    for_each_in_block(of, i, [&](int64_t pixel) {
        const float value = depth[pixel];
        if (!isnan(value)) sum += value, known += 1;
    });
    small[i] = sum / known; // 0 / 0 is NaN
}

gs_status check_shrinking(const char *function, const gs_shrinking *shrinking) {
    GS_REQUIRE_OF(function, shrinking, "shrinking must be given");
    GS_TRY(check_size(function, shrinking->width, shrinking->height));
    GS_REQUIRE_OF(function, shrinking->factor >= 1 && shrinking->factor <= GS_MAX_SIZE,
                  "factor must be in 1..16384");
    return GS_OK;
}

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

gs_status gs_shrink_picture(const gs_shrinking *shrinking, int32_t channels, const uint8_t *picture,
                            uint8_t *small, gs_stream stream) {
    GS_TRY(check_shrinking(__func__, shrinking));
    GS_REQUIRE(channels >= 1 && channels <= 4, "channels must be in 1..4");
    GS_REQUIRE(picture && small, "picture and small must be given");
    const blocks of = blocks_of(*shrinking);
    const int64_t values = int64_t(channels) * of.width * of.height;
    return GS_STATUS(
        launch_for(stream, values, block_size, shrink_picture_kernel, of, channels, picture, values, small));
}

gs_status gs_shrink_planes(const gs_shrinking *shrinking, const float *const *planes, int32_t count,
                           uint8_t *small, gs_stream stream) {
    GS_TRY(check_shrinking(__func__, shrinking));
    GS_REQUIRE(planes && small, "planes and small must be given");
    GS_REQUIRE(count >= 1 && count <= GS_SHRINK_MOST, "count must be in 1..8");
    const blocks of = blocks_of(*shrinking);
    const int64_t values = int64_t(GS_CHANNELS) * of.width * of.height;
    pictures from = {{}, count, int64_t(shrinking->width) * shrinking->height};
    for (int k = 0; k < count; k++) {
        GS_REQUIRE(planes[k], "planes must be given");
        from.planes[k] = planes[k];
    }
    return GS_STATUS(launch_for(stream, values, block_size, shrink_planes_kernel, of, from, values, small));
}

gs_status gs_shrink_mask(const gs_shrinking *shrinking, const uint8_t *mask, uint8_t *small,
                         gs_stream stream) {
    GS_TRY(check_shrinking(__func__, shrinking));
    GS_REQUIRE(mask && small, "mask and small must be given");
    const blocks of = blocks_of(*shrinking);
    const int64_t values = int64_t(of.width) * of.height;
    return GS_STATUS(launch_for(stream, values, block_size, shrink_mask_kernel, of, mask, values, small));
}

gs_status gs_shrink_depth(const gs_shrinking *shrinking, const float *depth, float *small, gs_stream stream) {
    GS_TRY(check_shrinking(__func__, shrinking));
    GS_REQUIRE(depth && small, "depth and small must be given");
    const blocks of = blocks_of(*shrinking);
    const int64_t values = int64_t(of.width) * of.height;
    return GS_STATUS(launch_for(stream, values, block_size, shrink_depth_kernel, of, depth, values, small));
}

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
