// SPDX-License-Identifier: MIT
#include "formats/clusters.h"
#include "formats/zip.h"
#include "scene_cases.h"
#include <map>
#include <set>

namespace sog_test {

using files = std::map<std::string, std::string>;

std::string zip_of(const files &all) {
    char *text = nullptr;
    size_t size = 0;
    zip_writer zip = {};
    zip.stream = open_memstream(&text, &size);
    for (const auto &[name, bytes] : all)
        EXPECT_TRUE(zip_put(&zip, name.c_str(), bytes.data(), bytes.size()));
    zip_end(&zip);
    fclose(zip.stream);
    std::string out(text, size);
    free(text);
    return out;
}

std::string file_of(const std::string &archive, const std::string &name) {
    zip_archive zip;
    fault why = {};
    uint8_t *bytes;
    size_t count;
    EXPECT_TRUE(zip_open(&zip, "x", reinterpret_cast<const uint8_t *>(archive.data()), archive.size(), &why));
    if (!zip_read(&zip, name.c_str(), archive.size(), &bytes, &count, &why)) return why.text;
    std::string out(reinterpret_cast<char *>(bytes), count);
    free(bytes);
    return out;
}

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
        fill_at_random(&sent, 5, 1, 1);
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
    void expect_refusal(const files &all, const std::string &part) {
        EXPECT_FALSE(read(all)) << part;
        EXPECT_TRUE(contains(why, path + ": ") && contains(why, part)) << part << ": " << why.text;
        EXPECT_EQ(got.mean, nullptr);
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
}

TEST_F(Sog, RefusesWhatCannotBe) {
    for (const auto &[name, bytes] : good) {
        files without = good;
        without.erase(name);
        expect_refusal(without, "the archive has no file '" + name + "'");
        if (name == "meta.json") continue;
        files damaged = good;
        damaged[name].resize(bytes.size() / 2);
        expect_refusal(damaged, "'" + name + "': ");
        damaged[name] = "not a picture";
        expect_refusal(damaged, "'" + name + "': not a lossless WebP picture");
        if (name == "shN_centroids.webp") continue;
        damaged[name] = good["shN_centroids.webp"]; // of another size
        expect_refusal(damaged, " pixels, the first ");
    }
    files wrong = good;
    wrong["shN_centroids.webp"] = good["sh0.webp"];
    expect_refusal(wrong, "shN.files[0]: 3 x 2 pixels, not 192 wide");
    wrong = good;
    wrong["quats.webp"] = good["shN_labels.webp"];
    ASSERT_TRUE(read(wrong)) << why.text; // its alpha is 255
    wrong["quats.webp"] = good["sh0.webp"];
    expect_refusal(wrong, "is below 252");
    wrong = good;
    wrong["shN_labels.webp"] = good["means_l.webp"];
    expect_refusal(wrong, "names entry");
    wrong["meta.json"] = "{";
    expect_refusal(wrong, "meta.json: at byte 1");
    wrong["meta.json"] = std::string(2 << 20, ' ');
    expect_refusal(wrong, "at most 1048576 are read");
    expect_refusal(with("\"version\": 2", "\"version\": 1"), "version must be 2");
    expect_refusal(with("\"version\": 2, ", ""), "version must be 2");
    expect_refusal(with("\"count\": 5, \"ant", "\"count\": 7, \"ant"),
                   "3 x 2 pixels, the first 3 x 2, for 7 Gaussians");
    for (const char *count : {"-1", "2147483648", "1.5", "\"5\"", "9223372036854775807"})
        expect_refusal(with("\"count\": 5, \"ant", std::string("\"count\": ") + count + ", \"ant"),
                       "count must be");
    expect_refusal(with("\"count\": 5, \"ant", "\"count\": 2000000000, \"ant"),
                   "bytes announced, in a file of");
    expect_refusal(with("\"count\": 5, \"bands\"", "\"count\": 65537, \"bands\""),
                   "shN.count must be 1 to 65536");
    expect_refusal(with("\"bands\": 1", "\"bands\": 4"), "shN.bands must be 1, 2 or 3");
    expect_refusal(with("\"bands\": 1", "\"bands\": 2"), "not 512 wide");
    expect_refusal(with("\"mins\": [", "\"mins\": [0, "), "means.mins must be 3 numbers");
    expect_refusal(with("\"codebook\": [", "\"codebook\": [\"x\", "), "must be 256 numbers");
    expect_refusal(with("\"maxs\": [", "\"maxs\": [1e30, 1e30, 1e30], \"x\": ["), "has mean[");
    expect_refusal(with("\"quats.webp\"", "5"), "quats.files[0] must be a name");
}

#endif

} // namespace sog_test
