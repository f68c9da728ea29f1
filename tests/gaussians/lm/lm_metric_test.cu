// SPDX-License-Identifier: MIT
// The metric of the whole loss, and the weights of residuals of one pixel each, against the reference.
#include "lm_frame.h"

namespace lm_tests {

std::vector<uint8_t> some_mask(int64_t pixels) {
    std::vector<uint8_t> mask;
    for (int64_t i = 0; i < pixels; i++) mask.push_back(i % 5 && i / 40 % 3 ? 7 : 0);
    return mask;
}

// The metric of the whole loss, found for a frame.
struct lm_metric {
    explicit lm_metric(const lm_frame &frame, bool masked = false)
        : width(frame.choice.width), height(frame.choice.height), values(size_t(3 * frame.pixels())),
          target(frame.scene.target, frame.scene.target + values), weight(values), coupling(values),
          mask(some_mask(frame.pixels())), scratch(values),
          mask_on_device(mask), kernel{width, height, weight.data(), coupling.data(),
                                       masked ? mask_on_device.data() : NULL} {
        const device_vector<uint8_t> read(target);
        const gs_comparison images = {width, height, frame.color.data(), read.data(), kernel.mask};
        EXPECT_GS_OK(gs_lm_gauss_newton_metric(&images, epsilon, &kernel));
    }
    std::vector<float> times(const std::vector<float> &change) const {
        const device_vector<float> picture(change);
        EXPECT_GS_OK(gs_lm_metric_apply(&kernel, scratch.data(), picture.data()));
        return picture.read();
    }
    int width, height;
    size_t values;
    std::vector<uint8_t> target;
    device_vector<float> weight, coupling;
    std::vector<uint8_t> mask;
    device_vector<float> scratch;
    device_vector<uint8_t> mask_on_device;
    gs_lm_metric kernel;
};

TEST_P(Lm, MetricIsThatOfTheReference) {
    const lm_frame frame(GetParam());
    for (const bool masked : {false, true}) {
        const lm_metric metric(frame, masked);
        const std::vector<double> color = doubles(frame.color.read());
        const uint8_t *const mask = masked ? metric.mask.data() : NULL;
        const auto expected = [&](const std::vector<double> &change) {
            return reference_lm_square(color.data(), metric.target.data(), mask, metric.width, metric.height,
                                       epsilon, change.data());
        };
        for (unsigned seed = 1; seed < 3; seed++) {
            // Noise, which windows see little of, and the same sign everywhere, which they see all of.
            const std::vector<float> u = random_floats(seed, metric.values, -1, 1),
                                     v = random_floats(seed + 10, metric.values, 0.9f, 1);
            for (const std::vector<float> &change : {u, v}) {
                const double wanted = expected(doubles(change));
                const std::vector<float> product = metric.times(change);
                EXPECT_NEAR(dot(doubles(product), doubles(change)), wanted, 1e-4 * wanted);
                for (size_t i = 0; masked && i < metric.values; i++) {
                    if (metric.mask[i % metric.mask.size()] == 0) {
                        ASSERT_EQ(product[i], 0) << i;
                    }
                }
            }
            const double left = dot(doubles(metric.times(u)), doubles(v)),
                         right = dot(doubles(metric.times(v)), doubles(u));
            double size = 0;
            const std::vector<float> product = metric.times(u);
            for (size_t i = 0; i < metric.values; i++) size += std::fabs(product[i] * v[i]);
            EXPECT_NEAR(left, right, 1e-5 * size);
        }
        const device_vector<float> diagonal(metric.values);
        ASSERT_GS_OK(gs_lm_metric_diagonal(&metric.kernel, diagonal.data()));
        const std::vector<float> read = diagonal.read();
        for (size_t i = 3; i < metric.values; i += metric.values / 5) {
            std::vector<double> one(metric.values);
            one[i] = 1;
            EXPECT_NEAR(read[i], expected(one), 1e-4 * expected(one)) << i;
        }
    }
}

// What gs_lm_weights writes for a frame's picture.
struct lm_weights {
    lm_weights(const lm_frame &frame, const lm_metric &metric, gs_lm_objective objective) {
        const device_vector<float> on_device(metric.values), slope_on_device(metric.values);
        const device_vector<uint8_t> target(metric.target);
        const device_vector<double> result(1), alone(1);
        const gs_comparison images = {metric.width, metric.height, frame.color.data(), target.data(),
                                      metric.kernel.mask};
        EXPECT_GS_OK(gs_lm_weights(&images, objective, epsilon, result.data(), on_device.data(),
                                   slope_on_device.data()));
        EXPECT_GS_OK(gs_lm_weights(&images, objective, epsilon, alone.data(), NULL, NULL));
        sum = result.read()[0];
        EXPECT_NEAR(alone.read()[0], sum, 1e-12 * sum);
        weight = doubles(on_device.read());
        slope = doubles(slope_on_device.read());
    }
    double sum;
    std::vector<double> weight, slope;
};

void compare_weights(const scene_choice &choice, bool masked) {
    lm_frame frame(choice);
    const lm_metric metric(frame, masked);
    frame.lm.mask = masked ? metric.mask.data() : NULL;
    frame.weigh();
    const lm_weights found(frame, metric, GS_LM_L1_SSIM);
    const std::vector<double> residuals = frame.lm.residuals(frame.lm.base);
    EXPECT_NEAR(found.sum, dot(residuals, residuals), 1e-5 * found.sum);
    EXPECT_LE(relative_norm(found.weight, doubles(frame.weight.read())), 1e-4);
    EXPECT_LE(relative_norm(found.slope, doubles(frame.slope.read())), 1e-4);
}

TEST_P(Lm, WeightsAreTheSquaredSlopesOfTheResiduals) {
    compare_weights(GetParam(), false);
}

TEST(LmMask, WeightsAreThoseOfWhatCounts) {
    compare_weights({5, 48, 1, 1, 31, 27}, true);
}

TEST(LmMask, SquaredDifferencesHaveAWeightOfOne) {
    const lm_frame frame({5, 48, 1, 1, 31, 27});
    for (const bool masked : {false, true}) {
        const lm_metric metric(frame, masked);
        const lm_weights found(frame, metric, GS_LM_L2);
        const size_t pixels = size_t(frame.pixels());
        double sum = 0;
        for (size_t i = 0; i < 3 * pixels; i++) {
            const bool counts = !masked || metric.mask[i % pixels] != 0;
            const double difference =
                frame.lm.base[i] - frame.scene.target[3 * (i % pixels) + i / pixels] / 255.0;
            ASSERT_EQ(found.weight[i], counts);
            ASSERT_NEAR(found.slope[i], counts ? difference : 0, 1e-6);
            sum += counts ? difference * difference : 0;
        }
        EXPECT_NEAR(found.sum, sum, 1e-5 * sum);
    }
}

} // namespace lm_tests
