// SPDX-License-Identifier: MIT
#include "scene_bytes.h"
#include "scene_cases.h"

namespace sog_test {

TEST(
    Zip,
    ReadsWhatIsDeflated) { // "aaaaaaaaaa", deflated by hand: fixed codes, two 'a', a match of 8 at distance 1
    const std::string packed("\x4b\x4c\x84\x01\x00", 5);
    Bytes b;
    const auto description = [&] {
        b.put(uint16_t(20)).put(uint16_t(0)).put(uint16_t(8)).put(uint32_t(0)).put(uint32_t(0x4c11cdf0));
        b.put(uint32_t(packed.size())).put(uint32_t(10)).put(uint16_t(1)).put(uint16_t(0));
    };
    b.put(uint32_t(0x04034b50));
    description();
    b.put(std::string("n")).put(packed);
    const size_t directory = b.text.size();
    b.put(uint32_t(0x02014b50)).put(uint16_t(20));
    description();
    b.put(std::string(10, '\0')).put(uint32_t(0)).put(std::string("n"));
    const size_t end = b.text.size();
    b.put(uint32_t(0x06054b50)).put(uint32_t(0)).put(uint16_t(1)).put(uint16_t(1));
    b.put(uint32_t(end - directory)).put(uint32_t(directory)).put(uint16_t(3)).put(std::string("abc"));
    EXPECT_EQ(file_of(b.text, "n"), "aaaaaaaaaa");
    EXPECT_EQ(file_of(b.text, "m"), "x: the archive has no file 'm'");
}

#ifdef DISTWAR_WEBP

class Sog : public testing::Test {
  protected:
    void SetUp() override {
        fill_randomly(&sent, 5, 1, 1);
        sent.antialias = 1;
        ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
        for (const char *name : {"meta.json", "means_l.webp", "means_u.webp", "quats.webp", "scales.webp",
                                 "sh0.webp", "shN_centroids.webp", "shN_labels.webp"})
            good[name] = file_of(read_bytes(path), name);
    }
    bool read(const files &all) {
        write_bytes(path, zip_of(all));
        scene_close(&got);
        return scene_read(path.c_str(), SCENE_FINITE, &got, &why);
    }
    files with(const std::string &from, const std::string &to) {
        files all = good;
        std::string &meta = all["meta.json"];
        EXPECT_NE(meta.find(from), std::string::npos) << from;
        meta.replace(meta.find(from), from.size(), to);
        return all;
    }
    TemporaryFolder folder;
    std::string path = folder / "a.sog";
    files good;
    scene_in_memory sent, got;
    fault why = {};
};

// Up to 256 values of a kind have a code each, and as many kinds of harmonics as the palette has entries an entry each.
TEST_F(Sog, FewValuesAreExact) {
    fill_randomly(&sent, 600, 2, 1);
    for (int i = 0; i < 600; i++) {
        for (int k = 0; k < 3; k++) {
            sent.log_scale[3 * i + k] = float((3 * i + k) * (3 * i + k) % 211) / 16 - 9;
            sent.sh[27 * i + k] = float(i % 200) / 64;
        }
        for (int k = 3; k < 27; k++)
            sent.sh[27 * i + k] = float((1 << i % 7) * (k % 9 + 1) * (k % 2 ? -1 : 1)) / 256;
    }
    for (const bool equal : {false, true}) { // palettes of seven entries, and of one
        for (int i = 0; equal && i < 600 * 27; i++)
            if (i % 27 >= 3) sent.sh[i] = 0.5f;
        ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
        scene_close(&got);
        ASSERT_TRUE(scene_read(path.c_str(), SCENE_FINITE, &got, &why)) << why.text;
        expect_near(got, sent, {6e-4, 0, 0.02, 0.502 / 255, 0, 0, 0});
        EXPECT_NE(file_of(read_bytes(path), "meta.json").find(equal ? "\"count\": 1," : "\"count\": 7,"),
                  std::string::npos);
    }
}

// One far beyond the others shares a code with others.
TEST_F(Sog, SaysWhatItCannotHold) {
    fill_randomly(&sent, 3000, 0, 2);
    for (int i = 0; i < 9000; i++) sent.log_scale[i] = float(i % 1000) - 500;
    sent.log_scale[0] = 520;
    testing::internal::CaptureStderr();
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.rfind("dsplat: " + path + ": ", 0), 0u) << said;
    EXPECT_NE(said.find(" logarithms of scales are beyond what .sog holds, by up to "), std::string::npos)
        << said;
    fill_randomly(&sent, 5, 1, 1); // each has its own code
    testing::internal::CaptureStderr();
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Sog, SaysThatItIsAntialiased) {
    ASSERT_TRUE(read(good)) << why.text;
    EXPECT_TRUE(got.antialias);
    ASSERT_TRUE(read(with("\"antialias\": true, ", ""))) << why.text; // as splat-transform 3.2
    EXPECT_TRUE(got.antialias);
    ASSERT_TRUE(read(with(", \"model\": \"antialiased\"", ""))) << why.text; // as the specification
    EXPECT_TRUE(got.antialias);
    ASSERT_TRUE(read(with("\"antialias\": true, \"model\": \"antialiased\"", "\"other\": {}"))) << why.text;
    EXPECT_FALSE(got.antialias);
    files other = good; // whose alpha says modes too
    other["quats.webp"] = good["shN_labels.webp"];
    EXPECT_TRUE(read(other)) << why.text;
}

#endif

} // namespace sog_test
