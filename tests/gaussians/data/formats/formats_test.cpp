// SPDX-License-Identifier: MIT
// What holds for every format that is written.
#include "scene_cases.h"

namespace formats_test {

struct format_case {
    const char *name, *file;
    int variant;
    tolerances t; // half a step of what the format rounds to
};

// SPZ: version 2 computes one component of a rotation, which may be small, from the three others. 16 bits after the
// point and less; scales in 16ths; opacities in 255ths; coefficients in 5 bits of +-1, then in 4.
const format_case cases[] = {
    {"Ply", "a.ply", 0, {0, 0, 1e-6, 1e-9, 0, 0, 0}},
    {"Spz2", "a.spz", 2, {1e-5, 1.001 / 32, 0.25, 0.502 / 255, 0.501 / 255 / 0.15, 0.0313, 0.0626}},
    {"Spz3", "a.spz", 3, {1e-5, 1.001 / 32, 0.006, 0.502 / 255, 0.501 / 255 / 0.15, 0.0313, 0.0626}},
#ifdef DISTWAR_ZSTD
    {"Spz4", "a.spz", 4, {1e-5, 1.001 / 32, 0.006, 0.502 / 255, 0.501 / 255 / 0.15, 0.0313, 0.0626}},
#endif
#ifdef DISTWAR_WEBP
    {"Sog", "a.sog", 0, {6e-4, 0.1, 0.02, 0.502 / 255, 0.05, 0.05, 0.05}},
#endif
};

void PrintTo(const format_case &c, std::ostream *out) {
    *out << c.name;
}

class Formats : public testing::TestWithParam<format_case> {
  protected:
    bool write(const gs_gaussians &scene) { return write_variant(path, scene, GetParam().variant, &why); }
    bool read() {
        scene_close(&got);
        return scene_read(path.c_str(), SCENE_FINITE, &got, &why);
    }
    TemporaryFolder folder;
    std::string path = folder / GetParam().file;
    scene_in_memory sent, got;
    fault why = {};
};

TEST_P(Formats, WritesWhatItReads) {
    const bool ply = strstr(GetParam().file, ".ply"); // 300 of degree 3: more than its reader takes at once
    for (const int64_t count : {1, ply ? 300 : 200}) {
        for (int degree = 0; degree <= 3; degree++) {
            fill_randomly(&sent, count, degree, unsigned(count) + unsigned(degree));
            sent.antialias = degree % 2;
            ASSERT_TRUE(write(sent)) << why.text;
            ASSERT_TRUE(read()) << why.text;
            expect_near(got, sent, GetParam().t);
        }
    }
    EXPECT_EQ(folder.entries(), 1u);
}

TEST_P(Formats, KeepsExtremes) {
    fill_randomly(&sent, 4, 1, 1);
    for (int k = 0; k < 4; k++) sent.quaternion[k] = 0;     // no rotation, so nothing is shown
    for (int k = 0; k < 4; k++) sent.quaternion[4 + k] = 1; // four largest components
    sent.opacity_logit[0] = 100;
    sent.opacity_logit[1] = -100;
    ASSERT_TRUE(write(sent)) << why.text;
    ASSERT_TRUE(read()) << why.text; // finite
    sent.quaternion[0] = 1;
    if (got.quaternion[0] == 0) got.quaternion[0] = 1; // PLY keeps it
    int hidden = 0;                                    // the order may be another
    for (int i = 0; i < 4; i++) hidden += opacity_of(got, i) < 1 / 255.0;
    EXPECT_EQ(hidden, strstr(GetParam().file, ".ply") ? 1 : 2);
    sent.opacity_logit[0] = got.opacity_logit[0] < 0 ? -100 : 100;
    expect_near(got, sent, GetParam().t);
}

TEST_P(Formats, PiecesAreTheWhole) {
    fill_randomly(&sent, 10, 2, 5);
    sent.antialias = 1;
    ASSERT_TRUE(write(sent)) << why.text;
    const std::string whole = read_bytes(path);
    scene_stream s;
    ASSERT_TRUE(scene_stream_open(&s, path.c_str(), &sent, nullptr, &why)) << why.text;
    s.variant = GetParam().variant;
    for (int64_t first = 0; first < 10; first += 4) {
        gs_gaussians piece = sent;
        piece.antialias = 0; // the shape says it
        piece.count = std::min<int64_t>(4, 10 - first);
        piece.mean += 3 * first;
        piece.log_scale += 3 * first;
        piece.quaternion += 4 * first;
        piece.opacity_logit += first;
        piece.sh += 27 * first;
        ASSERT_TRUE(scene_stream_put(&s, &piece, &why)) << why.text;
    }
    ASSERT_TRUE(scene_stream_commit(&s, &why)) << why.text;
    EXPECT_EQ(read_bytes(path), whole);
    // Too few, and none.
    ASSERT_TRUE(scene_stream_open(&s, path.c_str(), &sent, nullptr, &why)) << why.text;
    EXPECT_FALSE(scene_stream_commit(&s, &why));
    EXPECT_TRUE(contains(why, "not written: 0 Gaussians, not 10")) << why.text;
    EXPECT_EQ(read_bytes(path), whole);
    sent.count = 0;
    ASSERT_TRUE(scene_stream_open(&s, path.c_str(), &sent, nullptr, &why)) << why.text;
    ASSERT_TRUE(scene_stream_commit(&s, &why)) << why.text;
    ASSERT_TRUE(read()) << why.text;
    EXPECT_EQ(got.count, 0);
    EXPECT_EQ(folder.entries(), 1u);
}

TEST_P(Formats, WritesNoFileThatItWouldRefuse) {
    fill_randomly(&sent, 3, 1, 2);
    ASSERT_TRUE(write(sent)) << why.text;
    const std::string old = read_bytes(path);
    sent.sh[12 + 5] = NAN;
    EXPECT_FALSE(write(sent));
    EXPECT_TRUE(contains(why, path + ": not written: Gaussian 1 has sh[5] = ")) << why.text;
    EXPECT_EQ(read_bytes(path), old);
    EXPECT_EQ(folder.entries(), 1u);
}

TEST_P(Formats, ContentDecidesWhatIsRead) {
    fill_randomly(&sent, 5, 0, 3);
    ASSERT_TRUE(write(sent)) << why.text;
    const std::string renamed = folder / "b.ply";
    std::filesystem::rename(path, renamed);
    ASSERT_TRUE(scene_read(renamed.c_str(), SCENE_FINITE, &got, &why)) << why.text;
    EXPECT_EQ(got.count, 5);
}

// Every byte of a short file; else of the first, the last and some between.
std::vector<size_t> places_in(const std::string &file) {
    std::vector<size_t> out;
    for (size_t at = 0; at < file.size(); at++)
        if (file.size() < 2000 || at < 64 || at + 64 > file.size() || at % 31 == 0) out.push_back(at);
    return out;
}

TEST_P(Formats, RefusesBeginnings) {
    fill_randomly(&sent, 3, 1, 4);
    ASSERT_TRUE(write(sent)) << why.text;
    const std::string whole = read_bytes(path);
    for (const size_t size : places_in(whole)) {
        write_bytes(path, whole.substr(0, size));
        ASSERT_FALSE(read()) << "read the first " << size << " of " << whole.size() << " bytes";
        ASSERT_TRUE(contains(why, path) && contains(why, "byte")) << size << ": " << why.text;
        ASSERT_EQ(got.mean, nullptr);
    }
}

INSTANTIATE_TEST_SUITE_P(Each, Formats, testing::ValuesIn(cases),
                         [](const testing::TestParamInfo<format_case> &info) { return info.param.name; });

} // namespace formats_test
