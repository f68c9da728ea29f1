// SPDX-License-Identifier: MIT
#include "scene_bytes.h"
#include "scene_cases.h"
#include "similarity.h"

namespace spz_test {

class Spz : public testing::Test {
  protected:
    bool read(const std::string &bytes) {
        write_bytes(path, bytes);
        scene_close(&got);
        return scene_read(path.c_str(), SCENE_FINITE, &got, &why);
    }
    void expect_the_gaussian(double rotation_x, double rotation_y, double rotation_z) {
        ASSERT_EQ(got.count, 1);
        ASSERT_EQ(got.sh_degree, 1);
        EXPECT_EQ(got.mean[0], 1);
        EXPECT_EQ(got.mean[1], 2); // y and z are reversed
        EXPECT_EQ(got.mean[2], -3);
        EXPECT_EQ(got.log_scale[0], -4);
        EXPECT_EQ(got.log_scale[1], -3);
        EXPECT_EQ(got.log_scale[2], 0);
        EXPECT_NEAR(opacity_of(got, 0), 0.2, 1e-6);
        EXPECT_NEAR(got.sh[0], 0.5 / 0.15, 1e-6);
        EXPECT_NEAR(got.sh[1], (128 / 255.0 - 0.5) / 0.15, 1e-6);
        EXPECT_NEAR(got.sh[2], -0.5 / 0.15, 1e-6);
        const float sh[] = {0, -0.0625f, 0.0625f, -0.125f, -0.5f, 0.5f, -1, 0.9375f, 0.0078125f}; // y, z, x
        for (int k = 0; k < 9; k++) EXPECT_EQ(got.sh[3 + k], sh[k]) << k;
        EXPECT_NEAR(got.quaternion[1], rotation_x, 1e-6);
        EXPECT_NEAR(got.quaternion[2], -rotation_y, 1e-6);
        EXPECT_NEAR(got.quaternion[3], -rotation_z, 1e-6);
        double square = 0;
        for (int k = 0; k < 4; k++) square += double(got.quaternion[k]) * got.quaternion[k];
        EXPECT_NEAR(square, 1, 1e-6);
        EXPECT_GT(got.quaternion[0], 0.5f);
    }

    TemporaryFolder folder;
    std::string path = folder / "scene.spz";
    scene_in_memory got;
    fault why = {};
};

TEST_F(Spz, ReadsEachVersionByItsSpecification) {
    const std::string between = alphas + colors + scales;
    const double third = std::sqrt(0.5) / 511;
    ASSERT_TRUE(
        read(gzip(spz_header(2, 1, 1, 12, 1, 0).text + positions + between + first_three + harmonics)))
        << why.text;
    EXPECT_TRUE(got.antialias);
    expect_the_gaussian(127 / 127.5 - 1, 191 / 127.5 - 1, 64 / 127.5 - 1);
    // Bits: 11, then 10 for each of x, y, z: a sign and nine.
    ASSERT_TRUE(
        read(gzip(spz_header(3, 1, 1, 12, 0, 0).text + positions + between + smallest_three + harmonics)))
        << why.text;
    EXPECT_FALSE(got.antialias);
    expect_the_gaussian(3 * third, 0, 255 * third);
    // Extensions, which the header announces, are skipped.
    ASSERT_TRUE(read(gzip(spz_header(3, 1, 1, 12, 2, 0).text + positions + between + smallest_three +
                          harmonics + std::string(6000, 'x'))))
        << why.text;
    expect_the_gaussian(3 * third, 0, 255 * third);
    // Halves: 1, -2, 3.
    const std::string halves("\x00\x3c\x00\xc0\x00\x42", 6);
    ASSERT_TRUE(read(gzip(spz_header(1, 1, 1, 0, 0, 0).text + halves + between + first_three + harmonics)))
        << why.text;
    expect_the_gaussian(127 / 127.5 - 1, 191 / 127.5 - 1, 64 / 127.5 - 1);
#ifdef DISTWAR_ZSTD
    for (const std::string extension : {"", "12345678"}) {
        Bytes file = spz_header(4, 1, 1, 12, extension.empty() ? 0 : 2, 6);
        file.put(uint32_t(32 + extension.size())).put(std::string(12, '\0')).put(extension);
        std::string streams;
        for (const std::string &part : {positions, alphas, colors, scales, smallest_three, harmonics}) {
            const std::string frame = zstd(part);
            file.put(uint64_t(frame.size())).put(uint64_t(part.size()));
            streams += frame;
        }
        ASSERT_TRUE(read(file.text + streams)) << why.text;
        expect_the_gaussian(3 * third, 0, 255 * third);
        EXPECT_FALSE(read(file.text + streams + "x"));
        EXPECT_TRUE(contains(why, path + ": 1 bytes follow the last stream, at byte ")) << why.text;
    }
#endif
}

// What it reads is what the file holds, turned by half about x. The coefficients of degree 4 are dropped.
TEST_F(Spz, TurnsHarmonicsAsTheScene) {
    std::string all;
    for (int k = 0; k < 72; k++) all += char(128 + k);
    ASSERT_TRUE(read(gzip(spz_header(3, 1, 4, 12, 0, 0).text + positions + alphas + colors + scales +
                          smallest_three + all)))
        << why.text;
    ASSERT_EQ(got.sh_degree, 3);
    scene_in_memory in_file;
    in_file.open(1, 3);
    in_file.quaternion[0] = 1;
    for (int k = 0; k < 45; k++) in_file.sh[3 + k] = float(k) / 128;
    const similarity half = {{1, 0, 0, 0, -1, 0, 0, 0, -1}, 1, {}};
    gaussians_move(&in_file, &half);
    for (int k = 3; k < 48; k++) EXPECT_NEAR(got.sh[k], in_file.sh[k], 1e-6) << k;
}

TEST_F(Spz, SaysWhatItCannotHold) {
    scene_in_memory sent;
    sent.open(4, 1);
    testing::internal::CaptureStderr();
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    sent.log_scale[2] = -12, sent.sh[0] = 5, sent.sh[5] = -1.5f, sent.sh[6] = 3;
    testing::internal::CaptureStderr();
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    const std::string said = "dsplat: " + path + ": ", beyond = " are beyond what .spz holds, by up to ";
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              said + "1 logarithms of scales" + beyond + "2, and are clamped\n" + said +
                  "1 coefficients of degree 0" + beyond + "1.67, and are clamped\n" + said +
                  "2 coefficients of higher degrees" + beyond + "2, and are clamped\n");
}

TEST_F(Spz, DoesNotWriteWhatIsTooFar) {
    scene_in_memory sent;
    fill_randomly(&sent, 2, 0, 1);
    sent.mean[4] = 1e4f; // fewer bits after the point
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    ASSERT_TRUE(scene_read(path.c_str(), SCENE_FINITE, &got, &why)) << why.text;
    EXPECT_EQ(got.mean[4], 1e4f);
    EXPECT_NEAR(got.mean[0], sent.mean[0], 1.0 / 1024);
    sent.mean[4] = -1e7f;
    EXPECT_FALSE(scene_write(path.c_str(), &sent, &why));
    EXPECT_TRUE(contains(why, "too far for SPZ")) << why.text;
}

} // namespace spz_test
