// SPDX-License-Identifier: MIT
//
// The dense form of Levenberg and Marquardt's method: residuals against the loss, the solver against its own
// equations, and a step that lowers the sum of squares.
#include "lm_jacobian.h"

#include <gtest/gtest.h>
#include <numeric>

namespace {

class LmBase {
  public:
    LmBase(uint64_t seed, int64_t count, int degree, int width, int height)
        : scene(reference_scene_create(seed, count, degree, width, height)) {
        lm.problem = {&scene.gaussians, degree, &scene.camera, {}, scene.target, nullptr, nullptr, 0, 0};
        std::copy_n(scene.background, 3, lm.problem.background);
        lm.epsilon = 1e-3;
        outputs.image = reference_image_create(width, height);
        outputs.gradients = reference_gaussians_create(count, degree);
        reference_pipeline(&lm.problem, nullptr, &decisions, &outputs);
        lm.decisions = &decisions;
        lm.base.assign(outputs.image.color, outputs.image.color + 3 * width * height);
        residuals = lm.residuals(lm.base);
    }
    ~LmBase() {
        reference_decisions_destroy(&decisions);
        reference_image_destroy(&outputs.image);
        reference_gaussians_destroy(&outputs.gradients);
        reference_scene_destroy(&scene);
    }
    LmBase(const LmBase &) = delete;

    reference_scene scene;
    LmProblem lm{};
    reference_decisions decisions{};
    reference_outputs outputs{};
    std::vector<double> residuals;
};

double square(const std::vector<double> &v) {
    return std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
}

TEST(Lm, ResidualsAreTheLoss) {
    LmBase base(3, 32, 1, 23, 17);
    std::vector<uint8_t> mask(23 * 17);
    for (size_t i = 0; i < mask.size(); i++) mask[i] = i % 5 && i / 40 % 3;
    for (const bool masked : {false, true}) {
        base.lm.mask = masked ? mask.data() : nullptr;
        reference_loss_value value;
        reference_loss(base.lm.base.data(), base.scene.target, base.lm.mask, 23, 17,
                       base.decisions.sign, nullptr, &value, nullptr);
        const int64_t counted = masked ? std::count(mask.begin(), mask.end(), 1) : 23 * 17;
        EXPECT_NEAR(square(base.lm.residuals(base.lm.base)) / double(3 * counted), value.loss + 1e-3,
                    1e-10 * value.loss);
    }
}

// The squares of the differences themselves over SSIM's windows are 1 - SSIM to the last bit: nothing is left out.
TEST(Lm, TheSquareOfTheDifferencesIsTheLoss) {
    const LmBase base(3, 32, 1, 23, 17);
    const size_t pixels = 23 * 17;
    const double epsilon = 1e-3;
    std::vector<double> difference;
    double of_l1 = 0;
    for (size_t i = 0; i < 3 * pixels; i++) {
        const double d = base.lm.base[i] - base.scene.target[3 * (i % pixels) + i / pixels] / 255.0;
        difference.push_back(d);
        of_l1 += 0.2 * d * d / (std::fabs(d) + epsilon);
    }
    const double expected = of_l1 + 0.2 * double(3 * pixels) * (1 - base.outputs.value.ssim);
    EXPECT_NEAR(reference_lm_square(base.lm.base.data(), base.scene.target, nullptr, 23, 17, epsilon,
                                    difference.data()),
                expected, 1e-10 * expected);
}

// Against the adjoint of the stages, from the slopes of the residuals by the picture.
TEST(Lm, TransposedTimesResidualsIsTheGradient) {
    LmBase base(5, 32, 1, 23, 17);
    const std::vector<double> jacobian = lm_jacobian(base.lm, base.scene);
    const int64_t rows = base.lm.rows(), columns = reference_gaussians_values(&base.scene.gaussians);
    std::vector<reference_splat> splats(32);
    for (int64_t i = 0; i < 32; i++)
        reference_project(&base.scene.gaussians, i, 1, &base.scene.camera, nullptr, &splats[size_t(i)]);
    std::vector<reference_splat_gradient> d_splat(32);
    reference_blend blend{};
    blend.splats = splats.data(), blend.count = 32, blend.ranges = &base.decisions.ranges;
    blend.width = 23, blend.height = 17;
    blend.background = base.scene.background, blend.held = base.decisions.blend;
    const std::vector<double> slope = slopes(base.lm);
    std::vector<double> d_color(base.lm.base.size());
    for (size_t r = 0; r < slope.size(); r++) d_color[r % d_color.size()] += slope[r] * base.residuals[r];
    const reference_image_gradient d_image = {d_color.data(), nullptr, nullptr};
    reference_render_backward(&blend, &d_image, d_splat.data(), nullptr);
    for (int64_t i = 0; i < 32; i++)
        reference_project_backward(&base.scene.gaussians, i, 1, &base.scene.camera, &base.decisions.splats[i],
                                   &d_splat[size_t(i)], &base.outputs.gradients);
    GroupError error;
    for (int64_t k = 0; k < columns; k++)
        error.add(std::inner_product(base.residuals.begin(), base.residuals.end(),
                                     &jacobian[size_t(k * rows)], 0.0),
                  base.outputs.gradients.mean[k]);
    EXPECT_LE(error.relative(), 1e-6);
}

TEST(Lm, SolvesItsEquations) {
    const int64_t rows = 40, columns = 12;
    std::vector<double> jacobian = random_weights(size_t(rows * columns), 1),
                        residuals = random_weights(size_t(rows), 2), update(size_t(columns), NAN);
    std::fill_n(jacobian.begin() + 5 * rows, rows, 0.0);
    const double lambda = 0.25;
    reference_lm_solve(jacobian.data(), residuals.data(), rows, columns, lambda, update.data());
    EXPECT_EQ(update[5], 0);
    for (int64_t i = 0; i < columns; i++) {
        double left = 0;
        for (int64_t r = 0; r < rows; r++) {
            double product = residuals[size_t(r)]; // of J^T (J update + residuals)
            for (int64_t j = 0; j < columns; j++)
                product += jacobian[size_t(j * rows + r)] * update[size_t(j)];
            left += jacobian[size_t(i * rows + r)] * product + lambda * jacobian[size_t(i * rows + r)] *
                                                                   jacobian[size_t(i * rows + r)] *
                                                                   update[size_t(i)];
        }
        EXPECT_NEAR(left, 0, 1e-12);
    }
}

TEST(Lm, AStepLowersTheLoss) {
    LmBase base(5, 32, 1, 23, 17);
    const std::vector<double> jacobian = lm_jacobian(base.lm, base.scene);
    const int64_t columns = reference_gaussians_values(&base.scene.gaussians);
    std::vector<double> update(static_cast<size_t>(columns));
    reference_lm_solve(jacobian.data(), base.residuals.data(), base.lm.rows(), columns, 1, update.data());
    for (int64_t k = 0; k < columns; k++) base.scene.gaussians.mean[k] += 0.05 * update[size_t(k)];
    reference_outputs after{};
    reference_pipeline(&base.lm.problem, nullptr, nullptr, &after);
    EXPECT_LT(after.value.loss, 0.999 * base.outputs.value.loss);
}

} // namespace
