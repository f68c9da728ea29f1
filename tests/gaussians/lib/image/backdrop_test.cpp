// SPDX-License-Identifier: MIT
// gs_backdrop against the blending formula.
#include "density/density_scene.h"

namespace {

TEST(Backdrop, IsWhatBlendingOnTheNewBackgroundGives) {
    const int width = 37, height = 21;
    const size_t pixels = static_cast<size_t>(width) * height;
    std::mt19937 random(1);
    const double old_background[3] = {1, 0.4, 0}, new_background[3] = {0.2, 0.9, 0.55};
    std::vector<double> color(3 * pixels);
    std::vector<uint8_t> picture(3 * pixels), alpha(pixels);
    for (size_t i = 0; i < pixels; i++) {
        alpha[i] = uint8_t(i % 3 == 0 ? 255 : i % 3 == 1 ? 0 : random() % 256);
        const double a = alpha[i] / 255.0;
        for (size_t c = 0; c < 3; c++) {
            color[3 * i + c] = double(random() % 256);
            picture[3 * i + c] = uint8_t(color[3 * i + c] * a + 255 * old_background[c] * (1 - a) + 0.5);
        }
    }
    const float change[3] = {float(0.2 - 1), float(0.9 - 0.4), 0.55f};
    const device_vector<uint8_t> device_picture(picture), device_alpha(alpha), device_moved(3 * pixels);
    ASSERT_GS_OK(gs_backdrop(device_picture.data(), device_alpha.data(), width, height, change,
                             device_moved.data(), nullptr));
    const std::vector<uint8_t> moved = device_moved.read();
    for (size_t i = 0; i < 3 * pixels; i++) {
        const double a = alpha[i / 3] / 255.0;
        // The picture was rounded once before.
        EXPECT_NEAR(moved[i], color[i] * a + 255 * new_background[i % 3] * (1 - a), 1.01) << i;
        if (a == 1) {
            EXPECT_EQ(moved[i], picture[i]);
        }
    }
}

TEST(Backdrop, RefusesBadArguments) {
    const device_vector<uint8_t> bytes(size_t{12});
    const float good[3] = {0, 1, -1}, bad[3] = {0, NAN, 0};
    const auto call = [&](const float change[3], int32_t width) {
        return gs_backdrop(bytes.data(), bytes.data(), width, 2, change, bytes.data(), nullptr);
    };
    EXPECT_EQ(call(bad, 2), GS_INVALID_ARGUMENT);
    EXPECT_EQ(call(nullptr, 2), GS_INVALID_ARGUMENT);
    EXPECT_EQ(call(good, 0), GS_INVALID_ARGUMENT);
    EXPECT_GS_OK(call(good, 2));
}

} // namespace
