// SPDX-License-Identifier: MIT
#include "dataset.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <vector>

namespace near_plane_test {

struct view {
    double other;
    gs_camera camera;
};

// A camera that is turned, at this place of the x axis.
view at(double x) {
    view v = {};
    const float turn[9] = {0, 0, 1, 0, 1, 0, -1, 0, 0};
    std::copy(turn, turn + 9, v.camera.rotation);
    v.camera.translation[2] = float(x); // -R c
    return v;
}

float of(std::vector<view> views) {
    dataset_set_near_planes(&views[0].camera, sizeof views[0], views.size());
    for (const view &v : views) EXPECT_EQ(v.camera.near_plane, views[0].camera.near_plane);
    return views[0].camera.near_plane;
}

std::vector<view> row(int count, double distance) {
    std::vector<view> out;
    for (int i = 0; i < count; i++) out.push_back(at(distance * i));
    return out;
}

TEST(NearPlane, IsHalfTheDistanceToTheNextCamera) {
    for (double unit : {1e-12, 1.0, 1e6}) {
        EXPECT_NEAR(of(row(101, unit)) / unit, 0.5, 1e-5);
        std::vector<view> few = row(101, unit);
        for (int i = 0; i < 50; i++)
            few[size_t(2 * i)] = few[size_t(2 * i + 1)]; // most have another beside them
        few.push_back(at(500 * unit));
        EXPECT_NEAR(of(few) / unit, 445.098 / 100000, 1e-6);
    }
    EXPECT_NEAR(of(row(20001, 0.25)), 0.125, 1e-5);
}

TEST(NearPlane, IsAtMostAThirtiethOfTheSpread) {
    EXPECT_FLOAT_EQ(of(row(11, 3)), 15.0f / 30);
    EXPECT_FLOAT_EQ(of(row(2, 3)), 1.5f / 30);
}

TEST(NearPlane, IsUsualWhereAllCamerasAreInOnePlace) {
    EXPECT_EQ(of(row(1, 0)), 0.01f);
    EXPECT_EQ(of(std::vector<view>(5, at(7))), 0.01f);
}

} // namespace near_plane_test
