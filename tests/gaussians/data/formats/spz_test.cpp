// SPDX-License-Identifier: MIT
#include "scene_cases.h"
#include "similarity.h"

namespace spz_test {

// The 16 bytes of the header of versions 1 to 3, and of the first half of that of 4.
Bytes header(uint32_t version, uint32_t count, uint8_t degree, uint8_t fraction_bits, uint8_t flags,
             uint8_t streams) {
    Bytes b;
    b.put(uint32_t(0x5053474e))
        .put(version)
        .put(count)
        .put(degree)
        .put(fraction_bits)
        .put(flags)
        .put(streams);
    return b;
}

// RFC 1952, with one block that is not compressed (RFC 1951, 3.2.4).
std::string gzip(const std::string &data) {
    uint32_t crc = ~0u;
    for (const char c : data) {
        crc ^= uint8_t(c);
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    Bytes b;
    b.put(std::string("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11))
        .put(uint16_t(data.size()))
        .put(uint16_t(~data.size()));
    return b.put(data).put(~crc).put(uint32_t(data.size())).text;
}

// RFC 8878: a frame of one segment with a raw block.
std::string zstd(const std::string &data) {
    Bytes b;
    b.put(uint32_t(0xfd2fb528)).put(uint8_t(0x20)).put(uint8_t(data.size()));
    const uint32_t block = 1 | uint32_t(data.size()) << 3;
    for (int k = 0; k < 3; k++) b.put(uint8_t(block >> 8 * k));
    return b.put(data).text;
}

// One Gaussian of degree 1 by its parts. Its mean is (1, -2, 3) in the file, with 12 bits after the point.
const std::string positions("\x00\x10\x00\x00\xe0\xff\x00\x30\x00", 9), alphas("\x33", 1),
    colors("\xff\x80\x00", 3), scales("\x60\x70\xa0", 3),
    harmonics("\x80\x88\x78\x90\xc0\x40\x00\xf8\x81", 9);
// No rotation but a bit: x of largest -, y -, z +; in version 3 w is the largest.
const std::string first_three("\x7f\xbf\x40", 3);
const std::string smallest_three("\xff\x00\x30\xc0",
                                 4); // w largest; x 3 << 8, y 0, z 255 of 511, bit 9 is the sign

class Spz : public testing::Test {
  protected:
    bool read(const std::string &bytes) {
        write_bytes(path, bytes);
        scene_close(&got);
        return scene_read(path.c_str(), SCENE_FINITE, &got, &why);
    }
    void expect_refusal(const std::string &bytes, const std::string &part) {
        EXPECT_FALSE(read(bytes)) << part;
        EXPECT_TRUE(contains(why, path + ": ") && contains(why, part)) << part << ": " << why.text;
        EXPECT_EQ(got.mean, nullptr);
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
    ASSERT_TRUE(read(gzip(header(2, 1, 1, 12, 1, 0).text + positions + between + first_three + harmonics)))
        << why.text;
    EXPECT_TRUE(got.antialias);
    expect_the_gaussian(127 / 127.5 - 1, 191 / 127.5 - 1, 64 / 127.5 - 1);
    // Bits: 11, then 10 for each of x, y, z: a sign and nine.
    ASSERT_TRUE(read(gzip(header(3, 1, 1, 12, 0, 0).text + positions + between + smallest_three + harmonics)))
        << why.text;
    EXPECT_FALSE(got.antialias);
    expect_the_gaussian(3 * third, 0, 255 * third);
    // Halves: 1, -2, 3.
    const std::string halves("\x00\x3c\x00\xc0\x00\x42", 6);
    ASSERT_TRUE(read(gzip(header(1, 1, 1, 0, 0, 0).text + halves + between + first_three + harmonics)))
        << why.text;
    expect_the_gaussian(127 / 127.5 - 1, 191 / 127.5 - 1, 64 / 127.5 - 1);
#ifdef DISTWAR_ZSTD
    for (const std::string extension : {"", "12345678"}) {
        Bytes file = header(4, 1, 1, 12, extension.empty() ? 0 : 2, 6);
        file.put(uint32_t(32 + extension.size())).put(std::string(12, '\0')).put(extension);
        std::string streams;
        for (const std::string &part : {positions, alphas, colors, scales, smallest_three, harmonics}) {
            const std::string frame = zstd(part);
            file.put(uint64_t(frame.size())).put(uint64_t(part.size()));
            streams += frame;
        }
        ASSERT_TRUE(read(file.text + streams)) << why.text;
        expect_the_gaussian(3 * third, 0, 255 * third);
        expect_refusal(file.text + streams + "x", "1 bytes follow the last stream");
    }
#endif
}

// What it reads is what the file holds, turned by half about x. The coefficients of degree 4 are dropped.
TEST_F(Spz, TurnsHarmonicsAsTheScene) {
    std::string all;
    for (int k = 0; k < 72; k++) all += char(128 + k);
    ASSERT_TRUE(read(
        gzip(header(3, 1, 4, 12, 0, 0).text + positions + alphas + colors + scales + smallest_three + all)))
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

TEST_F(Spz, SkipsExtensions) {
    const std::string body = positions + alphas + colors + scales + smallest_three;
    EXPECT_TRUE(read(gzip(header(3, 1, 0, 12, 2, 0).text + body + std::string(6000, 'x')))) << why.text;
    expect_refusal(gzip(header(3, 1, 0, 12, 0, 0).text + body + "x"), "truncated or damaged at byte");
    expect_refusal(gzip(header(3, 1, 0, 12, 0, 0).text + body) + "x", "truncated or damaged at byte");
}

TEST_F(Spz, RefusesWhatCannotBe) {
    const std::string body = positions + alphas + colors + scales + smallest_three;
    std::string damaged = gzip(header(3, 1, 0, 12, 0, 0).text + body);
    damaged[damaged.size() - 8] ^= 1; // the checksum
    expect_refusal(damaged, "truncated or damaged at byte");
    expect_refusal("", "truncated at byte 0");
    expect_refusal("NGSP", "truncated at byte 4");
    expect_refusal(gzip("short"), "while unpacking the header");
    expect_refusal(gzip(std::string(16, 'x')), "at byte 0: not an SPZ file");
    for (const uint32_t version : {0u, 4u, 5u, ~0u})
        expect_refusal(gzip(header(version, 1, 0, 12, 0, 0).text + body), "at byte 4: version");
    expect_refusal(header(3, 1, 0, 12, 0, 6).text + std::string(64, '\0'), "version 3 of SPZ, without gzip");
    expect_refusal(gzip(header(3, 1, 5, 12, 0, 0).text + body), "SH degree 5");
    expect_refusal(gzip(header(3, 1, 0, 31, 0, 0).text + body), "31 fractional bits");
    expect_refusal(gzip(header(3, 2, 0, 12, 0, 0).text + body), "while unpacking 2 Gaussians");
    // No memory is allocated for what a file of this size cannot hold.
    for (const uint32_t count : {100000000u, 0x7fffffffu})
        expect_refusal(gzip(header(3, count, 3, 12, 0, 0).text + body), "bytes announced, in a file of");
    expect_refusal(gzip(header(3, 0x80000000u, 3, 12, 0, 0).text + body), "are too many");
#ifdef DISTWAR_ZSTD
    const auto v4 = [&](uint32_t count, uint8_t streams, uint32_t contents, uint64_t compressed) {
        Bytes file = header(4, count, 0, 12, 0, streams);
        file.put(contents).put(std::string(12, '\0'));
        return file.put(compressed).put(uint64_t(9)).put(std::string(80, '\0')).text;
    };
    expect_refusal(v4(1, 1, 32, ~uint64_t(0)), "stream 0 does not hold 9 bytes");
    expect_refusal(v4(1, 1, 32, 9), "stream 0 does not hold 9 bytes");
    expect_refusal(v4(1, 0, 32, 9), "stream 0 does not hold 9 bytes");
    expect_refusal(v4(1, 255, 32, 9), "255 streams at byte 32");
    expect_refusal(v4(1, 1, 31, 9), "1 streams at byte 31");
    expect_refusal(v4(1, 1, ~0u, 9), "1 streams at byte 4294967295");
    expect_refusal(v4(0x7fffffff, 1, 32, 9), "bytes announced, in a file of");
#endif
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
    fill_at_random(&sent, 2, 0, 1);
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
