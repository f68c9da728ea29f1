// SPDX-License-Identifier: MIT
// What training starts from: nearest neighbours against a search of all pairs, Gaussians from points, the
// order of views.
#include "camera.h"
#include "scene.h"
#include "random.h"
#include "start.h"
#include "views.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace start_test {

using point = std::array<float, 3>;

std::vector<double> distances(const std::vector<point> &points) {
    std::vector<double> result(points.size());
    fault why;
    EXPECT_TRUE(nearest_mean_distance(reinterpret_cast<const float(*)[3]>(points.data()), points.size(),
                                      result.data(), &why))
        << why.text;
    return result;
}

double by_all_pairs(const std::vector<point> &points, size_t i) {
    std::vector<double> all;
    for (size_t j = 0; j < points.size(); j++) {
        double d[3];
        for (int axis = 0; axis < 3; axis++) d[axis] = double(points[j][axis]) - points[i][axis];
        if (j != i) all.push_back(std::hypot(d[0], d[1], d[2]));
    }
    std::sort(all.begin(), all.end());
    all.resize(std::min<size_t>(all.size(), 3));
    return all.empty() ? 0 : std::accumulate(all.begin(), all.end(), 0.0) / double(all.size());
}

TEST(Nearest, EqualsASearchOfAllPairs) {
    random_stream random = {7};
    // Sizes around the leaf's, and clouds from smooth to degenerate: a grid that leaves many coordinates equal, a line.
    for (size_t count : {0, 1, 2, 3, 4, 8, 9, 10, 17, 100, 400})
        for (int shape = 0; shape < 3; shape++) {
            std::vector<point> points(count);
            for (point &p : points)
                for (int axis = 0; axis < 3; axis++) {
                    double x = random_normal(&random);
                    p[axis] = float(shape == 0 ? x : shape == 1 ? std::round(2 * x) : axis == 1 ? x : 5);
                }
            std::vector<double> result = distances(points);
            for (size_t i = 0; i < count; i++)
                ASSERT_NEAR(result[i], by_all_pairs(points, i), 1e-12) << count << " points, shape " << shape;
        }
}

TEST(Nearest, ManyEqualPointsDoNotTakeQuadraticTime) {
    std::vector<point> points(200000, point{1, 2, 3});
    for (size_t i = 0; i < points.size(); i += 1000) points[i][0] = float(i);
    auto begin = std::chrono::steady_clock::now();
    std::vector<double> result = distances(points);
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
              20); // 40000 of n^2
    EXPECT_EQ(result[1], 0);
    EXPECT_NEAR(result[2000], (1000 + 1000 + 1999) / 3.0, 1e-9);
}

TEST(Start, GaussiansStandWhereThePointsDo) {
    const float points[5][3] = {{0, 0, 0}, {3, 0, 0}, {0, 3, 0}, {0, 0, 3}, {0, 0, 0}}, equal[4][3] = {};
    const uint8_t colors[5][3] = {{255, 0, 51}, {0, 0, 0}, {1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
    const start_settings settings = {2, 10, 0.3, 0.25}, of_equal = {0, 10, 0.1, 1};
    gs_gaussians made;
    fault why;
    ASSERT_TRUE(gaussians_from_points(points, colors, 5, &settings, &made, &why)) << why.text;
    EXPECT_EQ(made.count, 5);
    EXPECT_EQ(made.sh_degree, 2);
    EXPECT_EQ(made.mean[3 * 1], 3);
    EXPECT_NEAR(made.log_scale[0], std::log(0.25 * (0 + 3 + 3) / 3.0), 1e-6);
    EXPECT_EQ(made.log_scale[0], made.log_scale[2]);
    EXPECT_EQ(made.quaternion[4 * 3], 1);
    EXPECT_EQ(made.quaternion[4 * 3 + 1], 0);
    EXPECT_NEAR(1 / (1 + std::exp(-made.opacity_logit[4])), 0.3, 1e-6);
    for (int channel = 0; channel < 3; channel++)
        EXPECT_NEAR(0.5 + 0.28209479177387814 * made.sh[channel], colors[0][channel] / 255.0, 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * made.sh[9 * 3], 0, 1e-6);
    EXPECT_EQ(made.sh[3], 0);
    scene_close(&made);
    ASSERT_TRUE(gaussians_from_points(equal, colors, 4, &of_equal, &made, &why)) << why.text;
    for (int i = 0; i < 12; i++) EXPECT_NEAR(made.log_scale[i], std::log(1e-3), 1e-5); // they have a size
    scene_close(&made);
}

TEST(Finite, DropsWhatIsNotAndKeepsTheOrder) {
    gs_gaussians made;
    fault why;
    ASSERT_TRUE(scene_open(&made, 8, 1, &why)) << why.text;
    const auto marks = [&](int i) {
        return std::array<float *, 5>{&made.mean[3 * i], &made.log_scale[3 * i + 2],
                                      &made.quaternion[4 * i + 3], &made.opacity_logit[i],
                                      &made.sh[12 * i + 11]};
    };
    for (int i = 0; i < 8; i++)
        for (float *mark : marks(i)) *mark = float(i);
    made.mean[3 * 0 + 1] = made.opacity_logit[5] = made.sh[12 * 7 + 4] = NAN;
    made.log_scale[3 * 2] = INFINITY, made.quaternion[4 * 3 + 2] = -INFINITY;
    EXPECT_EQ(gaussians_keep_finite(&made), 5);
    ASSERT_EQ(made.count, 3);
    const float left[] = {1, 4, 6};
    for (int i = 0; i < 3; i++) {
        for (const float *mark : marks(i)) EXPECT_EQ(*mark, left[i]);
        EXPECT_EQ(made.sh[12 * i + 4], 0);
    }
    EXPECT_EQ(gaussians_keep_finite(&made), 0);
    scene_close(&made);
}

TEST(Start, ExtentIsThatOfTheCameras) {
    std::vector<target_view> views(3);
    const double eyes[3][3] = {{1, 5, 2}, {-1, 5, 2}, {0, 5, 8}}; // mean (0, 5, 4), the last 4 from it
    for (int i = 0; i < 3; i++) {
        const double target[3] = {0, 0, 0}, up[3] = {0, 1, 0.3};
        camera_look_at(&views[i].camera, eyes[i], target, up);
    }
    EXPECT_NEAR(scene_extent(views.data(), 3), 1.1 * 4, 1e-5);
    EXPECT_EQ(scene_extent(views.data(), 1), 1);
}

TEST(ViewOrder, EveryViewOnceBeforeAnyAgain) {
    view_order orders[3]; // the last of another seed
    fault why;
    for (int k = 0; k < 3; k++) ASSERT_TRUE(view_order_open(&orders[k], 13, k < 2 ? 5 : 6, &why)) << why.text;
    std::vector<size_t> seen;
    bool differs = false;
    for (int64_t step = 0; step < 4 * 13; step++) {
        seen.push_back(view_order_at(&orders[0], step));
        differs |= seen.back() != view_order_at(&orders[2], step);
    }
    EXPECT_TRUE(differs);
    for (int round = 0; round < 4; round++) {
        const std::set<size_t> all(seen.begin() + 13 * round, seen.begin() + 13 * round + 13);
        EXPECT_TRUE(all.size() == 13 && *all.rbegin() == 12) << round;
    }
    EXPECT_FALSE(std::equal(seen.begin(), seen.begin() + 13, seen.begin() + 13));
    for (int64_t step = 4 * 13; step-- > 0;) EXPECT_EQ(seen[size_t(step)], view_order_at(&orders[1], step));
    for (view_order &order : orders) view_order_close(&order);
}

TEST(Random, Splitmix64AsPublished) {
    random_stream random = {1234567}; // the known first values for this seed
    EXPECT_EQ(random_bits(&random), 6457827717110365317u);
    EXPECT_EQ(random_bits(&random), 3203168211198807973u);
    double sum = 0, square = 0;
    for (int i = 0; i < 100000; i++) {
        const double x = random_normal(&random), u = random_unit(&random);
        sum += x, square += x * x;
        ASSERT_TRUE(u >= 0 && u < 1 && random_below(&random, 3) < 3);
    }
    EXPECT_NEAR(sum / 100000, 0, 0.02);
    EXPECT_NEAR(square / 100000, 1, 0.03);
}

} // namespace start_test
