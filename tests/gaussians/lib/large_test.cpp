// SPDX-License-Identifier: MIT
// Numbers that 32 bits do not hold, as far as no memory of that size is needed: the bytes that calls ask for, and where
// a view's parts lie in a block. On a GPU the program sizes runs such views.
#include "distwar_gs.h"
#include "kernel_frame.h"
#include <algorithm>

namespace {

constexpr int64_t most = INT32_MAX - 1; // Gaussians

TEST(Large, BytesGrowWithNumbersBeyond32Bits) {
    gs_view view = {};
    view.camera.width = view.camera.height = GS_MAX_SIZE;
    view.gaussians.count = most;
    size_t bytes[4];
    const int64_t step = int64_t(1) << 32;
    for (int k = 0; k < 4; k++) {
        view.isect_capacity = step * (k + 1);
        ASSERT_GS_OK(gs_bin_bytes(&view, &bytes[k]));
        EXPECT_GE(bytes[k], size_t(8 * view.isect_capacity)) << "two lists of indices";
        if (k > 0) {
            EXPECT_NEAR(double(bytes[k] - bytes[k - 1]), double(bytes[1] - bytes[0]), 1e7);
        }
    }
    view.camera.width = view.camera.height =
        1; // one tile with 32 buckets, of more entries than 32 bits count
    view.isect_capacity = int64_t(1) << 38;
    ASSERT_GS_OK(gs_bin_bytes(&view, &bytes[0]));
    EXPECT_GE(bytes[0], size_t(8 * view.isect_capacity) + 32 * size_t(UINT32_MAX) * sizeof(uint32_t));
    size_t full, half;
    const auto expect_linear = [&](const char *what, auto of) {
        ASSERT_GS_OK(of(most, &full)) << what;
        ASSERT_GS_OK(of(most / 2, &half)) << what;
        EXPECT_GE(full, size_t(most)) << what;
        EXPECT_NEAR(double(full) / double(half), 2, 0.1) << what;
    };
    expect_linear("moments",
                  [](int64_t n, size_t *b) { return gs_splat_grad_bytes(n, 1000, DISTWAR_FIXED, b); });
    ASSERT_GS_OK(gs_splat_grad_bytes(most, 1000, DISTWAR_FIXED, &full));
    EXPECT_GT(full, size_t(most) * 1000 * sizeof(int64_t));
}

// Values of a picture, Gaussians and pairs: each alone is more than 2^32 bytes.
TEST(Large, PartsOfAViewDoNotOverlap) {
    for (const int channels : {3, 9, 17, 1000}) {
        gs_view view = {};
        gs_gradient gradient = {};
        view.camera.width = view.camera.height = GS_MAX_SIZE;
        view.gaussians.count = most, view.gaussians.channels = channels;
        float color = 0;
        view.gaussians.color = &color;
        view.isect_capacity = (int64_t(1) << 33) + 5;
        gs_view_parts parts = {};
        parts.image = parts.splat_grad = parts.camera_gradient = 1, parts.strategy = DISTWAR_FIXED;
        size_t bytes = 0;
        ASSERT_GS_OK(gs_view_bytes(&view, &parts, &bytes));
        char *const block = reinterpret_cast<char *>(uintptr_t(1) << 20); // nobody looks at the memory
        ASSERT_GS_OK(gs_view_place(&view, &gradient, &parts, block, bytes));
        const size_t pixels = size_t(GS_MAX_SIZE) * GS_MAX_SIZE;
        const struct {
            const void *begin;
            size_t bytes;
        } all[] = {{view.splats, size_t(most) * sizeof(gs_splat)},
                   {view.image.color, pixels * size_t(channels) * sizeof(float)},
                   {view.image.transmittance, pixels * sizeof(float)},
                   {view.image.n_contrib, pixels * sizeof(uint32_t)},
                   {gradient.splat_grad, gradient.splat_grad_bytes},
                   {gradient.camera, sizeof *gradient.camera},
                   {view.workspace, view.workspace_bytes}};
        const char *end = block;
        for (const auto &part : all) {
            EXPECT_GE(static_cast<const char *>(part.begin), end) << channels;
            if (part.begin == gradient.camera) {
                EXPECT_EQ(part.bytes, sizeof(gs_camera_gradient));
            } else {
                EXPECT_GT(part.bytes,
                          channels > 3 && part.begin == view.image.color ? size_t(UINT32_MAX) : 1000);
            }
            end = static_cast<const char *>(part.begin) + part.bytes;
        }
        EXPECT_LE(end, block + bytes);
        EXPECT_EQ(gs_view_place(&view, &gradient, &parts, block, bytes - 16), GS_INVALID_ARGUMENT);
    }
}

} // namespace
