// SPDX-License-Identifier: MIT
// Scenes made to measure on: how many, how large, where, and the same every time.
#include "scenes.h"
#include "camera.h"
#include "scene.h"
#include <gtest/gtest.h>
#include <math.h>
#include <set>
#include <string.h>

namespace {

enum { GIVEN = 10 };

// Gaussian i has i as its colour; all have the same shape, stretched along y after a turn about z by 90
// degrees.
class Scenes : public testing::Test {
  protected:
    gs_gaussians from = {}, out = {}, again = {};
    fault why;
    const float scale[3] = {0.5f, 0.01f, 0.02f};

    void SetUp() override {
        ASSERT_TRUE(scene_open(&from, GIVEN, 0, &why)) << why.text;
        for (int i = 0; i < GIVEN; i++) {
            from.mean[3 * i] = float(100 * i);
            for (int k = 0; k < 3; k++) from.log_scale[3 * i + k] = logf(scale[k]);
            from.quaternion[4 * i] = from.quaternion[4 * i + 3] = 2; // not normalised
            from.opacity_logit[i] = 3;
            from.sh[3 * i] = float(i);
        }
    }
    void make(scene_kind kind, int64_t count, uint64_t seed = 1, const gs_camera *camera = nullptr) {
        ASSERT_TRUE(scene_to_measure(kind, &from, count, camera, seed, &out, &why)) << why.text;
    }
    void TearDown() override {
        scene_close(&from);
        scene_close(&out);
        scene_close(&again);
    }
};

TEST_F(Scenes, ManyCopiesEveryGaussianEquallyOften) {
    make(SCENE_MANY, 25);
    ASSERT_EQ(out.count, 25);
    int copies[GIVEN] = {};
    for (int i = 0; i < 25; i++) copies[int(out.sh[3 * i])]++;
    for (const int n : copies) EXPECT_TRUE(n == 2 || n == 3) << n;
}

TEST_F(Scenes, ManyOfFewerIsASubset) {
    make(SCENE_MANY, 6);
    std::set<float> seen(out.sh, out.sh + 1);
    for (int i = 0; i < 6; i++) seen.insert(out.sh[3 * i]);
    EXPECT_EQ(seen.size(), 6u);
}

TEST_F(Scenes, ManyShrinksAndMovesAlongTheAxes) {
    enum { COUNT = 20000 };
    make(SCENE_MANY, COUNT);
    double square[3] = {};
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < 3; k++) {
            EXPECT_FLOAT_EQ(expf(out.log_scale[3 * i + k]), scale[k] / 3);
            const float home = k == 0 ? 100 * out.sh[3 * i] : 0;
            square[k] += pow(double(out.mean[3 * i + k]) - home, 2) / COUNT;
        }
        EXPECT_EQ(out.opacity_logit[i], 3);
    }
    EXPECT_NEAR(sqrt(square[1]) / scale[0], 1, 0.03); // the long axis lies along y
    EXPECT_NEAR(sqrt(square[0]) / scale[1], 1, 0.03);
    EXPECT_NEAR(sqrt(square[2]) / scale[2], 1, 0.03);
}

TEST_F(Scenes, HugeOnesCoverMoreThanAQuarterOfThePicture) {
    gs_camera camera = camera_with_view_angle(300, 200, 0.9);
    const double eye[3] = {450, 0, -700}, target[3] = {450, 0, 0}, up[3] = {0, 1, 0};
    camera_look_at(&camera, eye, target, up);
    make(SCENE_HUGE, 50, 1, &camera);
    ASSERT_EQ(out.count, 50);
    for (int i = 0; i < 50; i++) {
        const float *mean = out.mean + 3 * i;
        const double distance = hypot(hypot(mean[0] - eye[0], mean[1] - eye[1]), mean[2] - eye[2]);
        const double opacity = 1 / (1 + exp(-out.opacity_logit[i]));
        const double reach = exp(out.log_scale[3 * i]) * sqrt(2 * log(255 * opacity)) / distance;
        // A disc of half the diagonal covers a quarter of the picture even from its corner.
        EXPECT_GT(reach, hypot(150, 100) / camera.fx);
        for (int k = 1; k < 3; k++) EXPECT_FLOAT_EQ(out.log_scale[3 * i], out.log_scale[3 * i + k]);
    }
}

TEST_F(Scenes, OfDegree3IsTheSameWithMoreCoefficients) {
    make(SCENE_SH3, GIVEN);
    ASSERT_EQ(out.count, GIVEN);
    ASSERT_EQ(out.sh_degree, 3);
    EXPECT_EQ(memcmp(out.mean, from.mean, 3 * GIVEN * sizeof(float)), 0);
    for (int i = 0; i < GIVEN; i++)
        for (int k = 0; k < 48; k++) EXPECT_EQ(out.sh[48 * i + k], k == 0 ? float(i) : 0);
}

TEST_F(Scenes, AreTheSameForTheSameSeedAlone) {
    make(SCENE_MANY, 25, 7);
    again = out;
    make(SCENE_MANY, 25, 7);
    EXPECT_EQ(memcmp(out.mean, again.mean, 75 * sizeof(float)), 0);
    scene_close(&out);
    make(SCENE_MANY, 25, 8);
    EXPECT_NE(memcmp(out.mean, again.mean, 75 * sizeof(float)), 0);
}

} // namespace
