// SPDX-License-Identifier: MIT
// The way forward with memory that grows: lists that do not fit are binned again with room for them.
#include "distwar_gs.h"
#include "frame.h"
#include <cmath>
#include <device.h>
#include <gtest/gtest.h>
#include <vector>

namespace {

constexpr int side = 40, count = 60;

// Gaussians in front of a camera, and a view of them with memory for splats and image.
struct scene {
    scene() : gaussians(device_gaussians_open(count, 0)) {
        std::vector<float> mean(3 * count), log_scale(3 * count, std::log(0.3f)), quaternion(4 * count);
        std::vector<float> logit(count, 1), sh(3 * count, 0.5f);
        for (int i = 0; i < count; i++) {
            mean[size_t(3 * i)] = float(i % 8) / 4 - 1;
            mean[size_t(3 * i + 1)] = float(i / 8) / 4 - 1;
            mean[size_t(3 * i + 2)] = 3 + 0.01f * float(i);
            quaternion[size_t(4 * i)] = 1;
        }
        const gs_gaussians host = {count,
                                   0,
                                   mean.data(),
                                   log_scale.data(),
                                   quaternion.data(),
                                   logit.data(),
                                   sh.data(),
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   0,
                                   0,
                                   0,
                                   0,
                                   0};
        device_gaussians_upload(&gaussians, &host);
        view.gaussians = gaussians;
        view.camera = {side,      side, side,       side, side / 2, side / 2, {1, 0, 0, 0, 1, 0, 0, 0, 1},
                       {0, 0, 0}, 0.1f, GS_PINHOLE, {},   0};
        view.splats = static_cast<gs_splat *>(device_buffer_reserve(&splats, count * sizeof(gs_splat)));
        view.image.color =
            static_cast<float *>(device_buffer_reserve(&color, 3 * side * side * sizeof(float)));
        view.image.transmittance =
            static_cast<float *>(device_buffer_reserve(&transmittance, side * side * sizeof(float)));
        view.image.n_contrib =
            static_cast<uint32_t *>(device_buffer_reserve(&n_contrib, side * side * sizeof(uint32_t)));
    }
    ~scene() {
        for (device_buffer *buffer : {&splats, &color, &transmittance, &n_contrib, &workspace})
            device_buffer_close(buffer);
        device_gaussians_close(&gaussians);
    }
    scene(const scene &) = delete;
    scene &operator=(const scene &) = delete;

    std::vector<float> render() {
        render_view(&view, &workspace, nullptr);
        std::vector<float> picture(3 * side * side);
        device_download(picture.data(), view.image.color, picture.size() * sizeof(float));
        return picture;
    }

    gs_gaussians gaussians;
    gs_view view = {};
    device_buffer splats = {}, color = {}, transmittance = {}, n_contrib = {}, workspace = {};
};

TEST(RenderView, ListsThatDoNotFitAreBinnedAgain) {
    scene roomy, tight;
    roomy.view.isect_capacity = 100000;
    const std::vector<float> expected = roomy.render();
    EXPECT_EQ(roomy.view.isect_capacity, 100000) << "what fits stays";
    const int64_t isects = roomy.view.ranges.isects;
    ASSERT_GT(isects, count);

    for (const int64_t capacity : {int64_t(0), isects - 1}) {
        tight.view.isect_capacity = capacity;
        EXPECT_EQ(tight.render(), expected) << capacity;
        EXPECT_EQ(tight.view.ranges.isects, isects);
        EXPECT_EQ(tight.view.isects_needed, isects);
        EXPECT_EQ(tight.view.isect_capacity, isects + isects / 4);
    }
    tight.view.isect_capacity = isects;
    EXPECT_EQ(tight.render(), expected);
    EXPECT_EQ(tight.view.isect_capacity, isects) << "exactly enough is enough";
}

TEST(RenderView, TheWorkspaceIsTheBuffer) {
    scene s;
    s.render();
    size_t needed = 0;
    ASSERT_EQ(gs_bin_bytes(&s.view, &needed), GS_OK);
    EXPECT_EQ(s.view.workspace, s.workspace.memory);
    EXPECT_EQ(s.view.workspace_bytes, needed);
    EXPECT_GE(s.workspace.bytes, needed);
    const char *begin = static_cast<const char *>(s.workspace.memory);
    const char *list = reinterpret_cast<const char *>(s.view.ranges.splat_index);
    EXPECT_GE(list, begin);
    EXPECT_LT(list, begin + needed);
}

} // namespace
