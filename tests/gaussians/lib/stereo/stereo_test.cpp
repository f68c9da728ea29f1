// SPDX-License-Identifier: MIT
// A plane sweep against depth that is known: of a ray-traced scene.
#include "density/density_scene.h"
#include "stereo/stereo_scene.h"
#include <algorithm>
#include <deque>

namespace {

const float nearest = 1 / 1.5f;

// The views of a scene on the device, each with the views beside it as neighbours.
class swept_scene {
  public:
    explicit swept_scene(int count, int steps, int width = 56) : scene(count, width) {
        for (int v = 0; v < count; v++) {
            const gs_camera &camera = scene.views[size_t(v)].camera;
            const size_t pixels = size_t(camera.width * camera.height);
            const uint8_t *const first = scene.views[size_t(v)].picture->pixels;
            rgb.emplace_back(std::vector<uint8_t>(first, first + 3 * pixels));
            depth.emplace_back(std::vector<float>(pixels, 12345));
            covered.emplace_back(std::vector<uint8_t>(pixels, 0));
            gs_stereo_view view = {};
            view.camera = camera;
            view.rgb = rgb.back().data(), view.inverse_depth = depth.back().data();
            view.covered = covered.back().data();
            view.steps = steps, view.step = nearest / float(steps);
            for (const int other : {v - 1, v + 1, v - 2, v + 2})
                if (other >= 0 && other < count) view.neighbour[view.neighbours++] = other;
            views.push_back(view);
        }
        stereo.count = count;
        stereo.most_pixels = width * (width * 3 / 4);
        stereo.least_score = 0.7f, stereo.least_lead = 0.03f, stereo.tolerance = 1;
    }
    void sweep() {
        on_device = std::make_unique<device_vector<gs_stereo_view>>(views);
        stereo.views = on_device->data();
        ASSERT_GS_OK(gs_stereo_depths(&stereo, nullptr));
    }
    // Errors of the view's inverse depths in steps; NaN where they are unknown.
    std::vector<double> errors(size_t v) const {
        const std::vector<float> got = depth[v].read();
        std::vector<double> all;
        const int width = views[v].camera.width;
        for (int i = 0; i < int(got.size()); i++)
            all.push_back((got[size_t(i)] - scene.inverse_depth(v, i % width, i / width)) / views[v].step);
        return all;
    }
    std::vector<float> points(int v) const {
        const device_vector<float> to(size_t(3 * stereo.most_pixels));
        EXPECT_GS_OK(gs_stereo_points(&stereo, v, to.data(), nullptr));
        return to.read();
    }

    stereo_scene scene;
    std::deque<device_vector<uint8_t>> rgb, covered;
    std::deque<device_vector<float>> depth;
    std::vector<gs_stereo_view> views;
    gs_stereo stereo = {};
    std::unique_ptr<device_vector<gs_stereo_view>> on_device;
};

std::vector<double> known(const std::vector<double> &all) {
    std::vector<double> some;
    std::copy_if(all.begin(), all.end(), std::back_inserter(some), [](double x) { return !std::isnan(x); });
    std::sort(some.begin(), some.end());
    return some;
}

// A sweep that is off by a step has a median error of 1.
TEST(Stereo, DepthsAreThoseOfTheScene) {
    swept_scene swept(5, 40);
    swept.sweep();
    for (size_t v = 0; v < 5; v++) {
        const std::vector<double> all = swept.errors(v), some = known(all);
        ASSERT_GT(double(some.size()), 0.3 * double(all.size())) << v;
        EXPECT_NEAR(some[some.size() / 2], 0, 0.25) << v;
        const auto off =
            std::count_if(some.begin(), some.end(), [](double error) { return !(std::abs(error) < 1); });
        EXPECT_LT(double(off), 0.2 * double(some.size())) << v; // at the ball's rim
    }
}

TEST(Stereo, WhatIsNotSeenIsUnknown) {
    swept_scene swept(5, 40);
    const size_t pixels = size_t(swept.stereo.most_pixels), width = 56;
    const device_vector<uint8_t> black(std::vector<uint8_t>(3 * pixels, 0));
    std::vector<uint8_t> left(pixels, 0);
    for (size_t i = 0; i < pixels; i++) left[i] = i % width < width / 2;
    const device_vector<uint8_t> mask(left);
    swept.views[0].rgb = black.data();
    swept.views[1].neighbours = 1;
    swept.views[2].mask = mask.data();
    swept.sweep();
    EXPECT_TRUE(known(swept.errors(0)).empty());
    EXPECT_TRUE(known(swept.errors(1)).empty());
    const std::vector<double> masked = swept.errors(2), whole = swept.errors(3);
    for (size_t i = 0; i < pixels; i++) {
        const size_t x = i % width, y = i / width;
        const bool inside = x >= 3 && y >= 3 && x + 3 < width && y + 3 < pixels / width;
        EXPECT_TRUE(left[i] || std::isnan(masked[i])) << i;
        EXPECT_TRUE(inside || std::isnan(whole[i])) << i;
    }
    EXPECT_GT(known(masked).size(), pixels / 5);
}

TEST(Stereo, ViewsAgreeOnPointsAndEachSurfaceGetsThemOnce) {
    swept_scene swept(5, 40);
    swept.sweep();
    size_t depths = 0, points = 0, near = 0;
    for (int v = 0; v < 5; v++) {
        depths += known(swept.errors(size_t(v))).size();
        const std::vector<float> got = swept.points(v);
        const std::vector<uint8_t> covered = swept.covered[size_t(v)].read();
        for (size_t i = 0; i < got.size() / 3; i++) {
            if (std::isnan(got[3 * i])) continue;
            EXPECT_NE(covered[i], 0);
            points++;
            near += stereo_scene::distance(&got[3 * i]) < 0.1; // a step is 0.09 at the ball, 0.27 at the wall
        }
    }
    EXPECT_GT(points, depths / 6);
    EXPECT_LT(points, depths / 2);
    EXPECT_GT(double(near), 0.9 * double(points));
}

// A surface that only one view claims, in front of what the others see, is none.
TEST(Stereo, WhatOthersLookThroughIsNoPoint) {
    swept_scene swept(5, 40);
    swept.sweep();
    std::vector<float> wrong = swept.depth[2].read();
    for (float &w : wrong) w += 4 * swept.views[2].step;
    device_upload(swept.depth[2].data(), wrong.data(), wrong.size() * sizeof(float));
    size_t points = 0;
    const std::vector<float> got = swept.points(2);
    for (size_t i = 0; i < got.size(); i += 3) points += !std::isnan(got[i]);
    EXPECT_LT(points, wrong.size() / 100);
}

} // namespace
