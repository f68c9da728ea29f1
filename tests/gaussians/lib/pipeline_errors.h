// SPDX-License-Identifier: MIT
// A scene from its parameters to the loss and back, all stages chained, beside the reference with decisions replayed.
#pragma once

#include "kernel_frame.h"
#include <algorithm>
#include <cmath>

// Every second scene, by its seed, with a depth and absolute gradients; half of these with a normalised depth, half with
// an inverse one. The normalised depth of one Gaussian is its depth, whatever its opacity: a gradient by that is rounding
// alone, so that there is none.
inline std::vector<group_error> pipeline_errors(const scene_choice &choice, distwar_policy policy) {
    kernel_frame frame(choice);
    view_step step(frame); // whose lists are the frame's
    std::vector<group_error> out;
    const int width = choice.width, height = choice.height;
    const size_t count = size_t(choice.count), pixels = size_t(frame.pixels());
    const std::vector<float> alpha_weight = random_floats(31, pixels, -1e-3f, 1e-3f),
                             depth_weight = random_floats(32, pixels, -1e-3f, 1e-3f);
    const device_vector<uint8_t> target(
        std::vector<uint8_t>(frame.scene.target, frame.scene.target + 3 * frame.pixels()));
    const device_vector<double> result(3);
    const device_vector<float> d_color(3 * pixels), d_alpha(alpha_weight), d_depth(depth_weight);
    const bool extras = choice.seed % 2 == 1;
    if (extras) {
        frame.view.image.depth = frame.depth.data();
        frame.view.normalize_depth = choice.seed % 4 == 1 && choice.count > 1;
        frame.view.inverse_depth = choice.seed % 8 > 4;
        EXPECT_GS_OK(gs_render(&frame.view, NULL));
    }
    const gs_loss_image image = loss_image({width, height, frame.color.data(), target.data(), nullptr},
                                           result.data(), d_color.data());
    EXPECT_GS_OK(gs_loss(&image, 1, NULL));
    step.gradient.color = d_color.data(), step.gradient.alpha = d_alpha.data();
    step.gradient.camera = step.camera.data();
    if (extras) step.gradient.depth = d_depth.data(), step.gradient.abs_mean2d = step.abs_mean2d.data();
    EXPECT_GS_OK(gs_backward(&frame.view, &step.gradient, policy, NULL));

    const held_decisions taken = frame.decisions();
    const std::vector<double> weight = doubles(alpha_weight), weight_of_depth = doubles(depth_weight);
    const reference_problem problem = {
        &frame.scene.gaussians,
        choice.sh_degree_used,
        &frame.scene.camera,
        {frame.scene.background[0], frame.scene.background[1], frame.scene.background[2]},
        frame.scene.target,
        weight.data(),
        extras ? weight_of_depth.data() : NULL,
        frame.view.normalize_depth,
        frame.view.inverse_depth};
    reference_outputs expected = {};
    std::vector<double> expected_mean2d(2 * count), expected_abs(2 * count);
    held_gaussians gradients = reference_gaussians_create(choice.count, choice.sh_degree);
    reference_gaussians_extend(&gradients, choice.color, choice.covariance);
    expected.gradients = gradients;
    expected.mean2d_gradient = expected_mean2d.data();
    reference_camera_gradient by_camera;
    expected.camera_gradient = &by_camera;
    expected.abs_mean2d_gradient = expected_abs.data();
    const held_image image_of_reference = reference_image_create(width, height);
    expected.image = image_of_reference;
    reference_pipeline(&problem, &taken, NULL, &expected);

    const std::vector<float> color = frame.color.read();
    double worst = 0;
    for (size_t k = 0; k < color.size(); k++) {
        const double difference = std::abs(color[k] - expected.image.color[k]);
        if (!(difference <= worst)) worst = difference;
    }
    out.push_back({"image", worst});
    const std::vector<double> value = result.read();
    out.push_back({"loss", std::abs(value[0] / expected.value.loss - 1)});
    out.push_back({"L1", std::abs(value[1] - expected.value.l1) / std::max(expected.value.l1, 1e-2)});
    out.push_back({"SSIM", std::abs(value[2] - expected.value.ssim)});

    const held_gaussians got = step.gradients.read();
    for (const group_error &error : group_errors(got, expected.gradients)) out.push_back(error);
    for (const group_error &error : group_errors(step.camera_gradient(), by_camera)) out.push_back(error);
    out.push_back({"mean2d", relative_norm(step.mean2d.read(), expected_mean2d)});
    if (extras) out.push_back({"abs_mean2d", relative_norm(step.abs_mean2d.read(), expected_abs)});

    // Coefficients beyond the degree in use, and everything of culled Gaussians, are exactly 0.
    const int64_t n = choice.count, rows = (choice.sh_degree + 1) * (choice.sh_degree + 1);
    const int64_t used = std::min<int64_t>(choice.sh_degree_used + 1, choice.sh_degree + 1);
    int64_t not_zero = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = taken.splats[i].visible ? used * used : 0; k < rows; k++)
            for (int c = 0; c < 3; c++) not_zero += got.sh[(i * rows + k) * 3 + c] != 0;
        not_zero += !taken.splats[i].visible && got.opacity_logit[i] != 0;
    }
    out.push_back({"values that should be 0", double(not_zero)});

    return out;
}
