// SPDX-License-Identifier: MIT
// Points to start from, of pictures whose depth is known, and pictures that give none.
#include "start.h"
#include "stereo/stereo_scene.h"
#include <algorithm>
#include <array>

namespace {

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

TEST(StereoPoints, LieOnTheSurfaces) {
    const stereo_scene scene(6, 64);
    const start got(scene.views);
    EXPECT_EQ(got.result.views, 6u);
    EXPECT_GT(got.result.found, 1500u);
    ASSERT_GT(got.result.points, 1200u);
    std::vector<double> distance;
    for (size_t i = 0; i < 1200; i++) distance.push_back(stereo_scene::distance(got.points[i].data()));
    std::sort(distance.begin(), distance.end());
    EXPECT_LT(distance[600], 0.025); // the ball has a radius of 0.7
    EXPECT_LT(distance[1100], 0.12);
    // The rest lies where stereo has found nothing: mostly between the ball and the wall or behind it.
    for (size_t i = 1200; i < got.result.points; i++) EXPECT_GT(got.points[i][2], 1) << i;
}

TEST(StereoPoints, HaveTheColoursOfThePictures) {
    stereo_scene scene(6, 64);
    for (target_view &view : scene.views)
        for (int i = 0; i < 64 * 48; i++) // red says what green is
            view.picture->pixels[3 * i] = uint8_t(255 - view.picture->pixels[3 * i + 1]);
    const start got(scene.views);
    for (size_t i = 0; i < got.result.points; i++) EXPECT_EQ(got.colors[i][0], 255 - got.colors[i][1]);
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

} // namespace
