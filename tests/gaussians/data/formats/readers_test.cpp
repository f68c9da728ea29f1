// SPDX-License-Identifier: MIT
// Formats that are only read, by files written by hand from their specifications: .splat, compressed PLY, glTF.
#include "scene_bytes.h"
#include "scene_cases.h"
#include <functional>

namespace readers_test {

class Readers : public testing::Test {
  protected:
    bool read(const std::string &name, const std::string &bytes) {
        path = folder / name;
        write_bytes(path, bytes);
        scene_close(&got);
        return scene_read(path.c_str(), SCENE_FINITE, &got, &why);
    }
    // Every beginning is refused.
    void damage(const std::string &name, const std::string &whole, size_t step) {
        ASSERT_TRUE(read(name, whole)) << why.text;
        for (size_t size = 0; size < whole.size(); size += step)
            ASSERT_FALSE(read(name, whole.substr(0, size))) << size << " of " << whole.size();
    }
    TemporaryFolder folder;
    std::string path;
    scene_in_memory got;
    fault why = {};
};

// ---- .splat

TEST_F(Readers, SplatByItsLayout) {
    ASSERT_TRUE(read("a.splat", splat_file())) << why.text;
    ASSERT_EQ(got.count, 2);
    EXPECT_EQ(got.sh_degree, 0);
    EXPECT_EQ(got.mean[0], 1.5f);
    EXPECT_EQ(got.mean[5], 1);
    EXPECT_EQ(got.log_scale[0], 0);
    EXPECT_FLOAT_EQ(got.log_scale[1], std::log(0.25f));
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[0], 1, 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[1], 0, 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[2], 128 / 255.0, 1e-6);
    EXPECT_NEAR(opacity_of(got, 0), 0.2, 1e-6);
    EXPECT_EQ(got.quaternion[1], 127 / 128.0f);
    EXPECT_EQ(got.quaternion[3], -127 / 128.0f);
    ASSERT_TRUE(read("a.splat", "")) << why.text;
    EXPECT_EQ(got.count, 0);
    EXPECT_FALSE(scene_write((folder / "b.splat").c_str(), &got, &why));
    EXPECT_TRUE(contains(why, "b.splat: .splat files are only read; the suffix must be one of .ply"))
        << why.text;
}

// ---- compressed PLY

TEST_F(Readers, CompressedPlyByItsLayout) {
    ASSERT_TRUE(read("a.ply", compressed_file(true, 9))) << why.text;
    ASSERT_EQ(got.count, 1);
    ASSERT_EQ(got.sh_degree, 1);
    EXPECT_TRUE(got.antialias);
    EXPECT_EQ(got.mean[0], 1);
    EXPECT_EQ(got.mean[1], -2);
    EXPECT_NEAR(got.mean[2], 8 * 1024 / 2047.0, 1e-6);
    EXPECT_EQ(got.log_scale[0], -5);
    EXPECT_EQ(got.log_scale[1], -1);
    EXPECT_NEAR(got.quaternion[0], std::sqrt(0.5), 1e-6);
    EXPECT_NEAR(got.quaternion[1], (511 / 1023.0 - 0.5) * std::sqrt(2), 1e-6);
    EXPECT_NEAR(got.quaternion[2], 0, 1e-6);
    EXPECT_NEAR(got.quaternion[3], -std::sqrt(0.5), 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[0], 0.5, 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[1], 1, 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[2], 0.2, 1e-6);
    EXPECT_GT(opacity_of(got, 0), 254.5 / 255);
    EXPECT_FLOAT_EQ(got.sh[3], (128.5f / 256) * 8 - 4); // red's first, second and third, then green's first
    EXPECT_EQ(got.sh[6], 4);
    EXPECT_EQ(got.sh[9], -4);
    EXPECT_FLOAT_EQ(got.sh[4], (131.5f / 256) * 8 - 4);
    ASSERT_TRUE(read("a.compressed.ply", compressed_file(false, 0)))
        << why.text; // as of 2024: colours in 0..1
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[0], 0, 1e-6);
}

// ---- glTF

std::string replaced(std::string text, const std::string &from, const std::string &to) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
}

TEST_F(Readers, GltfByItsSpecification) {
    const gltf_model m = two_gaussians();
    const auto expect_it = [&] {
        ASSERT_EQ(got.count, 2);
        ASSERT_EQ(got.sh_degree, 1);
        // The node: (x, y, z) -> (10 - 2 y, 20 + 2 x, 30 + 2 z); our axes: the negative of x and y.
        const float means[] = {-10, -22, 30, -4, -20, 40};
        for (int k = 0; k < 6; k++) EXPECT_NEAR(got.mean[k], means[k], 1e-5) << k;
        const double scales[] = {2, 4, 1, 0.5, 2, 2};
        for (int k = 0; k < 6; k++) EXPECT_NEAR(got.log_scale[k], std::log(scales[k]), 1e-6) << k;
        // A quarter turn about z with the half turn: x -> -y, y -> x. The second is turned by half about its x before.
        const double turn[] = {0, 1, 0, -1, 0, 0, 0, 0, 1};
        for (size_t k = 0; k < 9; k++) EXPECT_NEAR(axes_of(got, 0)[k], turn[k], 1e-6) << k;
        for (size_t k = 0; k < 9; k++) EXPECT_NEAR(axes_of(got, 1)[k], k % 3 ? -turn[k] : turn[k], 1e-6) << k;
        EXPECT_NEAR(opacity_of(got, 0), 0.2, 1e-5);
        EXPECT_GT(opacity_of(got, 1), 0.99999);
        // Coefficients of -y, z, -x: what was of x is now of -y, what was of y of x.
        const float *const sh = got.sh + 12;
        for (int c = 0; c < 3; c++) {
            const float d = 0.375f + 0.125f * float(c);
            EXPECT_NEAR(sh[c], d, 1e-6);
            EXPECT_NEAR(sh[3 + c], -(3 + d), 1e-5);
            EXPECT_NEAR(sh[6 + c], 2 + d, 1e-5);
            EXPECT_NEAR(sh[9 + c], 1 + d, 1e-5);
        }
    };
    ASSERT_TRUE(read("a.glb", glb(m))) << why.text;
    expect_it();
    write_bytes(folder / "part/a.bin", m.binary);
    ASSERT_TRUE(read("a.gltf",
                     replaced(m.json, "{\"byteLength\":156}", "{\"byteLength\":156,\"uri\":\"part/a.bin\"}")))
        << why.text;
    expect_it();
    // A matrix, by columns; two parts of different degrees; no scene.
    gltf_model matrix = m;
    const size_t begin = m.json.find("\"translation\""), end = m.json.find("]},{\"mesh\"");
    matrix.json.replace(begin, end - begin, "\"matrix\":[0,2,0,0,-2,0,0,0,0,0,2,0,10,20,30,1");
    ASSERT_TRUE(read("a.glb", glb(matrix))) << why.text;
    expect_it();
    ASSERT_TRUE(read("a.glb", glb({replaced(m.json, "\"scenes\":[{\"nodes\":[0]}],", ""), m.binary})))
        << why.text;
    EXPECT_EQ(got.mean[0], -1);
}

TEST_F(Readers, FindDamage) {
    damage("a.ply", compressed_file(true, 9), 3);
    damage("a.glb", glb(two_gaussians()), 5);
}

} // namespace readers_test
