// SPDX-License-Identifier: MIT
// Where training starts without points: what cameras look at, and random points that they see.
#include "camera.h"
#include "start.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <vector>

namespace {

using point = std::array<double, 3>;

// Cameras with a picture whose colour says which camera and pixel it is.
class RandomPoints : public testing::Test {
  protected:
    void TearDown() override {
        for (image &picture : pictures) image_close(&picture);
        pictures.clear(), views.clear();
    }
    void add(const point &eye, const point &target, int width = 40, int height = 30) {
        target_view view = {};
        view.camera = camera_with_view_angle(width, height, 0.8);
        const double up[3] = {0.1, 1, 0.2};
        camera_look_at(&view.camera, eye.data(), target.data(), up);
        fault why;
        image *const picture = &pictures.emplace_back();
        ASSERT_TRUE(image_open(picture, width, height, 3, &why)) << why.text;
        for (int i = 0; i < width * height; i++) {
            picture->pixels[3 * i] = uint8_t(views.size());
            picture->pixels[3 * i + 1] = uint8_t(i % width);
            picture->pixels[3 * i + 2] = uint8_t(i / width);
        }
        view.picture = picture;
        views.push_back(view);
    }
    void draw(size_t count, bool is_object, uint64_t seed) {
        points.assign(count, {NAN, NAN, NAN});
        colors.assign(count, {});
        random_points(views.data(), views.size(), is_object, count, seed,
                      reinterpret_cast<float(*)[3]>(points.data()),
                      reinterpret_cast<uint8_t(*)[3]>(colors.data()));
    }
    // The pixel in which camera `index` sees it; empty if it does not.
    std::vector<double> pixel(size_t index, const std::array<float, 3> &at) const {
        const double point[3] = {at[0], at[1], at[2]};
        double uv[2];
        if (!camera_pixel(&views.at(index).camera, point, uv)) return {}; // as camera_test.cpp has it
        return {uv[0], uv[1], camera_depth(&views[index].camera, point)};
    }
    // The colour of a point names the picture and the pixel that it was drawn from: that is where it is seen.
    std::vector<double> drawn_from(size_t k, double apart) const {
        const std::vector<double> at = pixel(colors.at(k)[0], points[k]);
        EXPECT_EQ(at.size(), 3u) << k;
        for (size_t i = 0; i < 2 && !at.empty(); i++) EXPECT_NEAR(at[i], colors[k][1 + i] + 0.5, apart) << k;
        return at;
    }
    std::vector<target_view> views;
    std::deque<image> pictures;
    std::vector<std::array<float, 3>> points;
    std::vector<std::array<uint8_t, 3>> colors;
};

TEST_F(RandomPoints, TheFocusIsWhatCamerasLookAtOrInFrontOfParallelOnes) {
    const auto expect_focus = [&](const point &expected, double apart) {
        double focus[3];
        camera_focus(views.data(), views.size(), focus);
        for (size_t i = 0; i < 3; i++) EXPECT_NEAR(focus[i], expected[i], apart);
    };
    const point target = {3, -2, 7};
    for (const point &eye : {point{0, 0, 0}, point{9, 1, 2}, point{3, 5, 3}, point{-1, -6, 12}})
        add(eye, target);
    expect_focus(target, 0.02);
    TearDown();
    for (double x : {0.0, 1.0, -1.0}) add({x, 0, 0}, {x, 0, 9}); // the extent is 1.1
    expect_focus({0, 0, 5.5}, 1e-3);
    views.resize(1); // extent 1
    expect_focus({0, 0, 5}, 1e-3);
}

TEST_F(RandomPoints, ArePointsThatCamerasSee) {
    for (int i = 0; i < 6; i++) add({2.0 * i - 5, 0.5 * i, 0}, {0, 0, 10}, 40 + i, 30 - i); // no size twice
    draw(3000, false, 5);
    double focus[3];
    camera_focus(views.data(), views.size(), focus);
    size_t seen_by_three = 0, near = 0;
    std::vector<size_t> of_camera(views.size());
    for (size_t k = 0; k < points.size(); k++) {
        size_t seen = 0;
        for (size_t i = 0; i < views.size(); i++) seen += !pixel(i, points[k]).empty();
        seen_by_three += seen >= 3;
        const std::vector<double> at = drawn_from(k, 1e-3), // it is on that ray
            middle = pixel(colors[k][0], {float(focus[0]), float(focus[1]), float(focus[2])});
        of_camera.at(colors[k][0])++;
        ASSERT_TRUE(at.size() == 3 && middle.size() == 3);
        EXPECT_GT(at[2], 0.249 * middle[2]);
        EXPECT_LT(at[2], 4.01 * middle[2]);
        near += at[2] < middle[2];
    }
    EXPECT_GT(seen_by_three, points.size() * 99 / 100);
    EXPECT_GT(near, points.size() / 10);
    EXPECT_LT(near, points.size() * 6 / 10); // few are near, where few cameras see the same
    for (size_t count : of_camera) EXPECT_GT(count, points.size() / 20);
}

TEST_F(RandomPoints, FillTheCubeOfAnObject) {
    for (int i = 0; i < 12; i++) add({4 * std::cos(i * 0.5), 1, 4 * std::sin(i * 0.5)}, {0, 0, 0});
    draw(4000, true, 6);
    const double distance = std::sqrt(17),
                 half = distance * std::tan(0.4); // of the lower side of the pictures
    size_t gray = 0;
    double least[3] = {9, 9, 9}, most[3] = {-9, -9, -9};
    for (size_t k = 0; k < points.size(); k++) {
        for (size_t i = 0; i < 3; i++) {
            least[i] = std::min(least[i], double(points[k][i]));
            most[i] = std::max(most[i], double(points[k][i]));
        }
        // Grey: no picture shows the point.
        if (colors[k] == std::array<uint8_t, 3>{128, 128, 128}) {
            gray++;
            continue;
        }
        drawn_from(k, 0.501);
    }
    EXPECT_EQ(gray, 0u);
    for (int i = 0; i < 3; i++) {
        EXPECT_NEAR(least[i], -half, 0.02 * half);
        EXPECT_NEAR(most[i], half, 0.02 * half);
    }
}

TEST_F(RandomPoints, OfAnObjectAreWithinItsOutlines) {
    const int width = 40, height = 30;
    for (int i = 0; i < 12; i++)
        add({4 * std::cos(i * 0.5), 1, 4 * std::sin(i * 0.5)}, {0, 0, 0}, width, height);
    std::vector<uint8_t> disc(width * height); // of a ball of radius 0.9 or so
    for (int i = 0; i < width * height; i++) disc[i] = std::hypot(i % width - 19.5, i / width - 14.5) < 8;
    draw(4000, true, 6);
    const auto outside = [&](const std::array<float, 3> &p) { return std::hypot(p[0], p[1], p[2]) > 1.3; };
    EXPECT_GT(std::count_if(points.begin(), points.end(), outside), 2000);
    for (target_view &view : views) view.outline = disc.data();
    views[0].outline = nullptr; // may be missing
    draw(4000, true, 6);
    EXPECT_EQ(std::count_if(points.begin(), points.end(), outside), 0);
    for (size_t k = 0; k < points.size(); k++) {
        ASSERT_NE(colors[k][0], 128) << "grey: the picture of no camera";
        for (size_t i = 1; i < views.size(); i++) {
            const std::vector<double> at = pixel(i, points[k]);
            ASSERT_FALSE(at.empty());
            // But for what rounding moves to the pixel beside it.
            ASSERT_LT(std::hypot(at[0] - 20, at[1] - 15), 9) << k << ", camera " << i;
        }
    }
    const std::vector<uint8_t> nothing(width * height);
    for (target_view &view : views) view.outline = nothing.data();
    draw(10, true, 6); // comes to an end
    for (const auto &p : points) EXPECT_LT(std::hypot(p[0], p[1], p[2]), 4);
}

// Cameras that see nothing in common, one alone, several in one place, several that look away from each other.
TEST_F(RandomPoints, AreFiniteForAnyCameras) {
    const std::vector<std::vector<std::array<point, 2>>> rigs = {
        {{{{0, 0, 0}, {0, 0, 1}}}},
        {{{{0, 0, 0}, {0, 0, 1}}}, {{{0, 0, 0}, {0, 0, 1}}}, {{{0, 0, 0}, {1, 0, 0}}}},
        {{{{1, 0, 0}, {2, 0, 0}}},
         {{{-1, 0, 0}, {-2, 0, 0}}},
         {{{0, 0, 1}, {0, 0, 2}}},
         {{{0, 0, -1}, {0, 0, -2}}}}};
    for (const auto &rig : rigs)
        for (const bool is_object : {false, true}) {
            TearDown();
            for (const auto &camera : rig) add(camera[0], camera[1]);
            draw(200, is_object, 3);
            for (const auto &p : points)
                for (const float coordinate : p) {
                    ASSERT_TRUE(std::isfinite(coordinate));
                    ASSERT_LT(std::abs(coordinate), 100);
                }
        }
}

} // namespace
