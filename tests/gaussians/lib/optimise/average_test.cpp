// SPDX-License-Identifier: MIT
// gs_average against means in double precision.
#include "kernel_frame.h"

#include <limits>
#include <math.h>
#include <random>
#include <string>

namespace {

// As one array, on the host.
std::vector<double> values_of(const device_gaussians &device) {
    reference_gaussians read = device.read();
    std::vector<double> out(read.mean, read.mean + reference_gaussians_values(&read));
    reference_gaussians_destroy(&read);
    return out;
}

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
            const std::vector<double> values = values_of(sample);
            sums.resize(values.size());
            for (size_t i = 0; i < values.size(); i++) sums[i] += values[i];
            ASSERT_GS_OK(gs_average(average.get(), sample.get(), samples, nullptr));
            const std::vector<double> got = values_of(average);
            double difference = 0, norm = 0;
            for (size_t i = 0; i < sums.size(); i++) {
                difference += pow(got[i] - sums[i] / double(samples), 2);
                norm += pow(sums[i] / double(samples), 2);
            }
            EXPECT_LE(sqrt(difference), 1e-6 * sqrt(norm)) << samples << " samples";
            EXPECT_EQ(values_of(sample), values);
        }
    }
}

TEST(Average, OfEqualSamplesIsExact) {
    std::mt19937 random(4);
    const device_gaussians sample = random_sample(50, 2, random), average(50, 2);
    for (int64_t samples = 1; samples <= 7; samples++)
        ASSERT_GS_OK(gs_average(average.get(), sample.get(), samples, nullptr));
    EXPECT_EQ(values_of(average), values_of(sample));
}

TEST(Average, RefusesWhatItCannotTake) {
    const device_gaussians two(2, 1), three(3, 1), other(2, 2);
    EXPECT_EQ(gs_average(two.get(), three.get(), 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_average(two.get(), other.get(), 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_average(two.get(), nullptr, 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_average(two.get(), two.get(), 0, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("samples must be 1 or more"), std::string::npos);
}

} // namespace
