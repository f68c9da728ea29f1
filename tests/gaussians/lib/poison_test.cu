// SPDX-License-Identifier: MIT
// NaN and infinities in a few Gaussians reach neither the picture nor the gradients of others: where they cull a
// Gaussian, all bits are those of a scene in which it cannot be seen.
#include "kernel_frame.h"
#include <cmath>
#include <limits>

namespace {

struct step_outcome {
    std::vector<float> image;
    std::vector<gs_splat> splats;
    std::vector<float> mean2d, camera;
    std::vector<double> gradients;
};

// All that a step makes of the frame's Gaussians as they are now, by sums that do not depend on the order.
step_outcome step_of(const kernel_frame &frame) {
    view_step step(frame);
    const device_vector<float> d_color(random_floats(1, size_t(3 * frame.pixels()), -1, 1)),
        d_alpha(random_floats(2, size_t(frame.pixels()), -1, 1));
    step.gradient.camera = step.camera.data();
    step.gradient.color = d_color.data(), step.gradient.alpha = d_alpha.data();
    EXPECT_GS_OK(gs_forward(&step.view, NULL));
    step.backward({DISTWAR_FIXED, 0});
    return {step.color(), step.splats.read(), step.mean2d.read(),
            step.floats(step.camera.data(), sizeof(gs_camera_gradient) / sizeof(float)),
            step.gradients.values()};
}

using pointer_to_array = float *gs_gaussians::*;
struct array {
    const char *name;
    pointer_to_array member;
    int width;
};

class Poison : public testing::TestWithParam<scene_choice> {};

TEST_P(Poison, StaysInItsGaussians) {
    const kernel_frame frame(GetParam());
    const gs_gaussians &g = *frame.gaussians.get();
    const int sh = 3 * (g.sh_degree + 1) * (g.sh_degree + 1);
    const array arrays[] = {{"mean", &gs_gaussians::mean, 3},
                            {"log_scale", &gs_gaussians::log_scale, 3},
                            {"quaternion", &gs_gaussians::quaternion, 4},
                            {"opacity_logit", &gs_gaussians::opacity_logit, 1},
                            {"sh", &gs_gaussians::sh, sh},
                            {"color", &gs_gaussians::color, 3},
                            {"covariance", &gs_gaussians::covariance, 6}};
    const float poisons[] = {NAN, INFINITY, -INFINITY};
    std::vector<int64_t> rows; // visible, of the ordinary kind
    const std::vector<gs_splat> seen = frame.splats.read();
    for (int64_t i = 0; rows.size() < std::size(poisons); i += 2)
        if (seen[size_t(i)].depth > 0) rows.push_back(i);
    int culled = 0;
    for (const array &a : arrays) {
        float *const values = g.*a.member;
        if (!values) continue;
        SCOPED_TRACE(a.name);
        const auto put = [](float *at, float value) {
            float before;
            device_download(&before, at, sizeof before);
            device_upload(at, &value, sizeof value);
            return before;
        };
        float before[std::size(poisons)], logit[std::size(poisons)] = {};
        for (size_t k = 0; k < rows.size(); k++)
            before[k] = put(values + (rows[k] + 1) * a.width - 1, poisons[k]);
        const step_outcome got = step_of(frame);
        bool is_culled[std::size(poisons)];
        for (size_t k = 0; k < rows.size(); k++) {
            is_culled[k] = got.splats[size_t(rows[k])].depth == 0;
            culled += is_culled[k];
            if (!is_culled[k]) continue;
            put(values + (rows[k] + 1) * a.width - 1, before[k]);
            logit[k] = put(g.opacity_logit + rows[k], -100);
        }
        const step_outcome wanted = step_of(frame);
        EXPECT_EQ(got.image, wanted.image);
        EXPECT_EQ(got.camera, wanted.camera);
        EXPECT_EQ(got.mean2d, wanted.mean2d);
        EXPECT_TRUE(is_culled[0]) << "NaN";
        for (const auto *all : {&got.image, &got.camera})
            for (const float value : *all) ASSERT_TRUE(std::isfinite(value));
        size_t at = 0; // rows of one array follow the rows of the one before
        for (const array &of : arrays) {
            if (of.member == &gs_gaussians::color ? !g.color
                                                  : of.member == &gs_gaussians::covariance && !g.covariance)
                continue;
            for (int64_t i = 0; i < g.count; i++)
                for (int c = 0; c < of.width; c++, at++) {
                    ASSERT_EQ(got.gradients[at], wanted.gradients[at]) << of.name << " of " << i;
                    ASSERT_TRUE(std::isfinite(got.gradients[at]) || i == rows[1] || i == rows[2])
                        << of.name << " of " << i;
                }
        }
        EXPECT_EQ(at, got.gradients.size());
        for (size_t k = 0; k < rows.size(); k++) {
            if (is_culled[k]) put(g.opacity_logit + rows[k], logit[k]);
            put(values + (rows[k] + 1) * a.width - 1, before[k]);
        }
    }
    EXPECT_GE(culled, 8);
}

INSTANTIATE_TEST_SUITE_P(
    Scenes, Poison,
    testing::Values(scene_choice{4, 160, 3, 3, 61, 45}, scene_choice{12, 160, 0, 0, 48, 40, true, true},
                    scene_choice{17, 160, 1, 1, 52, 40, false, false, 0, true, GS_FISHEYE}));

} // namespace
