// SPDX-License-Identifier: MIT
// NaN and infinities in a few Gaussians reach neither the picture nor the gradients of others: where they cull a
// Gaussian, all bits are those of a scene in which it cannot be seen.
#include "queued_frame.h"
#include <cmath>

namespace {

struct step_outcome {
    std::vector<float> image;
    std::vector<gs_splat> splats;
    std::vector<float> mean2d, camera;
    std::vector<double> gradients;
};

// All that a step makes of the frame's Gaussians as they are now, by sums that do not depend on the order.
step_outcome step_of(const kernel_frame &frame) {
    queued_frame step(frame, 100000);
    const device_vector<float> d_alpha(random_floats(2, size_t(step.pixels), -1, 1));
    step.gradient.camera = step.camera.data(), step.gradient.alpha = d_alpha.data();
    step.forward();
    EXPECT_GS_OK(gs_settle(&step.view, NULL));
    step.backward();
    return {step.picture(), step.splats.read(), step.mean2d.read(),
            step.floats(step.camera.data(), sizeof(gs_camera_gradient) / sizeof(float)),
            step.gradients.values()};
}

class Poison : public testing::TestWithParam<scene_choice> {};

TEST_P(Poison, StaysInItsGaussians) {
    const kernel_frame frame(GetParam());
    const scene_choice &c = GetParam();
    const int64_t count = c.count;
    const struct {
        const char *name;
        int width;
        bool is_in_values, is_read;
    } arrays[] = {{"mean", 3, true, true},
                  {"log_scale", 3, true, !c.covariance},
                  {"quaternion", 4, true, !c.covariance},
                  {"opacity_logit", 1, true, true},
                  {"sh", 3 * (c.sh_degree + 1) * (c.sh_degree + 1), true, !c.color},
                  {"color", 3, c.color, c.color},
                  {"covariance", 6, c.covariance, c.covariance}};
    const std::vector<double> clean = frame.gaussians.values();
    std::vector<int64_t> owner; // of each value
    for (const auto &a : arrays)
        for (int64_t k = 0; a.is_in_values && k < count * a.width; k++) owner.push_back(k / a.width);
    ASSERT_EQ(owner.size(), clean.size());
    const double poisons[] = {NAN, INFINITY, -INFINITY};
    std::vector<int64_t> rows; // visible, of the ordinary kind
    const std::vector<gs_splat> seen = frame.splats.read();
    for (int64_t i = 0; rows.size() < std::size(poisons); i += 2)
        if (seen[size_t(i)].depth > 0) rows.push_back(i);
    int culled = 0;
    size_t first = 0; // of the array's values
    for (const auto &a : arrays) {
        const size_t begin = first;
        first += a.is_in_values ? size_t(count * a.width) : 0;
        if (!a.is_read) continue;
        SCOPED_TRACE(a.name);
        std::vector<double> poisoned = clean;
        for (size_t k = 0; k < rows.size(); k++)
            poisoned[begin + size_t((rows[k] + 1) * a.width - 1)] = poisons[k];
        frame.gaussians.write(poisoned);
        const step_outcome got = step_of(frame);
        std::vector<double> unseen = poisoned;
        for (const int64_t row : rows) {
            if (got.splats[size_t(row)].depth > 0) continue;
            culled++;
            const size_t last = begin + size_t((row + 1) * a.width - 1);
            unseen[last] = clean[last], unseen[size_t(10 * count + row)] = -100;
        }
        frame.gaussians.write(unseen);
        const step_outcome wanted = step_of(frame);
        frame.gaussians.write(clean);
        EXPECT_EQ(got.image, wanted.image);
        EXPECT_EQ(got.camera, wanted.camera);
        EXPECT_EQ(got.mean2d, wanted.mean2d);
        EXPECT_EQ(got.splats[size_t(rows[0])].depth, 0) << "NaN";
        for (const auto *all : {&got.image, &got.camera})
            for (const float value : *all) ASSERT_TRUE(std::isfinite(value));
        for (size_t k = 0; k < owner.size(); k++) {
            ASSERT_EQ(got.gradients[k], wanted.gradients[k]) << "of " << owner[k];
            ASSERT_TRUE(std::isfinite(got.gradients[k]) || owner[k] == rows[1] || owner[k] == rows[2])
                << "of " << owner[k];
        }
    }
    EXPECT_GE(culled, 8);
}

INSTANTIATE_TEST_SUITE_P(
    Scenes, Poison,
    testing::Values(scene_choice{4, 160, 3, 3, 61, 45}, scene_choice{12, 160, 0, 0, 48, 40, true, true},
                    scene_choice{17, 160, 1, 1, 52, 40, false, false, 0, true, GS_FISHEYE}));

} // namespace
