// SPDX-License-Identifier: MIT
// Undistortion, against photographs of a known pattern that were distorted by inverting the lens's formula.
#include "lens.h"
#include <gtest/gtest.h>
#include <array>
#include <cmath>
#include <limits>
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

// What the world shows along a ray: smooth, so that sampling it in between costs little.
double pattern(double x, double y, int channel) {
    return 128 + 100 * std::sin(9 * x + 2 * channel) * std::cos(7 * y - channel);
}

// The photograph that a lens takes of pixel(i, j, channel).
template <typename Pixel>
image taken_by(const lens &l, const Pixel &pixel) {
    image out;
    fault why;
    EXPECT_TRUE(image_open(&out, l.width, l.height, 3, &why)) << why.text;
    for (int i = 0; i < 3 * l.width * l.height; i++)
        out.pixels[i] = uint8_t(pixel(i / 3 % l.width, i / 3 / l.width, i % 3));
    return out;
}

image undistorted(const lens &l, const image &picture) {
    image out;
    fault why;
    EXPECT_TRUE(lens_check(&l, &why) && lens_undistort(&l, &picture, &out, &why)) << why.text;
    EXPECT_TRUE(out.width == l.width && out.height == l.height);
    return out;
}

// That of the pattern: for each pixel the ray that meets it, by fixed-point iteration.
image photograph(const lens &l) {
    return taken_by(l, [&](int i, int j, int c) {
        const double u = (i + 0.5 - l.cx) / l.fx, v = (j + 0.5 - l.cy) / l.fy;
        double x = u, y = v, got[2];
        for (int step = 0; step < 200; step++) {
            distort(l, x, y, got);
            x += u - got[0];
            y += v - got[1];
        }
        EXPECT_TRUE(std::abs(got[0] - u) < 1e-9 && std::abs(got[1] - v) < 1e-9);
        return std::lround(pattern(x, y, c));
    });
}

// Whether the ray of pixel (i, j) of the pinhole was in the photograph, `margin` pixels from its border.
bool was_taken(const lens &l, int i, int j, double margin) {
    double at[2];
    distort(l, (i + 0.5 - l.cx) / l.fx, (j + 0.5 - l.cy) / l.fy, at);
    const double u = at[0] * l.fx + l.cx, v = at[1] * l.fy + l.cy;
    return u > margin && u < l.width - margin && v > margin && v < l.height - margin;
}

lens plain() {
    lens l = {};
    l.width = 90, l.height = 70;
    l.fx = 80, l.fy = 75;
    l.cx = 47.25, l.cy = 32.5;
    return l;
}

// The same with k1, k2, p1, p2, k3, k4.
lens distorting(const double k[6]) {
    lens l = plain();
    l.k1 = k[0], l.k2 = k[1], l.p1 = k[2], l.p2 = k[3], l.k3 = k[4], l.k4 = k[5];
    return l;
}

// The largest difference from the pattern over pixels that were taken.
double largest_error(const lens &l, const image &picture, int *compared) {
    double largest = 0;
    *compared = 0;
    for (int j = 0; j < l.height; j++)
        for (int i = 0; i < l.width; i++) {
            if (!was_taken(l, i, j, 1)) continue;
            ++*compared;
            for (int c = 0; c < 3; c++)
                largest =
                    std::max(largest, std::abs(picture.pixels[3 * (j * l.width + i) + c] -
                                               pattern((i + 0.5 - l.cx) / l.fx, (j + 0.5 - l.cy) / l.fy, c)));
        }
    return largest;
}

TEST(Lens, UndoesEveryKindOfDistortion) {
    const double kinds[][6] = {{-0.2},
                               {0.15},
                               {0, 0.2},
                               {0, 0, 0.04},
                               {0, 0, 0, -0.05},
                               {0, 0, 0, 0, 0.3},
                               {0, 0, 0, 0, 0, -0.2},
                               {0.0578421, -0.0805099, 0.03, -0.02, 0.05, -0.01},
                               {0.05, -0.02, 0, 0, 0.01, -0.002}};
    for (const auto &k : kinds) {
        lens l = distorting(k);
        l.fisheye = &k == std::end(kinds) - 1;
        if (l.fisheye) l.fx = 75, l.fy = 70;
        ASSERT_FALSE(lens_is_ideal(&l));
        image bent = photograph(l), straight = undistorted(l, bent);
        int compared, ignored;
        // Rounding twice, and 1/8 of the second derivatives, 100 (9 / 80)^2 and 100 (7 / 75)^2; of a fisheye a pixel of the
        // photograph is two of the pinhole, and all that a pinhole sees is in the photograph.
        EXPECT_LT(largest_error(l, straight, &compared), l.fisheye ? 5 : 2) << l.k1;
        EXPECT_GT(compared, (l.fisheye ? 0.9 : 0.7) * l.width * l.height);
        EXPECT_GT(largest_error(l, bent, &ignored), l.fisheye ? 30 : 10)
            << "the photograph was not distorted";
        image_close(&bent);
        image_close(&straight);
    }
}

TEST(Lens, AFisheyeMustNotFold) {
    fault why;
    lens l = plain();
    l.fisheye = true;
    EXPECT_TRUE(lens_check(&l, &why)) << why.text;
    l.k1 = -1; // folds at 33.1 degrees, radius 0.385; the corner is at 0.72
    EXPECT_FALSE(lens_check(&l, &why));
    EXPECT_NE(strstr(why.text, "folds over 33.1 degrees off the axis"), nullptr) << why.text;
    l.fx = l.fy = 160; // the corner is at 0.35
    EXPECT_TRUE(lens_check(&l, &why)) << why.text;
    l.fx = l.fy = 10, l.k1 = -0.14; // at 88.4 degrees
    EXPECT_TRUE(lens_check(&l, &why)) << why.text;
    l.k1 = -0.16; // at 82.7
    EXPECT_FALSE(lens_check(&l, &why));
    l.fx = 0, l.angle_x = 1, l.k1 = 0;
    EXPECT_FALSE(lens_check(&l, &why));
}

// One row and column of each border colour; pincushion distortion makes the pinhole look beyond them.
TEST(Lens, RepeatsTheBorder) {
    lens l = plain();
    l.k1 = 0.3;
    image taken = taken_by(l, [&](int i, int j, int) {
        return i == 0 || i == l.width - 1 || j == 0 || j == l.height - 1 ? 200 : 0;
    });
    image straight = undistorted(l, taken);
    int beyond = 0;
    for (int k = 0; k < l.width * l.height; k++) {
        const int i = k % l.width, j = k / l.width;
        const bool outside = !was_taken(l, i, j, 0.5);
        const bool border = !was_taken(l, i, j, 1.5); // mixed
        EXPECT_TRUE(outside == border ? straight.pixels[3 * k] == (outside ? 200 : 0) : border) << k;
        beyond += outside;
    }
    EXPECT_GT(beyond, 100);
    image_close(&taken);
    image_close(&straight);
}

// A ramp from the middle outwards: where the lens folds, the ramp would go down again. Absurd ones show the middle.
TEST(Lens, ShowsNothingTwice) {
    const double kinds[][6] = {{-1.5},           {-0.5, -2},          {0.3, -3},     {-3, 1},
                               {0, 0, 0, 0, -4}, {0, 0, 0, 0, 1, -8}, {1e30, -1e38}, {0, 0, -1e38, 1e30}};
    for (const auto &k : kinds) {
        lens l = distorting(k);
        l.cx = l.width / 2 + 0.5, l.cy = l.height / 2 + 0.5; // in the middle of a pixel
        image taken =
            taken_by(l, [&](int i, int, int) { return std::min(255, 5 * std::abs(i - l.width / 2)); });
        image straight = undistorted(l, taken);
        const uint8_t *row = straight.pixels + 3 * (l.height / 2 * l.width);
        for (int i = l.width / 2 + 1; i < l.width && std::abs(k[2]) < 1; i++)
            EXPECT_GE(row[3 * i], row[3 * (i - 1)]) << k[0] << " " << i;
        EXPECT_TRUE(std::abs(k[0] + k[2]) > 10 || row[3 * (l.width - 1)] > 20) << k[0];
        image_close(&taken);
        image_close(&straight);
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

TEST(CameraModel, EveryDistortionOfALensCounts) {
    for (const lens_parameter &parameter : lens_parameters) {
        lens optics = {};
        optics.fx = optics.fy = 100;
        EXPECT_TRUE(lens_is_ideal(&optics));
        *lens_value(&optics, &parameter) = 0.5;
        EXPECT_EQ(lens_is_ideal(&optics), parameter.distortion == 0) << parameter.name;
        *lens_value(&optics, &parameter) = INFINITY;
        fault why = {};
        EXPECT_FALSE(lens_check(&optics, &why)) << parameter.name;
    }
}

} // namespace lens_test
