// SPDX-License-Identifier: MIT
// Lenses: undistortion against its definition, pixel by pixel; what is refused, completed and resized.
#include "lens.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>
#include <string.h>

namespace lens_test {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Where the ray (x, y, 1) goes: the formulas as OpenCV's documentation prints them.
void distort(const lens &l, double x, double y, double out[2]) {
    if (l.fisheye) {
        const double r = std::hypot(x, y), t = std::atan(r), w = t * t;
        const double d = t * (1 + l.k1 * w + l.k2 * w * w + l.k3 * w * w * w + l.k4 * w * w * w * w);
        out[0] = r > 0 ? d / r * x : 0;
        out[1] = r > 0 ? d / r * y : 0;
        return;
    }
    const double r2 = x * x + y * y, radial = 1 + l.k1 * r2 + l.k2 * std::pow(r2, 2) +
                                              l.k3 * std::pow(r2, 3) + l.k4 * std::pow(r2, 4);
    out[0] = x * radial + (2 * l.p1 * x * y + l.p2 * (r2 + 2 * x * x));
    out[1] = y * radial + (l.p1 * (r2 + 2 * y * y) + 2 * l.p2 * x * y);
}

// The distance from the axis at which the radial part stops to grow: beyond it a picture would show the same again.
double ring_of(lens l) {
    l.p1 = l.p2 = 0;
    double last = 0;
    for (double r = 0; r < 3; r += 1e-5) {
        double next[2];
        distort(l, r + 1e-5, 0, next);
        if (!(next[0] > last)) return r;
        last = next[0];
    }
    return INFINITY;
}

// What the pinhole sees at pixel (i, j): the photograph where the lens maps the ray, between its pixels, the border beyond
// it and the ring beyond that.
double seen(const lens &l, double ring, const image &photograph, int i, int j, int channel) {
    const double x = (i + 0.5 - l.cx) / l.fx, y = (j + 0.5 - l.cy) / l.fy,
                 back = std::min(1.0, ring / std::hypot(x, y));
    double at[2], sum = 0;
    distort(l, x * back, y * back, at);
    const double u = std::clamp(at[0] * l.fx + l.cx - 0.5, 0.0, l.width - 1.0),
                 v = std::clamp(at[1] * l.fy + l.cy - 0.5, 0.0, l.height - 1.0);
    for (int row = int(v); row < std::min(int(v) + 2, l.height); row++)
        for (int column = int(u); column < std::min(int(u) + 2, l.width); column++)
            sum += (1 - std::abs(u - column)) * (1 - std::abs(v - row)) *
                   photograph.pixels[3 * (row * l.width + column) + channel];
    return sum;
}

lens plain() {
    lens l = {};
    l.width = 90, l.height = 70;
    l.fx = 80, l.fy = 75;
    l.cx = 47.25, l.cy = 32.5;
    return l;
}

// Of every kind of distortion (k1, k2, p1, p2, k3, k4), of those that fold a picture over, and of absurd ones, which only
// must not crash.
TEST(Lens, UndistortsByItsDefinition) {
    std::vector<std::array<double, 6>> kinds = {
        {-1.5},        {-0.5, -2},          {0.3, -3},
        {-3, 1},       {0, 0, 0, 0, -4},    {0, 0, 0, 0, 1, -8},
        {1e30, -1e38}, {0, 0, -1e38, 1e30}, {0.06, -0.08, 0.03, -0.02, 0.05, -0.01}};
    for (size_t k = 0; k < 6; k++)
        for (const double value : {0.3, -0.2}) kinds.push_back({}), kinds.back()[k] = value;
    kinds.push_back({0.05, -0.02, 0, 0, 0.01, -0.002}); // of a fisheye
    std::mt19937 random(1);
    fault why;
    for (const auto &k : kinds) {
        lens l = plain();
        l.fisheye = &k == &kinds.back();
        l.k1 = k[0], l.k2 = k[1], l.p1 = k[2], l.p2 = k[3], l.k3 = k[4], l.k4 = k[5];
        const double ring = ring_of(l);
        image photograph, straight;
        plane red, flat;
        ASSERT_FALSE(lens_is_ideal(&l));
        ASSERT_TRUE(lens_check(&l, &why) && image_open(&photograph, l.width, l.height, 3, &why) &&
                    plane_open(&red, l.width, l.height, &why))
            << why.text;
        for (int i = 0; i < 3 * l.width * l.height; i++) {
            photograph.pixels[i] = uint8_t(random());
            if (i % 3 == 0) red.values[i / 3] = photograph.pixels[i];
        }
        ASSERT_TRUE(lens_undistort(&l, &photograph, &straight, &why) &&
                    lens_undistort_plane(&l, &red, &flat, &why))
            << why.text;
        ASSERT_TRUE(straight.width == l.width && straight.height == l.height);
        for (int i = 0; i < 3 * l.width * l.height && std::abs(k[0] + k[2]) < 10; i++) {
            const double expected = seen(l, ring, photograph, i / 3 % l.width, i / 3 / l.width, i % 3);
            ASSERT_NEAR(straight.pixels[i], expected, 0.51) << k[0] << " " << i;
            ASSERT_NEAR(i % 3 ? expected : flat.values[i / 3], expected, 0.01) << k[0] << " " << i;
        }
        image_close(&photograph), image_close(&straight);
        plane_close(&red), plane_close(&flat);
    }
}

// What is said: messages_test.cpp.
TEST(Lens, AFisheyeMustNotFold) {
    const struct {
        double k1, f;
        bool good;
    } rows[] = {{0, 80, true},
                {-1, 80, false},     // folds at 33.1 degrees, radius 0.385; the corner is at 0.72
                {-1, 160, true},     // at 0.35
                {-0.14, 10, true},   // at 88.4 degrees
                {-0.16, 10, false}}; // at 82.7
    for (const auto &row : rows) {
        fault why;
        lens l = plain();
        l.fisheye = true, l.k1 = row.k1, l.fx = l.fy = row.f;
        EXPECT_EQ(lens_check(&l, &why), row.good) << row.k1 << " " << row.f;
    }
}

TEST(Lens, CompletesWhatIsLeftOpen) {
    const double half = 2 * std::atan(0.5), quarter = 2 * std::atan(0.25);
    lens open = {}, two = {};
    open.angle_x = two.angle_x = half, two.angle_y = quarter;
    open.cx = open.cy = nan, two.cx = 1, two.cy = 2;
    const std::pair<lens, std::array<double, 6>> rows[] = {{open, {100, 60, 100, 100, 50, 30}}, // 50 / 0.5
                                                           {two, {100, 60, 100, 120, 1, 2}},    // 30 / 0.25
                                                           {plain(), {90, 70, 80, 75, 47.25, 32.5}}};
    for (auto [l, expected] : rows) {
        EXPECT_TRUE(lens_is_ideal(&l)); // one with a distortion is not: above
        lens_complete(&l, 100, 60);
        const gs_camera camera = lens_camera(&l, false);
        const std::array<double, 6> got = {double(l.width), double(l.height), l.fx, l.fy, l.cx, l.cy};
        const std::array<float, 6> pinhole = {
            float(camera.width), float(camera.height), camera.fx, camera.fy, camera.cx, camera.cy};
        for (size_t k = 0; k < 6; k++)
            EXPECT_TRUE(std::abs(got[k] - expected[k]) < 1e-12 && pinhole[k] == float(expected[k])) << k;
    }
}

// ---- the list of camera models that all readers share

// As programs round the sides of smaller pictures, in any way.
TEST(CameraModel, FitsALensToAPictureMadeSmaller) {
    const struct {
        int width, height;
        bool fits;
    } rows[] = {{200, 100, true}, {50, 25, true},   {33, 17, true},   {33, 16, true},
                {34, 17, true},   {101, 51, true},  {33, 15, false},  {99, 51, false},
                {50, 50, false},  {100, 51, false}, {101, 50, false}, {25, 50, false}};
    for (const auto &row : rows) {
        lens optics = {};
        optics.width = 100, optics.height = 50, optics.fx = 80, optics.fy = 90, optics.cx = 40,
        optics.cy = 30;
        optics.k1 = 0.5;
        const lens before = optics;
        ASSERT_EQ(lens_resize(&optics, row.width, row.height), row.fits) << row.width << " x " << row.height;
        EXPECT_EQ(optics.width, row.fits ? row.width : 100);
        EXPECT_DOUBLE_EQ(optics.fx, before.fx * optics.width / 100);
        EXPECT_DOUBLE_EQ(optics.cx, before.cx * optics.width / 100);
        EXPECT_DOUBLE_EQ(optics.fy, before.fy * optics.height / 50);
        EXPECT_DOUBLE_EQ(optics.cy, before.cy * optics.height / 50);
        EXPECT_EQ(optics.k1, 0.5);
    }
}

} // namespace lens_test
