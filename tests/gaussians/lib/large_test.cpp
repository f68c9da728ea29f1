// SPDX-License-Identifier: MIT
// Numbers that 32 bits do not hold, as far as no memory of that size is needed: the bytes that calls ask for, and where
// a view's arrays lie. On a GPU the program sizes runs such views.
#include "distwar_gs.h"
#include "filled_context.h"
#include "kernel_frame.h"
#include <algorithm>

namespace {

constexpr int64_t most = INT32_MAX - 1; // Gaussians

TEST(Large, BytesGrowWithNumbersBeyond32Bits) {
    gs_view view = {};
    view.camera.width = view.camera.height = GS_MAX_SIZE;
    view.gaussians.count = most;
    double bytes[4];
    const int64_t step = int64_t(1) << 32;
    for (int k = 0; k < 4; k++) {
        const int64_t isects = step * (k + 1);
        bytes[k] = reserved_bytes(view, DISTWAR_TREE, isects);
        EXPECT_GE(bytes[k], 8 * double(isects)) << "two lists of indices";
        if (k > 0) {
            EXPECT_NEAR(bytes[k] - bytes[k - 1], bytes[1] - bytes[0], 1e7);
        }
    }
    const auto fixed = [&](int64_t count) {
        view.gaussians.count = count, view.gaussians.channels = 1000;
        return reserved_bytes(view, DISTWAR_FIXED, 0);
    };
    view.camera.width = view.camera.height = 1;
    EXPECT_NEAR(fixed(most) / fixed(most / 2), 2, 0.1);
    EXPECT_GT(fixed(most), double(most) * 1000 * sizeof(int64_t));
    // One tile with 32 buckets, of more entries than 32 bits count.
    view.gaussians.channels = 0;
    const int64_t isects = int64_t(1) << 38;
    EXPECT_GE(reserved_bytes(view, DISTWAR_TREE, isects),
              8 * double(isects) + 32 * double(UINT32_MAX) * sizeof(uint32_t));
}

// Values of a picture, Gaussians and pairs: each alone is more than 2^32 bytes.
TEST(Large, ArraysOfAViewDoNotOverlap) {
    for (const int channels : {3, 9, 17, 1000}) {
        gs_view view = {};
        view.camera.width = view.camera.height = GS_MAX_SIZE;
        view.gaussians.count = most, view.gaussians.channels = channels;
        reserved_bytes(view, DISTWAR_FIXED, (int64_t(1) << 33) + 5, &view);
        const size_t pixels = size_t(GS_MAX_SIZE) * GS_MAX_SIZE;
        const struct {
            const void *begin;
            size_t bytes;
        } all[] = {{view.image.transmittance, pixels * sizeof(float)},
                   {view.image.n_contrib, pixels * sizeof(uint32_t)},
                   {view.image.color, pixels * size_t(channels) * sizeof(float)},
                   {view.splats, size_t(most) * sizeof(gs_splat)}};
        const char *end = static_cast<const char *>(view.memory.memory);
        const char *const last = end + view.memory.bytes;
        for (const auto &part : all) {
            EXPECT_GE(static_cast<const char *>(part.begin), end) << channels;
            EXPECT_GT(part.bytes, channels > 3 && part.begin == view.image.color ? size_t(UINT32_MAX) : 1000);
            end = static_cast<const char *>(part.begin) + part.bytes;
        }
        EXPECT_LE(end + sizeof(uint32_t) * ((size_t(1) << 33) + 5), last) << "the lists follow";
    }
}

} // namespace
