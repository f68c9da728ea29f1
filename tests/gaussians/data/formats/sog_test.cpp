// SPDX-License-Identifier: MIT
#include "formats/clusters.h"
#include "scene_bytes.h"
#include "scene_cases.h"
#include <map>
#include <set>

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

TEST(Codebook, IsExactForFewValues) {
    std::vector<float> values, sorted;
    for (int k = 0; k < 200; k++) values.push_back(float(k * k % 211));
    sorted = values;
    float codebook[CODES];
    ASSERT_TRUE(codebook_of(sorted.data(), int64_t(sorted.size()), codebook));
    for (const float value : values) EXPECT_EQ(codebook[code_of(codebook, value)], value);
    EXPECT_EQ(code_of(codebook, -1e9f), 0);
    EXPECT_EQ(code_of(codebook, 1e9f), 255);
}

TEST(Palette, FindsGroups) {
    std::mt19937 random(1);
    std::vector<float> vectors;
    for (int i = 0; i < 500; i++)
        for (int k = 0; k < 9; k++)
            vectors.push_back(float((1 << i % 7) * (k + 1) * (k % 2 ? -1 : 1)) +
                              1e-3f * float(random() % 100));
    std::vector<int32_t> labels(500);
    std::vector<float> means(7 * 9);
    ASSERT_EQ(palette_of(vectors.data(), 500, 9, 7, labels.data(), means.data()), 7);
    std::set<int32_t> seen;
    for (int i = 0; i < 500; i++) {
        EXPECT_EQ(labels[size_t(i)], labels[size_t(i % 7)]);
        if (i < 7) seen.insert(labels[size_t(i)]);
        for (int k = 0; k < 9; k++)
            EXPECT_NEAR(means[size_t(labels[size_t(i)] * 9 + k)], vectors[size_t(i * 9 + k)], 0.11);
    }
    EXPECT_EQ(seen.size(), 7u);
    // Vectors that are all equal are one group, and none is none.
    std::fill(vectors.begin(), vectors.end(), 2.0f);
    EXPECT_EQ(palette_of(vectors.data(), 500, 9, 7, labels.data(), means.data()), 1);
    EXPECT_EQ(palette_of(vectors.data(), 0, 9, 7, labels.data(), means.data()), 0);
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
