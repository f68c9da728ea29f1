// SPDX-License-Identifier: MIT
#include "files.h"
#include "images/image.h"
#include <cmath>
#include <sstream>
#include <vector>

namespace {

class Plane : public testing::Test {
  protected:
    void TearDown() override { plane_close(&got); }
    bool read(const std::string &name) {
        plane_close(&got);
        return plane_read((folder / name).c_str(), &got, &why);
    }
    // "2 x 1: 0.5 nan"
    static std::string text_of(const plane &p) {
        std::ostringstream out;
        out.precision(9);
        out << p.width << " x " << p.height << ":";
        for (size_t i = 0; i < plane_size(&p); i++)
            out << ' ' << (p.values[i] != p.values[i] ? NAN : p.values[i]);
        return out.str();
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
    EXPECT_EQ(text_of(got), "3 x 2: 1 -2 nan 4 5 6");
    write_bytes(folder / "b.pfm", "Pf 2 1 0.5\n" + std::string("\x3f\x80\0\0\x40\0\0\0", 8)); // big-endian
    ASSERT_TRUE(read("b.pfm")) << why.text;
    EXPECT_EQ(text_of(got), "2 x 1: 1 2");
}

TEST_F(Plane, ReadsWhatItWritesAndRefusesEveryBeginning) {
    ASSERT_TRUE(plane_open(&got, 5, 3, &why));
    for (int i = 0; i < 15; i++) got.values[i] = float(i * i * 291) / 65535.0f;
    const std::string before = text_of(got);
    ASSERT_TRUE(plane_write_pfm((folder / "a.pfm").c_str(), &got, &why)) << why.text;
    ASSERT_TRUE(plane_write_png((folder / "a.png").c_str(), &got, &why)) << why.text;
    for (const char *name : {"a.png", "a.pfm"}) {
        ASSERT_TRUE(read(name)) << why.text;
        EXPECT_EQ(text_of(got), before);
        refuses_every_beginning(folder / name, [&](fault *out) {
            plane_close(&got);
            return plane_read((folder / name).c_str(), &got, out);
        });
    }
    ASSERT_TRUE(read("a.png")) << why.text;
    got.values[0] = -1, got.values[1] = 7, got.values[2] = NAN;
    ASSERT_TRUE(plane_write_png((folder / "a.png").c_str(), &got, &why)) << why.text;
    ASSERT_TRUE(read("a.png")) << why.text;
    EXPECT_EQ(text_of(got).substr(0, 13), "5 x 3: 0 1 0 ");
}

TEST_F(Plane, DownscalesByMeans) {
    plane small;
    ASSERT_TRUE(plane_open(&got, 5, 4, &why));
    for (int i = 0; i < 20; i++) got.values[i] = float(i);
    got.values[3] = NAN;
    ASSERT_TRUE(plane_downscale(&got, 2, &small, &why)) << why.text;
    EXPECT_EQ(text_of(small), "2 x 2: 3 nan 13 15"); // of 0, 1, 5, 6 the first
    plane_close(&small);
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
