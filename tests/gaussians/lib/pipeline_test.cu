// SPDX-License-Identifier: MIT
// From stored parameters to the loss and back, all stages chained, against the reference with decisions
// replayed.
#include "kernel_frame.h"
#include <algorithm>
#include <cmath>

namespace {

class Pipeline : public testing::TestWithParam<scene_choice> {};

TEST_P(Pipeline, GradientsAgreeWithTheReference) {
    kernel_frame frame(GetParam());
    const int width = frame.choice.width, height = frame.choice.height;
    const std::vector<float> alpha_weight = random_floats(31, size_t(frame.pixels()), -1e-3f, 1e-3f);

    const device_vector<uint8_t> target(
        std::vector<uint8_t>(frame.scene.target, frame.scene.target + 3 * frame.pixels()));
    const device_vector<double> result(3);
    const device_vector<float> d_color(size_t(3 * frame.pixels())), d_alpha(alpha_weight);
    const device_vector<gs_moments> moments(size_t(frame.choice.count));
    const device_vector<float> d_mean2d(size_t(2 * frame.choice.count)),
        abs_mean2d(size_t(2 * frame.choice.count));
    // Every second scene with a depth and absolute gradients, half of these with a normalised depth, half with
    // an inverse one.
    const bool extras = frame.choice.seed % 2 == 1;
    const std::vector<float> depth_weight = random_floats(32, size_t(frame.pixels()), -1e-3f, 1e-3f);
    const device_vector<float> d_depth(depth_weight);
    if (extras) {
        frame.view.image.depth = frame.depth.data();
        frame.view.normalize_depth = frame.choice.seed % 4 == 1;
        frame.view.inverse_depth = frame.choice.seed % 8 > 4;
        ASSERT_GS_OK(gs_render(&frame.view, NULL));
    }
    // NaN, so that a value that is not written shows.
    reference_gaussians unwritten = reference_gaussians_create(frame.choice.count, frame.choice.sh_degree);
    reference_gaussians_extend(&unwritten, frame.choice.color, frame.choice.covariance);
    std::fill_n(unwritten.mean, reference_gaussians_values(&unwritten), NAN);
    const device_gaussians gradients(unwritten);
    reference_gaussians_destroy(&unwritten);
    size_t bytes;
    ASSERT_GS_OK(gs_loss_bytes(width, height, &bytes));
    const device_vector<char> workspace(bytes);
    const gs_comparison images = {width, height, frame.color.data(), target.data(), nullptr};
    ASSERT_GS_OK(gs_loss(&images, workspace.data(), bytes, result.data(), d_color.data(), NULL));
    gs_gradient gradient = {};
    gradient.color = d_color.data(), gradient.alpha = d_alpha.data();
    gradient.moments = moments.data(), gradient.moments_bytes = sizeof(gs_moments) * frame.choice.count;
    gradient.gaussians = *gradients.get(), gradient.mean2d = d_mean2d.data();
    ASSERT_GS_OK(gs_camera_gradient_bytes(frame.choice.count, &gradient.camera_bytes));
    const device_vector<char> d_camera(std::vector<char>(gradient.camera_bytes, char(0x7f))); // NaN
    gradient.camera = reinterpret_cast<gs_camera_gradient *>(d_camera.data());
    if (extras) gradient.depth = d_depth.data(), gradient.abs_mean2d = abs_mean2d.data();
    ASSERT_GS_OK(gs_backward(&frame.view, &gradient, {DISTWAR_BFLY, 8}, NULL));

    reference_decisions taken = frame.decisions();
    const std::vector<double> weight(alpha_weight.begin(), alpha_weight.end());
    const std::vector<double> weight_of_depth(depth_weight.begin(), depth_weight.end());
    const reference_problem problem = {
        &frame.scene.gaussians,
        frame.choice.sh_degree_used,
        &frame.scene.camera,
        {frame.scene.background[0], frame.scene.background[1], frame.scene.background[2]},
        frame.scene.target,
        weight.data(),
        extras ? weight_of_depth.data() : NULL,
        frame.view.normalize_depth,
        frame.view.inverse_depth};
    reference_outputs expected = {};
    std::vector<double> expected_mean2d(size_t(2 * frame.choice.count)), expected_abs(expected_mean2d.size());
    expected.gradients = reference_gaussians_create(frame.choice.count, frame.choice.sh_degree);
    reference_gaussians_extend(&expected.gradients, frame.choice.color, frame.choice.covariance);
    expected.mean2d_gradient = expected_mean2d.data();
    reference_camera_gradient by_camera;
    expected.camera_gradient = &by_camera;
    expected.abs_mean2d_gradient = expected_abs.data();
    reference_pipeline(&problem, &taken, NULL, &expected);

    const std::vector<double> value = result.read();
    EXPECT_NEAR(value[0], expected.value.loss, 1e-5 * expected.value.loss);
    EXPECT_NEAR(value[1], expected.value.l1, 1e-5 * expected.value.l1);
    EXPECT_NEAR(value[2], expected.value.ssim, 1e-5);

    reference_gaussians got = gradients.read();
    const auto compare = [&](const char *group, const double *a, const double *b, int64_t values) {
        const std::vector<double> wanted(b, b + values);
        EXPECT_LE(relative_norm({a, a + values}, wanted), 1e-4) << group;
    };
    const int64_t n = frame.choice.count, rows = (frame.choice.sh_degree + 1) * (frame.choice.sh_degree + 1);
    compare("mean", got.mean, expected.gradients.mean, 3 * n);
    compare("log_scale", got.log_scale, expected.gradients.log_scale, 3 * n);
    compare("quaternion", got.quaternion, expected.gradients.quaternion, 4 * n);
    compare("opacity_logit", got.opacity_logit, expected.gradients.opacity_logit, n);
    compare("sh", got.sh, expected.gradients.sh, 3 * rows * n);
    if (frame.choice.color) compare("color", got.color, expected.gradients.color, 3 * n);
    if (frame.choice.covariance) compare("covariance", got.covariance, expected.gradients.covariance, 6 * n);
    const std::vector<float> mean2d = d_mean2d.read();
    EXPECT_LE(relative_norm({mean2d.begin(), mean2d.end()}, expected_mean2d), 1e-4) << "mean2d";
    const std::vector<float> absolute = abs_mean2d.read();
    if (extras) {
        EXPECT_LE(relative_norm({absolute.begin(), absolute.end()}, expected_abs), 1e-4) << "abs_mean2d";
    }

    gs_camera_gradient camera;
    device_download(&camera, gradient.camera, sizeof camera);
    const auto compare_floats = [](const char *group, const float *a, const double *b, int values) {
        EXPECT_LE(relative_norm({a, a + values}, {b, b + values}), 1e-4) << group;
    };
    compare_floats("camera's matrix", camera.matrix, by_camera.matrix, 12);
    compare_floats("camera's twist", camera.twist, by_camera.twist, 6);
    compare_floats("camera's rotation", camera.twist, by_camera.twist, 3);
    compare_floats("camera's translation", camera.twist + 3, by_camera.twist + 3, 3);
    compare_floats("camera's intrinsics", camera.intrinsics, by_camera.intrinsics, 4);

    // Coefficients beyond the degree in use, and everything of culled Gaussians, are exactly 0.
    const int64_t used = std::min<int64_t>(frame.choice.sh_degree_used + 1, frame.choice.sh_degree + 1);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = taken.splats[i].visible ? used * used : 0; k < rows; k++)
            for (int c = 0; c < 3; c++) ASSERT_EQ(got.sh[(i * rows + k) * 3 + c], 0);
    for (int64_t i = 0; i < n; i++) ASSERT_TRUE(taken.splats[i].visible || got.opacity_logit[i] == 0);

    reference_gaussians_destroy(&got);
    reference_gaussians_destroy(&expected.gradients);
    reference_decisions_destroy(&taken);
}

INSTANTIATE_TEST_SUITE_P(Scenes, Pipeline, testing::ValuesIn(comparison_scenes()));
INSTANTIATE_TEST_SUITE_P(Given, Pipeline, testing::ValuesIn(scenes_with_given_inputs()));

} // namespace
