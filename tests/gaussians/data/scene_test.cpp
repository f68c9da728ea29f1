// SPDX-License-Identifier: MIT
// Scenes in memory, and how a file's name decides its format.
#include "scene.h"
#include "files.h"
#include <gtest/gtest.h>
#include <cmath>
#include <filesystem>

namespace {

TEST(Scene, IsAlignedZeros) {
    fault why = {};
    for (const int64_t count : {0, 1, 2, 3, 5}) {
        for (int degree = 0; degree <= 3; degree++) {
            gs_gaussians g;
            ASSERT_TRUE(scene_open(&g, count, degree, &why)) << why.text;
            for (const float *part : {g.mean, g.log_scale, g.quaternion, g.opacity_logit, g.sh}) {
                ASSERT_NE(part, nullptr);
                EXPECT_EQ(reinterpret_cast<uintptr_t>(part) % 16, 0u);
            }
            for (int64_t i = 0; i < count * 3 * (degree + 1) * (degree + 1); i++) EXPECT_EQ(g.sh[i], 0.0f);
            scene_close(&g);
            scene_close(&g);
        }
    }
    gs_gaussians g;
    EXPECT_FALSE(scene_open(&g, -1, 0, &why));
    EXPECT_FALSE(scene_open(&g, int64_t(1) << 31, 0, &why));
    EXPECT_FALSE(scene_open(&g, 1, 4, &why));
    EXPECT_FALSE(scene_open(&g, 1, -1, &why));
}

TEST(Scene, TheSuffixDecidesTheFormat) {
    TemporaryFolder folder;
    fault why = {};
    gs_gaussians sent, got;
    ASSERT_TRUE(scene_open(&sent, 2, 1, &why)) << why.text;
    sent.mean[4] = 7;
    for (const char *name : {"a.ply", "A.PLY", "b.c.Ply"}) {
        const std::string path = folder / name;
        ASSERT_TRUE(scene_is_possible(path.c_str(), &why)) << why.text;
        ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
        ASSERT_TRUE(scene_read(path.c_str(), SCENE_FINITE, &got, &why)) << why.text;
        EXPECT_EQ(got.count, 2);
        EXPECT_EQ(got.mean[4], 7);
        scene_close(&got);
    }
    for (const char *name : {"a.sogs", "a", "ply", ".ply", "a.ply.gz", "a.plyx"}) {
        const std::string path = name[0] == '.' ? name : std::string(folder / name);
        EXPECT_FALSE(scene_is_possible(path.c_str(), &why)) << path;
        EXPECT_FALSE(scene_write(path.c_str(), &sent, &why)) << path;
        EXPECT_FALSE(scene_read(path.c_str(), SCENE_FINITE, &got, &why)) << path;
        EXPECT_NE(std::string(why.text).find(
                      path + ": not a known format of scenes; the suffix must be one of .ply"),
                  std::string::npos)
            << why.text;
        EXPECT_EQ(got.mean, nullptr);
        EXPECT_FALSE(std::filesystem::exists(path));
    }
    EXPECT_FALSE(scene_is_possible((folder / "no/such/folder.ply").c_str(), &why));
    scene_close(&sent);
}

TEST(Scene, AColourBecomesItsCoefficient) {
    EXPECT_EQ(scene_sh_constant(0.5), 0);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * scene_sh_constant(0.8), 0.8, 1e-15);
}

} // namespace
