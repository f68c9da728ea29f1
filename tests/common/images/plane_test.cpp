// SPDX-License-Identifier: MIT
#include "files.h"
#include "images/image.h"
#include <cmath>
#include <vector>

namespace {

class Plane : public testing::Test {
  protected:
    void TearDown() override { plane_close(&got); }
    bool read(const std::string &name) {
        plane_close(&got);
        return plane_read((folder / name).c_str(), &got, &why);
    }
    std::vector<float> values() const {
        return std::vector<float>(got.values, got.values + plane_size(&got));
    }
    void write_pfm(const std::string &header, const std::vector<float> &rows_from_bottom) {
        Bytes out;
        out.put(header);
        for (const float value : rows_from_bottom) out.put(value);
        write_bytes(folder / "a.pfm", out.text);
    }
    void expect_refusal(const std::string &name, const std::string &part) {
        EXPECT_FALSE(read(name)) << part;
        EXPECT_TRUE(contains(why, (folder / name) + ": ") && contains(why, part)) << why.text;
        EXPECT_EQ(got.values, nullptr);
    }

    TemporaryFolder folder;
    plane got = {};
    fault why = {};
};

TEST_F(Plane, ReadsPfmFromTheBottom) {
    write_pfm("Pf\n3 2\n-1.0\n", {4, 5, 6, 1, -2, NAN});
    ASSERT_TRUE(read("a.pfm")) << why.text;
    EXPECT_EQ(got.width, 3);
    EXPECT_EQ(got.height, 2);
    EXPECT_EQ(got.values[0], 1);
    EXPECT_EQ(got.values[1], -2);
    EXPECT_TRUE(std::isnan(got.values[2]));
    EXPECT_EQ(got.values[3], 4);
    EXPECT_EQ(got.values[5], 6);
    std::string big = "Pf 2 1 0.5\n"; // big-endian: 1, 2
    big += std::string("\x3f\x80\0\0\x40\0\0\0", 8);
    write_bytes(folder / "b.pfm", big);
    ASSERT_TRUE(read("b.pfm")) << why.text;
    EXPECT_EQ(values(), (std::vector<float>{1, 2}));
}

TEST_F(Plane, ReadsWhatItWrites) {
    ASSERT_TRUE(plane_open(&got, 5, 3, &why));
    for (int i = 0; i < 15; i++) got.values[i] = float(i * i * 291) / 65535.0f;
    const std::vector<float> before = values();
    ASSERT_TRUE(plane_write_pfm((folder / "a.pfm").c_str(), &got, &why)) << why.text;
    ASSERT_TRUE(plane_write_png((folder / "a.png").c_str(), &got, &why)) << why.text;
    ASSERT_TRUE(read("a.pfm")) << why.text;
    EXPECT_EQ(values(), before);
    ASSERT_TRUE(read("a.png")) << why.text;
    EXPECT_EQ(got.width, 5);
    EXPECT_EQ(values(), before);
    got.values[0] = -1, got.values[1] = 7, got.values[2] = NAN;
    ASSERT_TRUE(plane_write_png((folder / "a.png").c_str(), &got, &why)) << why.text;
    ASSERT_TRUE(read("a.png")) << why.text;
    EXPECT_EQ(got.values[0], 0);
    EXPECT_EQ(got.values[1], 1);
    EXPECT_EQ(got.values[2], 0);
}

TEST_F(Plane, DownscalesByMeans) {
    plane small;
    ASSERT_TRUE(plane_open(&got, 5, 4, &why));
    for (int i = 0; i < 20; i++) got.values[i] = float(i);
    got.values[3] = NAN;
    ASSERT_TRUE(plane_downscale(&got, 2, &small, &why)) << why.text;
    ASSERT_TRUE(small.width == 2 && small.height == 2);
    EXPECT_EQ(small.values[0], 3); // of 0, 1, 5, 6
    EXPECT_TRUE(std::isnan(small.values[1]));
    EXPECT_TRUE(small.values[2] == 13 && small.values[3] == 15);
    plane_close(&small);
}

TEST_F(Plane, EveryBeginningIsRefused) {
    ASSERT_TRUE(plane_open(&got, 4, 3, &why));
    for (int i = 0; i < 12; i++) got.values[i] = float(i * 811 % 4096) / 4096;
    ASSERT_TRUE(plane_write_png((folder / "a.png").c_str(), &got, &why)) << why.text;
    ASSERT_TRUE(plane_write_pfm((folder / "a.pfm").c_str(), &got, &why)) << why.text;
    plane_close(&got);
    for (const char *name : {"a.png", "a.pfm"}) {
        const std::string path = folder / name;
        refuses_every_beginning(path, [&](fault *out) {
            const bool done = plane_read(path.c_str(), &got, out);
            plane_close(&got);
            return done;
        });
    }
}

TEST_F(Plane, RefusesOtherPictures) {
    image picture;
    ASSERT_TRUE(image_open(&picture, 4, 3, 3, &why));
    ASSERT_TRUE(image_write_png((folder / "color.png").c_str(), &picture, &why));
    image_close(&picture);
    expect_refusal("color.png", "a PNG of 3 channels of 8 bits; it must be gray with 16 bits");
    write_bytes(folder / "empty.png", "");
    expect_refusal("empty.png", "truncated at byte 0 while reading the map's signature");
    write_bytes(folder / "text.png", "inverse depth");
    expect_refusal("text.png", "neither PNG nor PFM (by its first bytes)");
    write_pfm("PF\n1 1\n-1\n", {1, 2, 3});
    expect_refusal("a.pfm", "a PFM of colours (PF); it must be gray (Pf)");
}

TEST_F(Plane, RefusesBadHeaders) {
    const std::string no = "not a PFM header, which is Pf, whole width and height, and a scale other than 0";
    const struct {
        const char *header;
        std::string part;
    } rows[] = {
        {"Pf\n0 2\n-1\n", "a map of 0 x 2 values: each side must be 1..16384"},
        {"Pf\n-3 -2\n-1\n", "a map of -3 x -2 values"},
        {"Pf\n3 -2\n-1\n", "3 x -2 pixels announced, which its 35 bytes cannot hold"},
        {"Pf\n16384 16384\n-1\n", "16384 x 16384 pixels announced, which its 42 bytes cannot hold"},
        {"Pf\n3 2x\n-1\n", "before byte 11: " + no},
        {"Pf\n3 99999999999999999999\n-1\n", no},
        {"Pf\n11111111111111111111111111111111111111 2\n-1\n", no},
        {"Pf\n3 2\n0\n", no},
        {"Pf\n3 2\nnan\n", no},
        {"Pf\n3 2\nlittle\n", no},
        {"Pf\n5 1\n-1\n", "5 x 1 values announced, which take 20 bytes; 24 follow byte 10"},
    };
    for (const auto &row : rows) {
        write_pfm(row.header, {1, 2, 3, 4, 5, 6});
        expect_refusal("a.pfm", row.part);
    }
}

} // namespace
