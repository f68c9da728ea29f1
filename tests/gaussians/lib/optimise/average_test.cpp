// SPDX-License-Identifier: MIT
// gs_average against means in double precision.
#include "kernel_frame.h"

#include <limits>
#include <math.h>
#include <random>
#include <string>

namespace {

device_gaussians random_sample(int64_t count, int sh_degree, std::mt19937 &random) {
    reference_gaussians sample = reference_gaussians_create(count, sh_degree);
    for (int64_t i = 0; i < reference_gaussians_values(&sample); i++)
        sample.mean[i] = float(random()) / 4294967296.0f - 0.3f;
    device_gaussians out(sample);
    reference_gaussians_destroy(&sample);
    return out;
}

TEST(Average, IsTheMeanOfAllSamples) {
    std::mt19937 random(3);
    const int shapes[][2] = {{0, 0}, {1, 0}, {1, 3}, {85, 3}, {257, 1}, {1000, 2}};
    for (const auto &[count, degree] : shapes) {
        SCOPED_TRACE(std::to_string(count) + " Gaussians of degree " + std::to_string(degree));
        reference_gaussians nan = reference_gaussians_create(count, degree);
        for (int64_t i = 0; i < reference_gaussians_values(&nan); i++)
            nan.mean[i] = std::numeric_limits<double>::quiet_NaN(); // replaced by the first sample
        const device_gaussians average(nan);
        reference_gaussians_destroy(&nan);
        std::vector<double> sums;
        for (int64_t samples = 1; samples <= 6; samples++) {
            const device_gaussians sample = random_sample(count, degree, random);
            const std::vector<double> values = sample.values();
            sums.resize(values.size());
            for (size_t i = 0; i < values.size(); i++) sums[i] += values[i];
            ASSERT_GS_OK(gs_average(average.get(), sample.get(), samples, nullptr));
            std::vector<double> mean = sums;
            for (double &value : mean) value /= double(samples);
            EXPECT_LE(relative_norm(average.values(), mean), 1e-6) << samples << " samples";
            EXPECT_EQ(sample.values(), values);
        }
    }
}

TEST(Average, OfEqualSamplesIsExact) {
    std::mt19937 random(4);
    const device_gaussians sample = random_sample(50, 2, random), average(50, 2);
    for (int64_t samples = 1; samples <= 7; samples++)
        ASSERT_GS_OK(gs_average(average.get(), sample.get(), samples, nullptr));
    EXPECT_EQ(average.values(), sample.values());
}

TEST(Average, RefusesWhatItCannotTake) {
    const device_gaussians two(2, 1), three(3, 1), other(2, 2);
    EXPECT_EQ(gs_average(two.get(), three.get(), 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_average(two.get(), other.get(), 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_average(two.get(), nullptr, 1, nullptr), GS_INVALID_ARGUMENT);
    expect_refused(gs_average(two.get(), two.get(), 0, nullptr), "samples must be 1 or more");
}

} // namespace
