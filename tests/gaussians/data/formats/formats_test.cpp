// SPDX-License-Identifier: MIT
// What holds for every format that is written, then what is of one; how a file's name decides its format.
#include "scene_bytes.h"
#include "arrays.h"

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
    {"Spz4", "a.spz", 4, {1e-5, 1.001 / 32, 0.006, 0.502 / 255, 0.501 / 255 / 0.15, 0.0313, 0.0626}},
    {"Sog", "a.sog", 0, {6e-4, 0.1, 0.02, 0.502 / 255, 0.05, 0.05, 0.05}},
};

void PrintTo(const format_case &c, std::ostream *out) {
    *out << c.name;
}

class Formats : public testing::TestWithParam<format_case>, protected scene_file {
  protected:
    Formats() { path = folder / GetParam().file; }
    // In pieces of `each`. What the pieces say of antialiasing does not count.
    bool write(gs_gaussians scene, int64_t each = 1000) {
        scene_stream s;
        bool done = scene_stream_open(&s, path.c_str(), &scene, nullptr, &why);
        if (!done) return false;
        s.variant = GetParam().variant;
        const gs_arrays arrays = gs_arrays_of(&scene);
        for (int64_t first = 0; done && first < s.shape.count; first += each) {
            scene.antialias = 0, scene.count = std::min(each, s.shape.count - first);
            float **const to[] = {&scene.mean, &scene.log_scale, &scene.quaternion, &scene.opacity_logit,
                                  &scene.sh};
            for (int a = 0; a < GS_ARRAYS; a++) *to[a] = arrays.of[a] + first * arrays.width[a];
            done = scene_stream_put(&s, &scene, &why);
        }
        if (!done) scene_stream_discard(&s);
        return done && scene_stream_commit(&s, &why);
    }
};

TEST_P(Formats, WritesWhatItReads) {
    const bool ply = strstr(GetParam().file, ".ply"); // 300 of degree 3: more than its reader takes at once
    for (const int64_t count : {1, ply ? 300 : 200}) {
        for (int degree = 0; degree <= 3; degree++) {
            fill_randomly(&sent, count, degree, unsigned(count) + unsigned(degree));
            sent.antialias = degree % 2;
            ASSERT_TRUE(write(sent) && read()) << why.text;
            expect_near(got, sent, GetParam().t);
        }
    }
    EXPECT_EQ(folder.entries(), 1u);
    const std::string renamed = folder / "b.ply"; // its content decides, not its name
    std::filesystem::rename(path, renamed);
    path = renamed;
    ASSERT_TRUE(read()) << why.text;
    expect_near(got, sent, GetParam().t);
}

TEST_P(Formats, KeepsExtremes) {
    fill_randomly(&sent, 4, 1, 1);
    for (int k = 0; k < 4; k++) sent.quaternion[k] = 0;     // no rotation, so nothing is shown
    for (int k = 0; k < 4; k++) sent.quaternion[4 + k] = 1; // four largest components
    sent.opacity_logit[0] = 100;
    sent.opacity_logit[1] = -100;
    ASSERT_TRUE(write(sent) && read()) << why.text; // finite
    sent.quaternion[0] = 1;
    if (got.quaternion[0] == 0) got.quaternion[0] = 1; // PLY keeps it
    int hidden = 0;                                    // the order may be another
    for (int i = 0; i < 4; i++) hidden += opacity_of(got, i) < 1 / 255.0;
    EXPECT_EQ(hidden, strstr(GetParam().file, ".ply") ? 1 : 2);
    sent.opacity_logit[0] = got.opacity_logit[0] < 0 ? -100 : 100;
    expect_near(got, sent, GetParam().t);
}

TEST_P(Formats, PiecesAreTheWholeOrNothing) {
    fill_randomly(&sent, 10, 2, 5);
    sent.antialias = 1;
    ASSERT_TRUE(write(sent)) << why.text;
    const std::string whole = read_bytes(path);
    ASSERT_TRUE(write(sent, 4)) << why.text;
    EXPECT_EQ(read_bytes(path), whole);
    // What would be refused when it is read, too few, and none.
    sent.sh[27 + 5] = NAN;
    EXPECT_FALSE(write(sent));
    EXPECT_TRUE(contains(why, path + ": not written: Gaussian 1 has sh[5] = ")) << why.text;
    EXPECT_EQ(read_bytes(path), whole);
    scene_stream s;
    ASSERT_TRUE(scene_stream_open(&s, path.c_str(), &sent, nullptr, &why)) << why.text;
    EXPECT_FALSE(scene_stream_commit(&s, &why));
    EXPECT_TRUE(contains(why, "not written: 0 Gaussians, not 10")) << why.text;
    EXPECT_EQ(read_bytes(path), whole);
    sent.count = 0;
    ASSERT_TRUE(write(sent) && read()) << why.text;
    EXPECT_EQ(got.count, 0);
    EXPECT_EQ(folder.entries(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Each, Formats, testing::ValuesIn(cases),
                         [](const testing::TestParamInfo<format_case> &info) { return info.param.name; });

// ---- of one format

class Written : public testing::Test, protected scene_file {
  protected:
    // Writes the scene, reads it again and returns what was said while it was written.
    std::string write(const std::string &name) {
        path = folder / name;
        testing::internal::CaptureStderr();
        EXPECT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
        const std::string said = testing::internal::GetCapturedStderr();
        EXPECT_TRUE(read()) << why.text;
        return said;
    }
    // Whether the bytes, of a file of this name, are of an antialiased scene.
    bool antialiased(const std::string &name, const std::string &bytes) {
        EXPECT_TRUE(read(name, bytes)) << why.text;
        return got.antialias;
    }
};

TEST_F(Written, PlyHasTheUsualLayout) {
    fill_randomly(&sent, 2, 1, 7);
    EXPECT_EQ(write("a.ply"), "");
    Bytes expected;
    std::vector<std::string> names = ply_needed;
    for (int k = 0; k < 9; k++) names.insert(names.begin() + 6 + k, "f_rest_" + std::to_string(k));
    names.insert(names.begin() + 3, {"nx", "ny", "nz"});
    expected.put(ply_header("2", names));
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 6; k++) expected.put(k < 3 ? sent.mean[3 * i + k] : 0.0f);
        for (const int k : {0, 1, 2, 3, 6, 9, 4, 7, 10, 5, 8, 11}) // red's three, green's, blue's
            expected.put(sent.sh[12 * i + k]);
        expected.put(sent.opacity_logit[i]);
        for (int k = 0; k < 3; k++) expected.put(sent.log_scale[3 * i + k]);
        for (int k = 0; k < 4; k++) expected.put(sent.quaternion[4 * i + k]);
    }
    EXPECT_EQ(read_bytes(path), expected.text);
}

TEST_F(Written, PlyCarriesTheOffsetOfTheData) {
    fill_randomly(&sent, 2, 0, 7);
    path = folder / "a.ply";
    for (const double x : {0.0, 499999.5}) {
        const scene_notes notes = {false, 0, {0, 0, 0}, {x, 9 * x, 0}};
        scene_stream s;
        scene_notes back;
        ASSERT_TRUE(scene_stream_open(&s, path.c_str(), &sent, &notes, &why)) << why.text;
        ASSERT_TRUE(scene_stream_put(&s, &sent, &why) && scene_stream_commit(&s, &why)) << why.text;
        ASSERT_TRUE(scene_read_notes(path.c_str(), &back, &why)) << why.text;
        EXPECT_EQ(memcmp(back.offset, notes.offset, sizeof back.offset), 0);
        EXPECT_EQ(read_bytes(path).find("dsplat_offset") == std::string::npos, x == 0);
        testing::internal::CaptureStderr();
        ASSERT_TRUE(scene_stream_open(&s, (folder / "a.sog").c_str(), &sent, &notes, &why)) << why.text;
        scene_stream_discard(&s);
        EXPECT_EQ(testing::internal::GetCapturedStderr(),
                  x == 0 ? ""
                         : "dsplat: " + folder.path +
                               "/a.sog: the format cannot say that 499999.5, 4499995.5, "
                               "0 is added to its coordinates\n");
    }
}

TEST_F(Written, SaysThatItIsAntialiased) {
    fill_randomly(&sent, 5, 1, 1);
    sent.antialias = 1;
    write("a.ply");
    const std::string ply = read_bytes(path), comment = "comment SplatRenderMode: mip\n";
    EXPECT_TRUE(antialiased("a.ply", ply));
    EXPECT_TRUE(
        antialiased("a.ply", replaced(ply, comment, "comment splat antialiased\n"))); // of version 0.1
    EXPECT_FALSE(antialiased("a.ply", replaced(ply, comment, "")));
    write("a.sog");
    files all = files_of(read_bytes(path));
    const std::string meta = all["meta.json"];
    const auto of = [&](const std::string &from, const std::string &to) {
        all["meta.json"] = with(meta, from, to);
        return antialiased("a.sog", zip_of(all));
    };
    EXPECT_TRUE(of("'version'", "'version'"));
    EXPECT_TRUE(of("'antialias': true, ", ""));      // as splat-transform 3.2
    EXPECT_TRUE(of(", 'model': 'antialiased'", "")); // as the specification
    EXPECT_FALSE(of("'antialias': true, 'model': 'antialiased'", "'other': {}"));
    all["quats.webp"] = all["shN_labels.webp"]; // whose alpha says modes too
    EXPECT_FALSE(antialiased("a.sog", zip_of(all)));
}

TEST_F(Written, SpzSaysWhatItCannotHold) {
    sent.open(4, 1);
    EXPECT_EQ(write("a.spz"), "");
    sent.log_scale[2] = -12, sent.sh[0] = 5, sent.sh[5] = -1.5f, sent.sh[6] = 3;
    const std::string says = write("a.spz"), said = "dsplat: " + path + ": ",
                      beyond = " are beyond what .spz holds, by up to ";
    EXPECT_EQ(says, said + "1 logarithms of scales" + beyond + "2, and are clamped\n" + said +
                        "1 coefficients of degree 0" + beyond + "1.67, and are clamped\n" + said +
                        "2 coefficients of higher degrees" + beyond + "2, and are clamped\n");
    fill_randomly(&sent, 2, 0, 1);
    sent.mean[4] = 1e4f; // fewer bits after the point
    write("a.spz");
    EXPECT_EQ(got.mean[4], 1e4f);
    EXPECT_NEAR(got.mean[0], sent.mean[0], 1.0 / 1024);
    sent.mean[4] = -1e7f;
    EXPECT_FALSE(scene_write(path.c_str(), &sent, &why));
    EXPECT_TRUE(contains(why, "too far for SPZ")) << why.text;
}

// Up to 256 values of a kind have a code each, and as many kinds of harmonics as the palette has entries an entry each.
TEST_F(Written, SogIsExactForFewValues) {
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
        EXPECT_EQ(write("a.sog"), "");
        expect_near(got, sent, {6e-4, 0, 0.02, 0.502 / 255, 0, 0, 0});
        EXPECT_NE(files_of(read_bytes(path))["meta.json"].find(equal ? "\"count\": 1," : "\"count\": 7,"),
                  std::string::npos);
    }
}

// Codes are the means of the values that are nearest to them, so errors are small. What is far shares one with others.
TEST_F(Written, SogSaysWhatItCannotHold) {
    fill_randomly(&sent, 3000, 0, 2);
    for (int i = 0; i < 9000; i++) sent.log_scale[i] = float(i % 1000) - 500;
    sent.log_scale[0] = 520;
    const std::string said = write("a.sog");
    EXPECT_EQ(said.rfind("dsplat: " + path + ": ", 0), 0u) << said;
    EXPECT_NE(said.find(" logarithms of scales are beyond what .sog holds, by up to "), said.npos) << said;
    double square = 0;
    for (int64_t i = 0; i < 3000; i++) {
        const int64_t j = nearest_to(got, sent.mean + 3 * i);
        for (int k = 0; k < 3; k++)
            square += std::pow(got.log_scale[3 * j + k] - sent.log_scale[3 * i + k], 2) / 9000;
    }
    EXPECT_LT(square, 1.5); // 1.2 if as many values had each code
}

// "aaaaaaaaaa", deflated by hand: fixed codes, two 'a', a match of 8 at distance 1
TEST(Zip, ReadsWhatIsDeflated) {
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
    b.put(uint32_t(end - directory)).put(uint32_t(directory)).put(uint16_t(3)).put(std::string("a\0\0", 3));
    EXPECT_EQ(file_of(b.text, "n"), "aaaaaaaaaa");
    EXPECT_EQ(file_of(b.text, "m"), "x: the archive has no file 'm'");
}

// ---- names, and scenes in memory

TEST_F(Written, TheSuffixDecidesTheFormat) {
    fill_randomly(&sent, 2, 1, 7);
    for (const char *name : {"a.ply", "A.PLY", "b.c.Ply"}) {
        ASSERT_TRUE(scene_is_possible((folder / name).c_str(), &why)) << why.text;
        write(name);
        EXPECT_EQ(got.mean[4], sent.mean[4]);
    }
    scene_close(&got);
    for (const std::string name :
         {"a.sogs", "a", "ply", ".ply", "a.ply.gz", "a.plyx", "b.splat", "no/such/folder.ply"}) {
        path = name[0] == '.' ? name : folder / name;
        EXPECT_FALSE(scene_is_possible(path.c_str(), &why) || scene_write(path.c_str(), &sent, &why)) << path;
        EXPECT_FALSE(std::filesystem::exists(path));
        const std::string is =
            name == "b.splat" ? ".splat files are only read" : "not a known format of scenes";
        EXPECT_TRUE(name[0] == 'n' || contains(why, path + ": " + is + "; the suffix must be one of .ply"))
            << why.text;
        EXPECT_FALSE(scene_read(path.c_str(), SCENE_FINITE, &got, &why)) << path;
        EXPECT_EQ(got.mean, nullptr);
    }
}

TEST(Scene, IsAlignedZeros) {
    fault why = {};
    gs_gaussians g;
    for (const int64_t count : {0, 1, 2, 3, 5}) {
        ASSERT_TRUE(scene_open(&g, count, int(count) % 4, &why)) << why.text;
        for (const float *part : {g.mean, g.log_scale, g.quaternion, g.opacity_logit, g.sh})
            EXPECT_TRUE(part && reinterpret_cast<uintptr_t>(part) % 16 == 0);
        expect_values(g.sh, std::vector<double>(size_t(count * 3 * (g.sh_degree + 1) * (g.sh_degree + 1))));
        scene_close(&g), scene_close(&g);
    }
    for (const auto &[count, degree] : {std::pair(int64_t(-1), 0), {int64_t(1) << 31, 0}, {1, 4}, {1, -1}})
        EXPECT_FALSE(scene_open(&g, count, degree, &why));
    EXPECT_NEAR(0.5 + 0.28209479177387814 * scene_sh_constant(0.8), 0.8, 1e-15);
}

// ---- moves

TEST(Similarity, OfAMatrix) {
    similarity s;
    const double quarter[12] = {0, -3, 0, 1, 3, 0, 0, 2, 0, 0, 3, 4};
    ASSERT_TRUE(similarity_of(quarter, &s));
    EXPECT_NEAR(s.scale, 3, 1e-12);
    EXPECT_NEAR(s.rotation[1], -1, 1e-12);
    EXPECT_EQ(s.translation[2], 4);
    const double half[12] = {-1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1, 0};
    ASSERT_TRUE(similarity_of(half, &s));
    expect_values(s.rotation, {-1, 0, 0, 0, -1, 0, 0, 0, 1}, 1e-12);
    for (const double value :
         {-1.0, 1.1, 0.0, double(NAN), double(INFINITY), 1.0}) { // mirrors, unequal scales, a shear
        const double bad[12] = {1, 0, value == 1 ? 0.01 : 0, 0, 0, value, 0, 0, 0, 0, 1, 0};
        EXPECT_FALSE(similarity_of(bad, &s)) << value;
    }
}

// Twice by half a rotation is once by the whole; there and back is nothing. Colours are compared in program tests.
TEST(Similarity, MovesAgree) {
    for (int degree = 0; degree <= 3; degree++) {
        scene_in_memory sent, got;
        fill_randomly(&sent, 50, degree, 9);
        fill_randomly(&got, 50, degree, 9);
        const double half = 0.7, c = std::cos(half), s = std::sin(half);
        const similarity by = {{c, 0, s, 0, 1, 0, -s, 0, c}, 2, {1, 2, 3}};
        const double c2 = std::cos(2 * half), s2 = std::sin(2 * half);
        similarity whole = {{c2, 0, s2, 0, 1, 0, -s2, 0, c2}, 4, {}};
        for (int r = 0; r < 3; r++) {
            whole.translation[r] = by.translation[r];
            for (int k = 0; k < 3; k++)
                whole.translation[r] += 2 * by.rotation[3 * r + k] * by.translation[k];
        }
        gaussians_move(&got, &by);
        gaussians_move(&got, &by);
        gaussians_move(&sent, &whole);
        expect_near(got, sent, {2e-5, 1e-5, 1e-5, 1e-9, 1e-9, 1e-5, 1e-5});
        // Degree 1 turns as a vector: (-x, -y, z) of the coefficients.
        if (degree < 1) continue;
        scene_in_memory one;
        one.open(1, degree);
        one.quaternion[0] = 1;
        one.sh[9] =
            -1; // the function x: it shall become the function whose gradient is the rotation's first column
        gaussians_move(&one, &by);
        EXPECT_NEAR(-one.sh[9], c, 1e-6);
        EXPECT_NEAR(-one.sh[3], 0, 1e-6);
        EXPECT_NEAR(one.sh[6], -s, 1e-6);
    }
}

} // namespace formats_test
