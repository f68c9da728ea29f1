// SPDX-License-Identifier: MIT
// Random scenes: exact in float, the same everywhere, with every kind of Gaussian in them.
#include "finite_difference.h"

#include <gtest/gtest.h>

#include <cstring>

namespace {

// All numbers of a scene.
std::vector<double> numbers_of(const reference_scene &scene) {
    const reference_gaussians &g = scene.gaussians;
    const reference_camera &c = scene.camera;
    std::vector<double> all(g.mean, g.mean + reference_gaussians_values(&g));
    all.insert(all.end(), {c.fx, c.fy, c.cx, c.cy});
    all.insert(all.end(), c.rotation, c.rotation + 9);
    all.insert(all.end(), c.translation, c.translation + 3);
    all.insert(all.end(), scene.background, scene.background + 3);
    all.insert(all.end(), scene.target, scene.target + 3 * c.width * c.height);
    return all;
}

TEST(RandomScene, IsExactInFloat) {
    held_scene scene = reference_scene_create(61, REFERENCE_KIND_CYCLE - 1, 3, 41, 23); // all finite
    scene.gaussians.scale_modifier = 0.75;
    reference_scene_precompute(&scene, 1, 1);
    for (const double value : numbers_of(scene)) ASSERT_EQ(value, static_cast<float>(value));
}

uint64_t fingerprint(const reference_scene &scene) {
    uint64_t hash = 14695981039346656037u; // FNV-1a
    for (const double value : numbers_of(scene)) {
        uint64_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    return hash;
}

TEST(RandomScene, IsTheSameOnEveryMachine) {
    held_scene scene = reference_scene_create(62, 100, 2, 33, 47),
               other = reference_scene_create(63, 100, 2, 33, 47);
    EXPECT_EQ(fingerprint(scene), 1325427270647002885u);
    EXPECT_NE(fingerprint(scene), fingerprint(other));
}

TEST(RandomScene, HasEveryKindInEveryCycle) {
    for (int64_t first = 0; first < 3; first++) {
        int kinds[REFERENCE_KINDS] = {};
        for (int64_t i = 0; i < REFERENCE_KIND_CYCLE; i++) kinds[reference_kind_of(first + i)]++;
        for (int kind = 0; kind < REFERENCE_KINDS; kind++) EXPECT_GT(kinds[kind], 0) << kind;
    }
}

} // namespace
