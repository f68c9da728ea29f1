// SPDX-License-Identifier: MIT
// What training starts from: nearest neighbours against a search of all pairs, Gaussians from points, the order of views;
// scale and shift of depth maps; what cameras look at, and random points that they see; points by stereo.
#include "camera.h"
#include "random.h"
#include "start.h"
#include "training_cloud.h"
#include "stereo/stereo_scene.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

namespace start_test {

// ---- Gaussians from points, and the order of views

using point = std::array<float, 3>;

std::vector<double> distances(const std::vector<point> &points) {
    std::vector<double> result(points.size());
    EXPECT_DONE(nearest_mean_distance(reinterpret_cast<const float(*)[3]>(points.data()), points.size(),
                                      result.data(), &why));
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
    owned<gs_gaussians, scene_close> made, dense;
    EXPECT_DONE(gaussians_from_points(points, colors, 5, &settings, &made, &why));
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
    EXPECT_DONE(gaussians_from_points(equal, colors, 4, &of_equal, &dense, &why));
    for (int i = 0; i < 12; i++) EXPECT_NEAR(dense.log_scale[i], std::log(1e-3), 1e-5); // they have a size
}

TEST(Finite, DropsWhatIsNotAndKeepsTheOrder) {
    owned<gs_gaussians, scene_close> made;
    EXPECT_DONE(scene_open(&made, 8, 1, &why));
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
    owned<view_order, view_order_close> orders[3]; // the last of another seed
    for (int k = 0; k < 3; k++) EXPECT_DONE(view_order_open(&orders[k], 13, k < 2 ? 5 : 6, &why));
    std::vector<size_t> seen, other;
    for (int64_t step = 0; step < 4 * 13; step++) {
        seen.push_back(view_order_at(&orders[0], step));
        other.push_back(view_order_at(&orders[2], step));
    }
    EXPECT_NE(seen, other);
    for (auto round = seen.begin(); round != seen.end(); round += 13) {
        const std::set<size_t> all(round, round + 13);
        EXPECT_TRUE(all.size() == 13 && *all.rbegin() == 12) << round - seen.begin();
    }
    EXPECT_FALSE(std::equal(seen.begin(), seen.begin() + 13, seen.begin() + 13));
    for (int64_t step = 4 * 13; step-- > 0;) EXPECT_EQ(seen[size_t(step)], view_order_at(&orders[1], step));
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

// ---- scale and shift of depth maps

// Scale and shift by the closed form of least squares.
std::array<double, 2> least_squares(const std::vector<depth_sample> &samples) {
    double n = 0, v = 0, i = 0, vv = 0, vi = 0;
    for (const depth_sample &s : samples)
        n++, v += s.value, i += s.inverse, vv += s.value * s.value, vi += s.value * s.inverse;
    const double scale = (n * vi - v * i) / (n * vv - v * v);
    return {scale, (i - scale * v) / n};
}

// What is kept is fitted by the closed form, however large the others are. Without others that is all: no errors, or errors that
// no robust scale takes for outliers.
TEST(DepthFit, IsLeastSquaresOfAllButOutliers) {
    // Percent of outliers, samples, errors of the rest: uniform up to the first, normal with the second as deviation.
    const std::tuple<int, std::vector<size_t>, double, double> cases[] = {{0, {10, 11, 400, 7001}, 0, 0},
                                                                          {0, {10, 11, 400, 7001}, 0.01, 0},
                                                                          {10, {1000}, 0, 0.002},
                                                                          {30, {1000}, 0, 0.002},
                                                                          {45, {1000}, 0, 0.002}};
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> unit(0, 1);
    std::normal_distribution<double> normal(0, 1);
    for (const auto &[percent, counts, uniform, deviation] : cases)
        for (const size_t count : counts) {
            std::vector<depth_sample> samples(count), good;
            for (depth_sample &s : samples) {
                s.value = unit(random);
                s.inverse =
                    0.7 * s.value + 0.2 + deviation * normal(random) + uniform * (2 * unit(random) - 1);
                if (int(random() % 100) < percent)
                    s.inverse = random() % 3 == 0 ? 1e6 : 0.05 + 1e-6 * double(random() % 1000); // far behind
                else
                    good.push_back(s);
            }
            depth_fit fit;
            EXPECT_DONE(depth_fit_line(samples.data(), count, &fit, &why));
            const std::array<double, 2> line = least_squares(good);
            const double apart = percent > 0 ? 0.002 : 1e-12;
            EXPECT_NEAR(fit.scale, line[0], apart) << count << ", " << percent;
            EXPECT_NEAR(fit.shift, line[1], apart) << count << ", " << percent;
            EXPECT_GE(fit.used, percent > 0 ? good.size() * 97 / 100 : count);
            EXPECT_LE(fit.used, percent > 0 ? good.size() + 20 : count);
            double mean = 0, square = 0;
            for (const depth_sample &s : samples) {
                mean += s.inverse / double(count);
                square += std::pow(line[0] * s.value + line[1] - s.inverse, 2) / double(count);
            }
            EXPECT_TRUE(percent > 0 || std::abs(fit.error - std::sqrt(square) / mean) <= 1e-12) << fit.error;
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
    gs_camera camera = forward_camera(64, 32, 32); // cells of one pixel
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
    // The samples of points, of which those seen are `seen` unless it is empty.
    const auto samples_of = [&](const std::vector<std::array<float, 3>> &of,
                                const std::vector<uint32_t> &seen) {
        const depth_points all = {reinterpret_cast<const float(*)[3]>(of.data()), of.size(),
                                  seen.empty() ? nullptr : seen.data(), seen.size()};
        std::vector<depth_sample> samples(of.size());
        size_t found;
        EXPECT_DONE(depth_samples(&view, &all, samples.data(), &found, &why));
        samples.resize(found);
        return samples;
    };
    std::vector<depth_sample> samples = samples_of(points, {});
    const std::vector<std::array<double, 2>> expected = {{5 * 64 + 10, 1 / 2.0},  {20 * 64 + 41, 1 / 3.0},
                                                         {20 * 64 + 50, 1 / 4.0}, {20 * 64 + 50, 1 / 3.95},
                                                         {20 * 64 + 55, 1 / 4.0}, {20 * 64 + 57, 1 / 2.0}};
    ASSERT_EQ(samples.size(), expected.size());
    for (size_t i = 0; i < samples.size(); i++) {
        EXPECT_EQ(samples[i].value, expected[i][0]) << i;
        EXPECT_NEAR(samples[i].inverse, expected[i][1], 1e-6) << i;
    }
    // Where it is known what is seen: also what another point would hide; not what is outside or unknown.
    samples = samples_of(points, {1, 6, 7, 10});
    ASSERT_EQ(samples.size(), 2u);
    EXPECT_EQ(samples[0].value, 20 * 64 + 40);
    EXPECT_NEAR(samples[1].inverse, 0.5, 1e-6);
    // A fisheye's depth is the distance.
    camera.model = GS_FISHEYE;
    samples = samples_of({{0.3f, 0, 0.4f}}, {});
    ASSERT_EQ(samples.size(), 1u);
    EXPECT_NEAR(samples[0].inverse, 2, 1e-6);
}

// ---- random points that cameras see

using position = std::array<double, 3>;

// Cameras with a picture whose colour says which camera and pixel it is.
class RandomPoints : public testing::Test, public photographs {
  protected:
    void look(const position &eye, const position &target, int width = 40, int height = 30) {
        gs_camera camera = camera_with_view_angle(width, height, 0.8);
        const double up[3] = {0.1, 1, 0.2};
        camera_look_at(&camera, eye.data(), target.data(), up);
        const int number = int(views.size());
        add(camera, [=](int i) { return i % 3 == 0 ? number : i % 3 == 1 ? i / 3 % width : i / 3 / width; });
    }
    // Twelve that look at an object in the origin.
    void look_from_around() {
        for (int i = 0; i < 12; i++) look({4 * std::cos(i * 0.5), 1, 4 * std::sin(i * 0.5)}, {0, 0, 0});
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
    std::vector<std::array<float, 3>> points;
    std::vector<std::array<uint8_t, 3>> colors;
};

TEST_F(RandomPoints, TheFocusIsWhatCamerasLookAtOrInFrontOfParallelOnes) {
    const auto expect_focus = [&](size_t count, const position &expected, double apart) {
        double focus[3];
        camera_focus(views.data(), count, focus);
        for (size_t i = 0; i < 3; i++) EXPECT_NEAR(focus[i], expected[i], apart);
    };
    const position target = {3, -2, 7};
    for (const position &eye :
         {position{0, 0, 0}, position{9, 1, 2}, position{3, 5, 3}, position{-1, -6, 12}})
        look(eye, target);
    expect_focus(4, target, 0.02);
    clear();
    for (double x : {0.0, 1.0, -1.0}) look({x, 0, 0}, {x, 0, 9}); // the extent is 1.1
    expect_focus(3, {0, 0, 5.5}, 1e-3);
    expect_focus(1, {0, 0, 5}, 1e-3); // extent 1
}

TEST_F(RandomPoints, ArePointsThatCamerasSee) {
    for (int i = 0; i < 6; i++) look({2.0 * i - 5, 0.5 * i, 0}, {0, 0, 10}, 40 + i, 30 - i); // no size twice
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
    look_from_around();
    draw(4000, true, 6);
    const double half = std::sqrt(17) * std::tan(0.4); // of the lower side of the pictures, at the distance
    for (size_t k = 0; k < points.size(); k++)
        drawn_from(k, 0.501); // a grey one, of no picture, is of no camera either
    for (size_t i = 0; i < 3; i++) {
        const auto [least, most] = std::minmax_element(
            points.begin(), points.end(), [i](const auto &a, const auto &b) { return a[i] < b[i]; });
        EXPECT_NEAR((*least)[i], -half, 0.02 * half);
        EXPECT_NEAR((*most)[i], half, 0.02 * half);
    }
}

TEST_F(RandomPoints, OfAnObjectAreWithinItsOutlines) {
    const int width = 40, height = 30;
    look_from_around();
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
    const std::vector<std::vector<std::array<position, 2>>> rigs = {
        {{{{0, 0, 0}, {0, 0, 1}}}},
        {{{{0, 0, 0}, {0, 0, 1}}}, {{{0, 0, 0}, {0, 0, 1}}}, {{{0, 0, 0}, {1, 0, 0}}}},
        {{{{1, 0, 0}, {2, 0, 0}}},
         {{{-1, 0, 0}, {-2, 0, 0}}},
         {{{0, 0, 1}, {0, 0, 2}}},
         {{{0, 0, -1}, {0, 0, -2}}}}};
    for (const auto &rig : rigs)
        for (const bool is_object : {false, true}) {
            clear();
            for (const auto &camera : rig) look(camera[0], camera[1]);
            draw(200, is_object, 3);
            for (const auto &p : points)
                for (const float coordinate : p) {
                    ASSERT_TRUE(std::isfinite(coordinate));
                    ASSERT_LT(std::abs(coordinate), 100);
                }
        }
}

// ---- points by stereo, of pictures whose depth is known

struct start {
    explicit start(const std::vector<target_view> &views, size_t wanted = 1500, uint64_t seed = 1)
        : points(wanted), colors(wanted) {
        EXPECT_TRUE(stereo_points(views.data(), views.size(), wanted, seed,
                                  reinterpret_cast<float(*)[3]>(points.data()),
                                  reinterpret_cast<uint8_t(*)[3]>(colors.data()), &result));
    }
    std::vector<std::array<float, 3>> points;
    std::vector<std::array<uint8_t, 3>> colors;
    stereo_result result = {};
};

TEST(StereoPoints, LieOnTheSurfacesAndHaveTheirColours) {
    stereo_scene scene(6, 64);
    for (target_view &view : scene.views)
        for (int i = 0; i < 64 * 48; i++) // red says what green is
            view.picture->pixels[3 * i] = uint8_t(255 - view.picture->pixels[3 * i + 1]);
    const start got(scene.views);
    EXPECT_EQ(got.result.views, 6u);
    EXPECT_GT(got.result.found, 1500u);
    ASSERT_GT(got.result.points, 1200u);
    for (size_t i = 0; i < got.result.points; i++) EXPECT_EQ(got.colors[i][0], 255 - got.colors[i][1]);
    std::vector<double> distance;
    for (size_t i = 0; i < 1200; i++) distance.push_back(stereo_scene::distance(got.points[i].data()));
    std::sort(distance.begin(), distance.end());
    EXPECT_LT(distance[600], 0.025); // the ball has a radius of 0.7
    EXPECT_LT(distance[1100], 0.12);
    // The rest lies where stereo has found nothing: mostly between the ball and the wall or behind it.
    for (size_t i = 1200; i < got.result.points; i++) EXPECT_GT(got.points[i][2], 1) << i;
}

TEST(StereoPoints, PicturesWithoutDepthGiveNone) {
    const stereo_scene scene(6, 48);
    const start some(scene.views, 500), of_another_seed(scene.views, 500, 2);
    EXPECT_GT(some.result.points, 0u);
    EXPECT_LE(some.result.points, 500u);
    EXPECT_NE(some.points, of_another_seed.points);
    EXPECT_EQ(start({scene.views[0]}).result.points, 0u);
    EXPECT_EQ(start({scene.views[0], scene.views[1]}).result.points, 0u);
    EXPECT_EQ(start(std::vector<target_view>(4, scene.views[2])).result.points, 0u);
    const stereo_scene tiny(6, 4), thin(6, 8);
    EXPECT_EQ(start(tiny.views).result.points, 0u);
    EXPECT_EQ(start(thin.views).result.points, 0u);
    std::vector<target_view> bent = scene.views;
    bent[3].camera.model = GS_FISHEYE;
    EXPECT_EQ(start(bent, 500).result.points, 0u);
    for (const target_view &view : scene.views) std::fill_n(view.picture->pixels, 3 * 48 * 36, uint8_t(0));
    EXPECT_EQ(start(scene.views, 500).result.points, 0u);
}

} // namespace start_test
