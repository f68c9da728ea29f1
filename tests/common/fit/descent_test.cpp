// SPDX-License-Identifier: MIT
#include "fit/fit.h"
#include "device_vector.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace {

struct descent {
    double loss;
    std::vector<float> gradient;
};

descent loss_of(const std::vector<float> &value, const std::vector<float> &target) {
    const int64_t count = int64_t(value.size());
    const device_vector<float> values(value), targets(target), gradient(value.size());
    const device_vector<char> loss(size_t{L1_LOSS_BYTES});
    l1_loss(values.data(), targets.data(), count, loss.data(), gradient.data());
    const descent out = {l1_loss_read(loss.data(), count), gradient.read()};
    l1_loss(values.data(), targets.data(), count, loss.data(), NULL);
    const double again = l1_loss_read(loss.data(), count);
    EXPECT_TRUE(again == out.loss || (std::isnan(again) && std::isnan(out.loss)));
    return out;
}

TEST(L1Loss, IsTheMeanDifferenceWithItsSlope) {
    for (const size_t count : {1u, 31u, 2048u, 2049u, 30011u}) {
        std::mt19937 random{unsigned(count)};
        std::vector<float> value(count), target(count);
        double sum = 0;
        for (size_t i = 0; i < count; i++) {
            value[i] = float(random()) / 4294967296.0f;
            target[i] = i % 7 == 0 ? value[i] : float(random()) / 4294967296.0f;
            sum += std::abs(double(value[i]) - target[i]);
        }
        const descent result = loss_of(value, target);
        EXPECT_NEAR(result.loss, sum / double(count), 1e-6) << count;
        for (size_t i = 0; i < count; i++) {
            const float slope = float(1.0 / double(count));
            ASSERT_EQ(result.gradient[i], value[i] > target[i] ? slope : value[i] < target[i] ? -slope : 0);
        }
    }
}

TEST(L1Loss, OfANanIsNan) {
    std::vector<float> value(5000, 0.5f);
    value[4321] = NAN;
    EXPECT_TRUE(std::isnan(loss_of(value, std::vector<float>(5000, 0.25f)).loss));
}

// By 1 at first, whatever the gradient; the groups' moments lie one after the other.
TEST(AdamGroups, StepByTheRateOfEach) {
    const adam_group groups[] = {{5, 0.1f}, {3, 0.2f}, {0, 1}, {2001, 0.4f}};
    const size_t count = 2009;
    const device_vector<float> values(std::vector<float>(count, 1)), gradient(std::vector<float>(count, 3)),
        both_moments(std::vector<float>(2 * count));
    adam_groups_step(values.data(), gradient.data(), both_moments.data(), groups, 4, 0.5f, 1);
    const std::vector<float> value = values.read(), moments = both_moments.read();
    for (size_t i = 0; i < count; i++) {
        ASSERT_NEAR(1 - value[i], i < 5 ? 0.05 : i < 8 ? 0.1 : 0.2, 1e-6) << i;
        ASSERT_NEAR(moments[i], 0.3, 1e-6) << i;
        ASSERT_NEAR(moments[count + i], 0.009, 1e-7) << i;
    }
}

} // namespace
