// SPDX-License-Identifier: MIT
// gs_depth_loss against the double-precision reference.
#include "filled_context.h"

#include <distwar_gs.h>
#include <reference.h>

#include <gtest/gtest.h>
#include <math.h>
#include <random>

namespace depth_loss_test {

struct depths {
    int width, height;
    std::vector<float> depth, target;
    std::vector<uint8_t> mask; // or empty

    depths(int width_, int height_, uint64_t seed)
        : width(width_), height(height_), depth(size_t(width) * height), target(depth.size()) {
        std::mt19937_64 random(seed);
        for (size_t i = 0; i < depth.size(); i++) {
            depth[i] = float(random() >> 40) * 0x1p-24f;
            target[i] = random() % 9 == 0   ? NAN
                        : random() % 8 == 0 ? depth[i]
                                            : float(random() >> 40) * 0x1p-24f;
        }
    }
};

struct outcome {
    gs_status status;
    double result;
    std::vector<float> gradient;
};

// Outputs and the memory of the context hold NaN beforehand.
outcome run(const depths &d, float weight) {
    const device_vector<float> depth(d.depth), target(d.target),
        gradient(std::vector<float>(d.depth.size(), NAN));
    const device_vector<uint8_t> mask(d.mask);
    const device_vector<double> result(std::vector<double>(1, NAN));
    const gs_depth_comparison compared = {
        d.width, d.height, depth.data(), target.data(), d.mask.empty() ? nullptr : mask.data(), weight};
    const gs_status status = gs_depth_loss(&compared, result.data(), gradient.data(), filled_context());
    return {status, result.read()[0], gradient.read()};
}

const int sizes[][2] = {{1, 1}, {33, 50}, {64, 32}, {231, 40}};

TEST(DepthLoss, AgreesWithTheReference) {
    for (const auto &size : sizes)
        for (const bool masked : {false, true}) {
            SCOPED_TRACE(testing::Message() << size[0] << " x " << size[1] << (masked ? ", masked" : ""));
            depths d(size[0], size[1], 5);
            const int64_t pixels = int64_t(d.depth.size());
            if (masked)
                for (int64_t i = 0; i < pixels; i++) d.mask.push_back(i % 3 != 1);
            const std::vector<double> depth(d.depth.begin(), d.depth.end());
            std::vector<double> gradient(d.depth.size());
            const double expected =
                reference_depth_loss(depth.data(), d.target.data(), d.mask.empty() ? nullptr : d.mask.data(),
                                     pixels, nullptr, nullptr, gradient.data());
            const outcome out = run(d, 0.37f);
            ASSERT_EQ(out.status, GS_OK) << gs_last_error();
            EXPECT_LE(fabs(out.result - expected), 1e-6 * expected);
            for (size_t i = 0; i < gradient.size(); i++)
                ASSERT_LE(fabs(out.gradient[i] - 0.37 * gradient[i]), 1e-6 * fabs(gradient[i])) << i;
        }
}

TEST(DepthLoss, OfNothingIsNothing) {
    depths d(20, 9, 6);
    d.mask.assign(180, 0);
    const outcome out = run(d, 1);
    EXPECT_EQ(out.result, 0);
    EXPECT_EQ(out.gradient, std::vector<float>(180));
}

// What does not count may be anything; a NaN that counts shows.
TEST(DepthLoss, PassesOnANaNThatCounts) {
    depths d(20, 9, 7);
    const outcome clean = run(d, 1);
    for (size_t i = 0; i < d.depth.size(); i++)
        if (isnan(d.target[i])) d.depth[i] = NAN;
    EXPECT_EQ(run(d, 1).result, clean.result);
    EXPECT_EQ(run(d, 1).gradient, clean.gradient);
    size_t known = 0;
    while (isnan(d.target[known])) known++;
    d.depth[known] = NAN;
    EXPECT_TRUE(isnan(run(d, 1).result));
}

TEST(DepthLoss, RefusesBadArguments) {
    const device_vector<float> depth(64), target(64);
    const device_vector<double> result(1);
    const auto refused = [&](gs_depth_comparison compared, double *out, const char *text) {
        EXPECT_EQ(gs_depth_loss(&compared, out, nullptr, nullptr), GS_INVALID_ARGUMENT);
        EXPECT_EQ(std::string(gs_last_error()).rfind(std::string("gs_depth_loss: ") + text, 0), 0u)
            << gs_last_error();
    };
    const gs_depth_comparison good = {8, 8, depth.data(), target.data(), nullptr, 1};
    EXPECT_EQ(gs_depth_loss(&good, result.data(), nullptr, nullptr), GS_OK);
    gs_depth_comparison bad = good;
    bad.depth = nullptr;
    refused(bad, result.data(), "depth, target and result must be given");
    bad = good, bad.target = nullptr;
    refused(bad, result.data(), "depth, target and result must be given");
    refused(good, nullptr, "depth, target and result must be given");
    bad = good, bad.weight = INFINITY;
    refused(bad, result.data(), "the weight must be finite");
    bad = good, bad.width = 0;
    refused(bad, result.data(), "width and height must be in");
    EXPECT_EQ(gs_depth_loss(nullptr, result.data(), nullptr, nullptr), GS_INVALID_ARGUMENT);
}

} // namespace depth_loss_test
