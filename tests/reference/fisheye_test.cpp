// SPDX-License-Identifier: MIT
//
// The reference's fisheye against its definition and against finite differences.
#include "derivative.h"
#include "fisheye.h"

#include <gtest/gtest.h>

#include <array>

namespace {

reference_camera camera_with(std::array<double, 4> distortion) {
    reference_camera camera = {};
    camera.width = 90, camera.height = 70;
    camera.fx = 31, camera.fy = 28;
    camera.cx = 40, camera.cy = 37;
    camera.model = GS_FISHEYE;
    std::copy(distortion.begin(), distortion.end(), camera.distortion);
    return camera;
}

const reference_camera some = camera_with({0.02, -0.003, 2e-4, -1e-5});
constexpr double degree = M_PI / 180;
const double angles[] = {0.01 * degree, 1 * degree,  20 * degree,  60 * degree,
                         80 * degree,   90 * degree, 110 * degree, 155 * degree};

std::array<double, 3> point_at(double angle, double around, double distance) {
    return {distance * std::sin(angle) * std::cos(around), distance * std::sin(angle) * std::sin(around),
            distance * std::cos(angle)};
}

TEST(Fisheye, IsTheFormulaOfKannalaAndBrandt) {
    for (const double angle : angles)
        for (const double around : {0.3, 2.0, -2.5}) {
            const std::array<double, 3> point = point_at(angle, around, 3.7);
            reference_fisheye_point p;
            reference_fisheye(&some, point.data(), &p);
            double radius = angle;
            for (int n = 0; n < 4; n++) radius += some.distortion[n] * std::pow(angle, 3 + 2 * n);
            EXPECT_NEAR(p.mean[0], some.cx + some.fx * radius * std::cos(around), 1e-9);
            EXPECT_NEAR(p.mean[1], some.cy + some.fy * radius * std::sin(around), 1e-9);
            EXPECT_NEAR(p.distance, 3.7, 1e-12);
            EXPECT_NEAR(p.angle, angle, 1e-12);
        }
}

TEST(Fisheye, DerivativesMatchFiniteDifferences) {
    for (const double angle : angles) {
        GroupError first, second;
        std::array<double, 3> point = point_at(angle, 0.8, 2.5);
        reference_fisheye_point base, moved;
        reference_fisheye(&some, point.data(), &base);
        const double step = 0.003 * std::min(1.0, std::sin(angle)) * 2.5;
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 3; i++) {
                const auto value = [&](auto &&of) {
                    reference_fisheye(&some, point.data(), &moved);
                    return of();
                };
                first.add(base.jacobian[k][i],
                          derivative([&] { return value([&] { return moved.mean[k]; }); },
                                     point[static_cast<size_t>(i)], step));
                for (int j = 0; j < 3; j++)
                    second.add(base.second[k][j][i],
                               derivative([&] { return value([&] { return moved.jacobian[k][j]; }); },
                                          point[static_cast<size_t>(i)], step));
            }
        EXPECT_LE(first.relative(), max_gradient_error) << angle / degree << " degrees";
        EXPECT_LE(second.relative(), max_gradient_error) << angle / degree << " degrees";
    }
}

TEST(Fisheye, TheLimitIsWhereTheRadiusStopsGrowing) {
    const double none[4] = {0, 0, 0, 0}, one[4] = {-0.1, 0, 0, 0}, two[4] = {0, 0, 0, -0.01};
    EXPECT_NEAR(reference_fisheye_limit(none), 160 * degree, 1e-9);
    EXPECT_NEAR(reference_fisheye_limit(one), std::sqrt(1 / 0.3), 1e-3);
    EXPECT_NEAR(reference_fisheye_limit(two), std::pow(1 / 0.09, 1.0 / 8), 1e-3);
}

} // namespace
