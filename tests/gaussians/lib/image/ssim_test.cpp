// SPDX-License-Identifier: MIT
// gs_ssim against the double-precision reference, and what must hold without one.
#include "filled_context.h"

#include <distwar_gs.h>
#include <reference.h>

#include <algorithm>
#include <gtest/gtest.h>
#include <math.h>
#include <random>
#include <string>

namespace ssim_test {

struct images {
    reference_ssim_shape shape;
    std::vector<float> first, second;
};

struct outcome {
    gs_status status;
    double value;
    std::vector<float> gradient;
};

gs_ssim_pair pair_of(const images &in, const float *first, const float *second) {
    return {in.shape.width, in.shape.height, int32_t(in.shape.planes), in.shape.valid, first, second};
}

// Outputs and the memory of the context hold NaN beforehand.
outcome run(const images &in, bool want_gradient = true) {
    const device_vector<float> first(in.first), second(in.second),
        gradient(std::vector<float>(in.first.size(), NAN));
    const gs_ssim_pair pair = pair_of(in, first.data(), second.data());
    const device_vector<double> result(std::vector<double>(3, NAN));
    const gs_status status =
        gs_ssim(&pair, result.data(), want_gradient ? gradient.data() : nullptr, filled_context());
    return {status, result.read()[0], gradient.read()};
}

float uniform(std::mt19937 &random, float low, float high) {
    return low + (high - low) * float(random() >> 8) * 0x1p-24f;
}

// kind 0: noise; 1: flat, far apart; 2: flat with a little noise; 3: nearly equal; 4: far outside 0..1.
images make(const reference_ssim_shape &shape, int kind, std::mt19937 &random) {
    const size_t values = size_t(shape.planes) * size_t(shape.width) * size_t(shape.height);
    images in = {shape, std::vector<float>(values), std::vector<float>(values)};
    for (size_t i = 0; i < values; i++) {
        const float noise = uniform(random, -1, 1);
        in.second[i] = kind == 1   ? 0.5f
                       : kind == 2 ? 0.9f + 0.01f * uniform(random, -1, 1)
                                   : uniform(random, 0, 1);
        in.first[i] = kind == 0   ? 0.5f + 0.5f * noise
                      : kind == 1 ? 0.9f
                      : kind == 2 ? 0.9f + 0.01f * noise
                      : kind == 3 ? in.second[i] + 0.02f * noise
                                  : 25 * noise;
    }
    return in;
}

const reference_ssim_shape shapes[] = {{1, 1, 1, 0},   {5, 3, 2, 0},   {33, 50, 3, 0}, {70, 9, 5, 0},
                                       {11, 11, 1, 1}, {12, 40, 3, 1}, {43, 65, 2, 1}, {32, 32, 40, 1}};

TEST(Ssim, AgreesWithTheReference) {
    std::mt19937 random(1);
    for (const reference_ssim_shape &shape : shapes)
        for (int kind = 0; kind < 5; kind++) {
            SCOPED_TRACE(std::to_string(kind) + ": " + std::to_string(shape.width) + "x" +
                         std::to_string(shape.height) + (shape.valid ? " valid" : ""));
            const images in = make(shape, kind, random);
            const std::vector<double> first(in.first.begin(), in.first.end()),
                second(in.second.begin(), in.second.end());
            std::vector<double> gradient(first.size());
            const double value = reference_ssim(first.data(), second.data(), &shape, gradient.data());
            const outcome out = run(in);
            ASSERT_EQ(out.status, GS_OK) << gs_last_error();
            EXPECT_LE(fabs(out.value - value), 1e-6 * fabs(value) + 1e-7);
            double difference = 0, norm = 0;
            for (size_t i = 0; i < first.size(); i++) {
                difference += pow(out.gradient[i] - gradient[i], 2);
                norm += pow(gradient[i], 2);
            }
            // Flat, yet far apart: a sum of terms that are 600 times as large.
            const double tolerance = kind == 1 ? 3e-4 : 1e-5;
            EXPECT_LE(sqrt(difference), tolerance * sqrt(norm));
        }
}

// The reference's own gradient, by central differences.
TEST(Ssim, ReferenceHasTheDerivativesOfItsValue) {
    std::mt19937 random(2);
    for (const int valid : {0, 1}) {
        const reference_ssim_shape shape = {19, 14, 2, valid};
        const images in = make(shape, 0, random);
        std::vector<double> first(in.first.begin(), in.first.end()), gradient(first.size()),
            direction(first.size());
        const std::vector<double> second(in.second.begin(), in.second.end());
        reference_ssim(first.data(), second.data(), &shape, gradient.data());
        double slope = 0, moved[2];
        for (size_t i = 0; i < first.size(); i++)
            slope += gradient[i] * (direction[i] = uniform(random, -1, 1));
        for (int side = 0; side < 2; side++) {
            std::vector<double> at = first;
            for (size_t i = 0; i < at.size(); i++) at[i] += (side ? -1e-6 : 1e-6) * direction[i];
            moved[side] = reference_ssim(at.data(), second.data(), &shape, nullptr);
        }
        EXPECT_LE(fabs((moved[0] - moved[1]) / 2e-6 - slope), 1e-6 * fabs(slope) + 1e-10);
    }
}

TEST(Ssim, OfEqualImagesIsOne) {
    std::mt19937 random(3);
    for (const reference_ssim_shape &shape : shapes) {
        images in = make(shape, 0, random);
        in.first = in.second;
        const outcome out = run(in);
        EXPECT_LE(fabs(out.value - 1), 1e-6);
        for (const float g : out.gradient) ASSERT_LE(fabs(g) * float(in.first.size()), 1e-3f);
    }
}

TEST(Ssim, ValueAloneIsTheSame) {
    std::mt19937 random(4);
    const images in = make({43, 65, 2, 1}, 0, random);
    const outcome both = run(in), value = run(in, false);
    EXPECT_LE(fabs(value.value - both.value), 1e-9); // as of gs_loss
    for (const float g : value.gradient) ASSERT_TRUE(isnan(g)) << "written without being asked for";
}

TEST(Ssim, NaNShowsAndStaysInItsPlane) {
    std::mt19937 random(5);
    const images in = make({40, 30, 3, 0}, 0, random);
    const outcome clean = run(in);
    images bad = in;
    bad.second[40 * 30 + 15 * 40 + 20] = NAN;
    const outcome out = run(bad);
    EXPECT_TRUE(isnan(out.value));
    for (size_t i = 0; i < in.first.size(); i++) {
        const int x = int(i % 40), y = int(i / 40 % 30);
        if (i / 1200 == 1 && std::max(abs(x - 20), abs(y - 15)) <= 10)
            ASSERT_TRUE(isnan(out.gradient[i])) << x << ", " << y;
        else
            ASSERT_EQ(out.gradient[i], clean.gradient[i]) << x << ", " << y;
    }
}

TEST(Ssim, RefusesBadArguments) {
    std::mt19937 random(6);
    const images in = make({12, 12, 1, 1}, 0, random);
    const device_vector<float> first(in.first), second(in.second), gradient(in.first.size());
    const device_vector<double> result(3);
    const gs_ssim_pair good = pair_of(in, first.data(), second.data());
    const auto status = [&](const gs_ssim_pair &pair) {
        return gs_ssim(&pair, result.data(), gradient.data(), nullptr);
    };
    EXPECT_EQ(status(good), GS_OK);
    gs_ssim_pair bad[] = {good, good, good, good, good, good, good};
    bad[0].width = 10; // smaller than a window
    bad[1].height = 0;
    bad[2].planes = 0;
    bad[3].planes = 65536;
    bad[4].first = nullptr;
    bad[5].second = nullptr;
    bad[6].width = 16384, bad[6].height = 16384, bad[6].planes = 65535;
    for (const gs_ssim_pair &pair : bad) {
        EXPECT_EQ(status(pair), GS_INVALID_ARGUMENT);
        EXPECT_NE(std::string(gs_last_error()).find("gs_ssim: "), std::string::npos);
    }
    EXPECT_EQ(gs_ssim(&good, nullptr, gradient.data(), nullptr), GS_INVALID_ARGUMENT);
}

} // namespace ssim_test
