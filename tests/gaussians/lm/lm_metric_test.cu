// SPDX-License-Identifier: MIT
// The metric of the whole loss, against the reference.
#include "lm_frame.h"

namespace lm_tests {

// The metric of the whole loss, found for a frame.
struct lm_metric {
    explicit lm_metric(const lm_frame &frame, bool masked = false)
        : width(frame.choice.width), height(frame.choice.height), values(size_t(3 * frame.pixels())),
          target(frame.scene.target, frame.scene.target + values), weight(values), coupling(values),
          mask(size_t(frame.pixels())), scratch(values),
          mask_on_device(mask_of(&mask)), kernel{width, height, weight.data(), coupling.data(),
                                                 masked ? mask_on_device.data() : NULL} {
        const device_vector<uint8_t> read(target);
        const gs_comparison images = {width, height, frame.color.data(), read.data(), kernel.mask};
        EXPECT_GS_OK(gs_lm_gauss_newton_metric(&images, epsilon, scratch.data(), &kernel, NULL));
    }
    double square(const device_vector<float> &change) const {
        const device_vector<double> sum(std::vector<double>{0});
        EXPECT_GS_OK(gs_lm_metric_add_square(&kernel, change.data(), sum.data(), NULL));
        return sum.read()[0];
    }
    std::vector<float> times(const std::vector<float> &change) const {
        const device_vector<float> picture(change);
        EXPECT_GS_OK(gs_lm_metric_apply(&kernel, scratch.data(), picture.data(), NULL));
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

  private:
    static std::vector<uint8_t> mask_of(std::vector<uint8_t> *mask) {
        for (size_t i = 0; i < mask->size(); i++) (*mask)[i] = i % 5 && i / 40 % 3 ? 7 : 0;
        return *mask;
    }
};

void compare_metric(const lm_frame &frame, bool masked) {
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
            EXPECT_NEAR(metric.square(device_vector<float>(change)), wanted, 1e-4 * wanted);
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
    ASSERT_GS_OK(gs_lm_metric_diagonal(&metric.kernel, diagonal.data(), NULL));
    const std::vector<float> read = diagonal.read();
    for (size_t i = 3; i < metric.values; i += metric.values / 5) {
        std::vector<double> one(metric.values);
        one[i] = 1;
        EXPECT_NEAR(read[i], expected(one), 1e-4 * expected(one)) << i;
    }
}

TEST_P(Lm, MetricIsThatOfTheReference) {
    const lm_frame frame(GetParam());
    compare_metric(frame, false);
    compare_metric(frame, true);
}

} // namespace lm_tests
