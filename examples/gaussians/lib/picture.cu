// SPDX-License-Identifier: MIT
// Photographs before they are trained on: pictures, masks and depth maps at a fraction of their size, and cut-out
// objects on another background. Reads and writes pixels alone. One thread per value of the result.
#include "context.h"
#include "launch.cuh"
#include <algorithm>

namespace {

constexpr int block_size = 256;

// The blocks of a picture: its row length, the sides of a block, and the size of the result.
struct blocks {
    int64_t row;
    int across, down, width, height;

    // Calls visit(pixel) for each pixel of the block of pixel i of the result.
    template <typename Visit>
    __device__ void visit_block(int64_t i, Visit visit) const {
        const int64_t left = i % width * across, top = i / width * down;
        for (int y = 0; y < down; y++)
            for (int x = 0; x < across; x++) visit((top + y) * row + left + x);
    }
};

// Value i of a result; `form` is s.form.
template <int form>
__global__ void __launch_bounds__(block_size)
    shrink_kernel(const gs_shrinking s, const blocks of, int64_t values) {
    const int64_t i = int64_t(blockIdx.x) * block_size + threadIdx.x;
    if (i >= values) return;
    const uint8_t *const bytes = static_cast<const uint8_t *>(s.from[0]);
    uint8_t *const small = static_cast<uint8_t *>(s.small);
    if constexpr (form == GS_SHRINK_BYTES) {
        const int channel = int(i % s.channels);
        uint64_t sum = 0;
        of.visit_block(i / s.channels, [&](int64_t pixel) { sum += bytes[pixel * s.channels + channel]; });
        const uint64_t area = uint64_t(of.across) * uint64_t(of.down);
        small[i] = uint8_t((sum + area / 2) / area);
    } else if constexpr (form == GS_SHRINK_MASK) {
        bool all = true;
        of.visit_block(i, [&](int64_t pixel) { all &= bytes[pixel] != 0; });
        small[i] = all ? 255 : 0;
    } else if constexpr (form == GS_SHRINK_DEPTH) {
        const float *const depth = static_cast<const float *>(s.from[0]);
        float sum = 0, known = 0;
        of.visit_block(i, [&](int64_t pixel) {
            if (!isnan(depth[pixel])) sum += depth[pixel], known += 1;
        });
        static_cast<float *>(s.small)[i] = sum / known; // 0 / 0 is NaN
    } else {
        float sum = 0;
        for (int k = 0; k < s.count; k++) {
            const float *const plane =
                static_cast<const float *>(s.from[k]) + i % GS_CHANNELS * (of.row * s.height);
            of.visit_block(i / GS_CHANNELS, [&](int64_t pixel) { sum += plane[pixel]; });
        }
        const float mean = sum / (float(of.across) * float(of.down) * float(s.count));
        small[i] = uint8_t(fminf(fmaxf(mean, 0.f), 1.f) * 255.f + 0.5f);
    }
}

struct color_change {
    float of[GS_CHANNELS]; // the new background less the old one
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

gs_status gs_shrink(const gs_shrinking *s, gs_context *context) {
    GS_REQUIRE(s && s->from[0] && s->small, "shrinking, from and small must be given");
    GS_TRY(check_size(__func__, s->width, s->height));
    GS_REQUIRE(s->factor >= 1 && s->factor <= GS_MAX_SIZE, "factor must be in 1..16384");
    const bool is_planes = s->form == GS_SHRINK_PLANES;
    GS_REQUIRE(s->form != GS_SHRINK_BYTES || (s->channels >= 1 && s->channels <= 4),
               "channels must be in 1..4");
    GS_REQUIRE(s->form >= GS_SHRINK_BYTES && s->form <= GS_SHRINK_PLANES &&
                   (!is_planes || (s->count >= 1 && s->count <= GS_SHRINK_MOST)),
               "form must be a gs_shrink_form, count in 1..8");
    for (int k = 0; is_planes && k < s->count; k++) GS_REQUIRE(s->from[k], "planes must be given");
    const int across = std::min(s->factor, s->width), down = std::min(s->factor, s->height);
    const blocks of = {s->width, across, down, s->width / across, s->height / down};
    const int channels[] = {s->channels, 1, 1, GS_CHANNELS}; // by form, as kernels
    const decltype(&shrink_kernel<0>) kernels[] = {
        shrink_kernel<GS_SHRINK_BYTES>, shrink_kernel<GS_SHRINK_MASK>, shrink_kernel<GS_SHRINK_DEPTH>,
        shrink_kernel<GS_SHRINK_PLANES>};
    const int64_t values = int64_t(channels[s->form]) * of.width * of.height;
    return GS_STATUS(launch_for(stream_of(context), values, block_size, kernels[s->form], *s, of, values));
}

gs_status gs_backdrop(const uint8_t *picture, const uint8_t *alpha, int32_t width, int32_t height,
                      const float change[GS_CHANNELS], uint8_t *moved, gs_context *context) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(picture && alpha && change && moved, "picture, alpha, change and moved must be given");
    color_change added;
    for (int c = 0; c < GS_CHANNELS; c++) {
        GS_REQUIRE(change[c] >= -1 && change[c] <= 1, "a change must be in -1..1");
        added.of[c] = change[c];
    }
    const int64_t values = int64_t(GS_CHANNELS) * width * height;
    return GS_STATUS(launch_for(stream_of(context), values, block_size, backdrop_kernel, picture, alpha,
                                values, added, moved));
}
