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
        // What is outside the picture or before the near plane, which is at 0.2, is not seen.
        const double unseen[][3] = {{-0.5, 30, 2}, {80.5, 30, 2}, {40, 30, 0.19}, {40, 30, -1}};
        for (const auto &[x, y, depth] : unseen) {
            const double at[2] = {x, y};
            double point[3], pixel[2];
            camera_point_at(&camera, at, depth, point);
            EXPECT_FALSE(camera_pixel(&camera, point, pixel)) << x << ", " << depth;
        }
    }
}

TEST(Camera, LooksAtItsTarget) {
    gs_camera camera = camera_with_view_angle(64, 48, 0.8);
    const double eye[3] = {1, 2, 3}, target[3] = {4, -1, 7}, above[3] = {4, -1, 7.5}, up[3] = {0, 0, 1};
    double pixel[2], higher[2], center[3];
    camera_look_at(&camera, eye, target, up);
    ASSERT_TRUE(camera_pixel(&camera, target, pixel) && camera_pixel(&camera, above, higher));
    const double middle[2] = {32, 24};
    for (int k = 0; k < 2; k++) EXPECT_NEAR(pixel[k], middle[k], 1e-4);
    EXPECT_NEAR(higher[0], 32, 1e-4);
    EXPECT_LT(higher[1], 23); // +y is down
    EXPECT_NEAR(camera_depth(&camera, target), std::sqrt(9 + 9 + 16.0), 1e-5);
    const float *r = camera.rotation; // right-handed
    EXPECT_NEAR(r[0] * (r[4] * r[8] - r[5] * r[7]) - r[1] * (r[3] * r[8] - r[5] * r[6]) +
                    r[2] * (r[3] * r[7] - r[4] * r[6]),
                1, 1e-5);
    camera_center(&camera, center);
    for (int i = 0; i < 3; i++) EXPECT_NEAR(center[i], eye[i], 1e-5);
}

} // namespace
