// SPDX-License-Identifier: MIT
//
// Random scenes: exact in float, the same everywhere, with every kind of Gaussian in them.
#include "finite_difference.h"

#include <gtest/gtest.h>

#include <cstring>

namespace {

TEST(RandomScene, IsExactInFloatAndSurvivesTheWayThroughFloats) {
    reference_scene scene = reference_scene_create(61, REFERENCE_KIND_CYCLE - 1, 3, 41, 23); // all finite
    scene.gaussians.scale_modifier = 0.75;
    reference_scene_precompute(&scene, 1, 1);
    const reference_gaussians &g = scene.gaussians;
    const auto n = static_cast<size_t>(g.count);
    std::vector<float> mean(3 * n), log_scale(3 * n), quaternion(4 * n), opacity_logit(n), sh(48 * n),
        color(3 * n), covariance(6 * n);
    const gs_gaussians floats = {g.count,
                                 3,
                                 mean.data(),
                                 log_scale.data(),
                                 quaternion.data(),
                                 opacity_logit.data(),
                                 sh.data(),
                                 nullptr,
                                 color.data(),
                                 covariance.data(),
                                 0.75f,
                                 1,
                                 0,
                                 0,
                                 0};
    reference_gaussians_to_floats(&g, &floats);
    reference_gaussians back = reference_gaussians_from_floats(&floats);
    EXPECT_EQ(reference_gaussians_values(&back), (11 + 48 + 9) * g.count);
    EXPECT_TRUE(std::equal(g.mean, g.mean + reference_gaussians_values(&g), back.mean));
    EXPECT_EQ(back.scale_modifier, 0.75);
    EXPECT_EQ(back.antialias, 1);
    const gs_camera camera = reference_camera_to_floats(&scene.camera);
    const reference_camera camera_back = reference_camera_from_floats(&camera);
    EXPECT_EQ(camera_back.width, 41);
    EXPECT_EQ(camera_back.height, 23);
    EXPECT_EQ(camera_back.fx, scene.camera.fx);
    EXPECT_EQ(camera_back.fy, scene.camera.fy);
    EXPECT_EQ(camera_back.cx, scene.camera.cx);
    EXPECT_EQ(camera_back.cy, scene.camera.cy);
    EXPECT_EQ(camera_back.near_plane, scene.camera.near_plane);
    EXPECT_TRUE(std::equal(camera_back.rotation, camera_back.rotation + 9, scene.camera.rotation));
    EXPECT_TRUE(std::equal(camera_back.translation, camera_back.translation + 3, scene.camera.translation));
    for (const double value : scene.background) EXPECT_EQ(value, static_cast<float>(value));
    reference_gaussians_destroy(&back);
    reference_scene_destroy(&scene);
}

uint64_t fingerprint(const reference_scene &scene) {
    uint64_t hash = 14695981039346656037u; // FNV-1a
    auto add = [&](double value) {
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    };
    for (int64_t k = 0; k < reference_gaussians_values(&scene.gaussians); k++) add(scene.gaussians.mean[k]);
    for (const double value : {scene.camera.fx, scene.camera.fy, scene.camera.cx, scene.camera.cy})
        add(value);
    for (const double value : scene.camera.rotation) add(value);
    for (const double value : scene.camera.translation) add(value);
    for (const double value : scene.background) add(value);
    for (int k = 0; k < 3 * scene.camera.width * scene.camera.height; k++) add(scene.target[k]);
    return hash;
}

TEST(RandomScene, IsTheSameOnEveryMachine) {
    reference_scene scene = reference_scene_create(62, 100, 2, 33, 47),
                    other = reference_scene_create(63, 100, 2, 33, 47);
    EXPECT_EQ(fingerprint(scene), 1325427270647002885u);
    EXPECT_NE(fingerprint(scene), fingerprint(other));
    reference_scene_destroy(&scene);
    reference_scene_destroy(&other);
}

TEST(RandomScene, HasEveryKindInEveryCycle) {
    for (int64_t first = 0; first < 3; first++) {
        int kinds[REFERENCE_KINDS] = {};
        for (int64_t i = 0; i < REFERENCE_KIND_CYCLE; i++) kinds[reference_kind_of(first + i)]++;
        for (int kind = 0; kind < REFERENCE_KINDS; kind++) EXPECT_GT(kinds[kind], 0) << kind;
    }
}

} // namespace
