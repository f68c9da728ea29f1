// SPDX-License-Identifier: MIT
// Where a camera sees a point, and which point it sees at a pixel, for both camera models.
#include "camera.h"
#include "demo/demo_scene.h"
#include <gtest/gtest.h>
#include <cmath>

namespace {

gs_camera camera_of(int model) {
    gs_camera camera = camera_with_view_angle(80, 60, 1);
    camera.cx = 37, camera.cy = 33;
    camera.model = model;
    if (model == GS_FISHEYE) {
        camera.fx = 24, camera.fy = 21; // some 95 degrees off the axis in the corners
        camera.distortion[0] = 0.02f;
        camera.distortion[1] = -0.004f;
    }
    const double eye[3] = {3, -2, 1.5}, up[3] = {0, 0, 1};
    camera_look_at(&camera, eye, demo_center, up);
    return camera;
}

TEST(Camera, APixelsPointIsSeenAtThePixel) {
    for (const int model : {GS_PINHOLE, GS_FISHEYE}) {
        const gs_camera camera = camera_of(model);
        double center[3];
        camera_center(&camera, center);
        for (const double x : {0.5, 36.75, 79.5})
            for (const double y : {0.5, 33.5, 59.5}) {
                const double pixel[2] = {x, y}, depth = 1.75;
                double point[3], back[2];
                camera_point_at(&camera, pixel, depth, point);
                ASSERT_TRUE(camera_pixel(&camera, point, back)) << x << " " << y;
                EXPECT_NEAR(back[0], x, 1e-4);
                EXPECT_NEAR(back[1], y, 1e-4);
                double along = 0, distance = 0;
                for (int i = 0; i < 3; i++) {
                    along += double(camera.rotation[6 + i]) * (point[i] - center[i]);
                    distance = std::hypot(distance, point[i] - center[i]);
                }
                EXPECT_NEAR(model == GS_FISHEYE ? distance : along, depth, 1e-5);
            }
    }
}

TEST(Camera, LooksAtItsTarget) {
    gs_camera camera = camera_with_view_angle(64, 48, 0.8);
    const double eye[3] = {1, 2, 3}, target[3] = {4, -1, 7}, above[3] = {4, -1, 7.5}, up[3] = {0, 0, 1};
    double pixel[2], center[3];
    camera_look_at(&camera, eye, target, up);
    ASSERT_TRUE(camera_pixel(&camera, target, pixel));
    EXPECT_NEAR(pixel[0], 32, 1e-4);
    EXPECT_NEAR(pixel[1], 24, 1e-4);
    EXPECT_NEAR(camera_depth(&camera, target), std::sqrt(9 + 9 + 16.0), 1e-5);
    ASSERT_TRUE(camera_pixel(&camera, above, pixel));
    EXPECT_NEAR(pixel[0], 32, 1e-4);
    EXPECT_LT(pixel[1], 23);          // +y is down
    const float *r = camera.rotation; // right-handed
    EXPECT_NEAR(r[0] * (r[4] * r[8] - r[5] * r[7]) - r[1] * (r[3] * r[8] - r[5] * r[6]) +
                    r[2] * (r[3] * r[7] - r[4] * r[6]),
                1, 1e-5);
    camera_center(&camera, center);
    for (int i = 0; i < 3; i++) EXPECT_NEAR(center[i], eye[i], 1e-5);
}

TEST(Camera, PointsOutsideThePictureAreNotSeen) {
    for (const int model : {GS_PINHOLE, GS_FISHEYE}) {
        const gs_camera camera = camera_of(model);
        double pixel[2], point[3];
        for (const double outside : {-0.5, 80.5}) {
            const double at[2] = {outside, 30};
            camera_point_at(&camera, at, 2, point);
            EXPECT_FALSE(camera_pixel(&camera, point, pixel)) << outside;
        }
        const double middle[2] = {40, 30};
        camera_point_at(&camera, middle, 0.19, point); // the near plane is at 0.2
        EXPECT_FALSE(camera_pixel(&camera, point, pixel));
        camera_point_at(&camera, middle, -1, point);
        EXPECT_FALSE(camera_pixel(&camera, point, pixel));
    }
}

} // namespace
