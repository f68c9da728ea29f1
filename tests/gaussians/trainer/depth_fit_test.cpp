// SPDX-License-Identifier: MIT
// Scale and shift of depth maps: the samples, and the line through them.
#include "start.h"
#include "camera.h"
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace {

// inverse = 0.7 value + 0.2, and normal errors.
std::vector<depth_sample> line_samples(size_t count, double deviation, unsigned seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> unit(0, 1);
    std::normal_distribution<double> normal(0, 1);
    std::vector<depth_sample> out(count);
    for (depth_sample &s : out) {
        s.value = unit(random);
        s.inverse = 0.7 * s.value + 0.2 + deviation * normal(random);
    }
    return out;
}

// The closed form of least squares.
std::array<double, 2> least_squares(const std::vector<depth_sample> &samples) {
    double n = 0, v = 0, i = 0, vv = 0, vi = 0;
    for (const depth_sample &s : samples)
        n++, v += s.value, i += s.inverse, vv += s.value * s.value, vi += s.value * s.inverse;
    const double scale = (n * vi - v * i) / (n * vv - v * v);
    return {scale, (i - scale * v) / n};
}

depth_fit fit_of(const std::vector<depth_sample> &samples) {
    depth_fit fit;
    fault why = {};
    EXPECT_TRUE(depth_fit_line(samples.data(), samples.size(), &fit, &why)) << why.text;
    return fit;
}

// Errors that no robust scale takes for outliers, or none: all samples count, so the line is that of the closed form.
TEST(DepthFit, IsLeastSquaresWithoutOutliers) {
    for (const double errors : {0.0, 0.01})
        for (const size_t count : {10u, 11u, 400u, 7001u}) {
            std::vector<depth_sample> samples = line_samples(count, 0, 2);
            std::mt19937_64 random(3);
            for (depth_sample &s : samples) s.inverse += errors * (double(random() % 1000) / 500 - 1);
            const depth_fit fit = fit_of(samples);
            const std::array<double, 2> line = least_squares(samples);
            EXPECT_EQ(fit.used, count) << errors;
            EXPECT_NEAR(fit.scale, line[0], 1e-12) << count;
            EXPECT_NEAR(fit.shift, line[1], 1e-12) << count;
            double mean = 0, square = 0;
            for (const depth_sample &s : samples) {
                mean += s.inverse / double(count);
                square += std::pow(line[0] * s.value + line[1] - s.inverse, 2) / double(count);
            }
            EXPECT_NEAR(fit.error, std::sqrt(square) / mean, 1e-12) << count;
        }
}

// What is kept is fitted by the closed form, however large the others are.
TEST(DepthFit, LeavesOutliersOut) {
    for (const int percent : {10, 30, 45}) {
        std::vector<depth_sample> samples = line_samples(1000, 0.002, 4);
        std::mt19937_64 random(5);
        std::vector<depth_sample> good;
        for (depth_sample &s : samples) {
            if (int(random() % 100) < percent)
                s.inverse = random() % 3 == 0 ? 1e6 : 0.05 + 1e-6 * double(random() % 1000); // far behind
            else
                good.push_back(s);
        }
        const depth_fit fit = fit_of(samples);
        const std::array<double, 2> line = least_squares(good);
        EXPECT_NEAR(fit.scale, line[0], 0.002) << percent;
        EXPECT_NEAR(fit.shift, line[1], 0.002) << percent;
        EXPECT_GE(fit.used, good.size() * 97 / 100);
        EXPECT_LE(fit.used, good.size() + 20);
    }
}

TEST(DepthFit, AppliesToAMap) {
    const depth_fit fit = {2, -1, 10, 0};
    float map[4] = {1, 0.25f, NAN, 3e38f};
    depth_fit_apply(&fit, map, 4);
    EXPECT_EQ(map[0], 1);
    EXPECT_EQ(map[1], 0); // nothing is behind infinity
    EXPECT_TRUE(std::isnan(map[2]));
    EXPECT_TRUE(std::isnan(map[3])); // no float
}

TEST(DepthSamples, AreOfThePointsThatAreSeen) {
    gs_camera camera = {};
    camera.width = 64, camera.height = 32; // cells of one pixel
    camera.fx = camera.fy = 32, camera.cx = 32, camera.cy = 16, camera.near_plane = 0.2f;
    camera.rotation[0] = camera.rotation[4] = camera.rotation[8] = 1;
    const auto at = [&](float column, float row, float depth) {
        return std::array<float, 3>{(column - 32) / 32 * depth, (row - 16) / 32 * depth, depth};
    };
    const std::vector<std::array<float, 3>> points = {
        at(10.5f, 5.5f, 2),                           // seen
        at(40.5f, 20.5f, 4),                          // hidden by the next, one pixel beside it
        at(41.5f, 20.5f, 3),                          // seen
        at(50.5f, 20.5f, 4),                          // seen: the next is nearer, but not by a fiftieth
        at(50.5f, 20.5f, 3.95f), at(55.5f, 20.5f, 4), // seen: the nearer point is two pixels beside it
        at(57.5f, 20.5f, 2),     at(-1, 5, 2),        // outside
        at(30.5f, 10.5f, -2),                         // behind the camera
        at(30.5f, 10.5f, 0.1f),                       // before the near plane
        at(20.5f, 8.5f, 2),                           // unknown in the map
        at(21.5f, 28.5f, 2),                          // masked
    };
    std::vector<float> map(64 * 32);
    for (size_t i = 0; i < map.size(); i++) map[i] = float(i);
    map[8 * 64 + 20] = NAN;
    std::vector<uint8_t> mask(map.size(), 1);
    mask[28 * 64 + 21] = 0;
    const depth_view view = {&camera, map.data(), mask.data()};
    std::vector<depth_sample> samples(points.size());
    size_t found;
    const auto take = [&](const depth_points &all) {
        fault why;
        EXPECT_TRUE(depth_samples(&view, &all, samples.data(), &found, &why)) << why.text;
    };
    depth_points all = {reinterpret_cast<const float(*)[3]>(points.data()), points.size(), nullptr, 0};
    take(all);
    const std::vector<std::array<double, 2>> expected = {{5 * 64 + 10, 1 / 2.0},  {20 * 64 + 41, 1 / 3.0},
                                                         {20 * 64 + 50, 1 / 4.0}, {20 * 64 + 50, 1 / 3.95},
                                                         {20 * 64 + 55, 1 / 4.0}, {20 * 64 + 57, 1 / 2.0}};
    ASSERT_EQ(found, expected.size());
    for (size_t i = 0; i < found; i++) {
        EXPECT_EQ(samples[i].value, expected[i][0]) << i;
        EXPECT_NEAR(samples[i].inverse, expected[i][1], 1e-6) << i;
    }
    // Where it is known what is seen: also what another point would hide; not what is outside or unknown.
    const std::vector<uint32_t> seen = {1, 6, 7, 10};
    all.seen = seen.data(), all.seen_count = seen.size();
    take(all);
    ASSERT_EQ(found, 2u);
    EXPECT_EQ(samples[0].value, 20 * 64 + 40);
    EXPECT_NEAR(samples[1].inverse, 0.5, 1e-6);
    // A fisheye's depth is the distance.
    camera.model = GS_FISHEYE;
    const std::array<float, 3> aside = {0.3f, 0, 0.4f};
    take({reinterpret_cast<const float(*)[3]>(&aside), 1, nullptr, 0});
    ASSERT_EQ(found, 1u);
    EXPECT_NEAR(samples[0].inverse, 2, 1e-6);
}

} // namespace
