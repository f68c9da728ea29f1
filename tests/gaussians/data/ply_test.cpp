// SPDX-License-Identifier: MIT
#include "files.h"
#include "scene.h"
#include <cmath>
#include <limits>
#include <vector>

namespace ply_test {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Every value another one, by array, Gaussian and component.
gs_gaussians make(int64_t count, int sh_degree) {
    gs_gaussians g;
    fault why;
    EXPECT_TRUE(scene_open(&g, count, sh_degree, &why)) << why.text;
    const int64_t coefficients = (sh_degree + 1) * (sh_degree + 1);
    for (int64_t i = 0; i < 3 * count; i++) g.mean[i] = 1000.0f + float(i);
    for (int64_t i = 0; i < 3 * count; i++) g.log_scale[i] = -2000.0f - float(i);
    for (int64_t i = 0; i < 4 * count; i++) g.quaternion[i] = 3000.0f + float(i);
    for (int64_t i = 0; i < count; i++) g.opacity_logit[i] = -4000.0f - float(i);
    for (int64_t i = 0; i < 3 * coefficients * count; i++) g.sh[i] = 0.25f * float(i);
    return g;
}

void expect_equal(const gs_gaussians &a, const gs_gaussians &b) {
    ASSERT_EQ(a.count, b.count);
    ASSERT_EQ(a.sh_degree, b.sh_degree);
    const size_t n = size_t(a.count), sh = size_t(a.sh_degree + 1) * size_t(a.sh_degree + 1) * 3;
    EXPECT_EQ(memcmp(a.mean, b.mean, n * 12), 0);
    EXPECT_EQ(memcmp(a.log_scale, b.log_scale, n * 12), 0);
    EXPECT_EQ(memcmp(a.quaternion, b.quaternion, n * 16), 0);
    EXPECT_EQ(memcmp(a.opacity_logit, b.opacity_logit, n * 4), 0);
    EXPECT_EQ(memcmp(a.sh, b.sh, n * sh * 4), 0);
}

// The properties of a file of SH degree 0 that must be there.
const std::vector<std::string> needed = {"x",      "y",       "z",       "f_dc_0",  "f_dc_1",
                                         "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2",
                                         "rot_0",  "rot_1",   "rot_2",   "rot_3"};

std::string header(const std::string &count, const std::vector<std::string> &names) {
    std::string text = "ply\nformat binary_little_endian 1.0\nelement vertex " + count + "\n";
    for (const std::string &name : names) text += "property float " + name + "\n";
    return text + "end_header\n";
}

class Ply : public testing::Test {
  protected:
    void TearDown() override { scene_close(&got); }
    bool read(const std::string &bytes) {
        write_bytes(path, bytes);
        scene_close(&got);
        return scene_read(path.c_str(), SCENE_FINITE, &got, &why);
    }
    // Refused, with a text that names the file and has `part`.
    void expect_refusal(const std::string &bytes, const std::string &part) {
        EXPECT_FALSE(read(bytes)) << part;
        EXPECT_TRUE(contains(why, path + ": ") && contains(why, part)) << why.text;
        EXPECT_EQ(got.mean, nullptr);
    }

    TemporaryFolder folder;
    std::string path = folder / "scene.ply";
    gs_gaussians got = {};
    fault why = {};
};

TEST_F(Ply, WritesWhatItReads) {
    for (const int64_t count : {0, 1, 3, 700}) { // 700 of degree 3: more than the reader takes at once
        for (int degree = 0; degree <= 3; degree++) {
            gs_gaussians sent = make(count, degree);
            ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
            ASSERT_TRUE(scene_read(path.c_str(), SCENE_FINITE, &got, &why)) << why.text;
            expect_equal(sent, got);
            scene_close(&sent);
            scene_close(&got);
        }
    }
    EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(Ply, WritesTheUsualLayout) {
    gs_gaussians sent = make(2, 1);
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    Bytes expected;
    expected.put(
        header("2", {"x",        "y",        "z",        "nx",       "ny",       "nz",       "f_dc_0",
                     "f_dc_1",   "f_dc_2",   "f_rest_0", "f_rest_1", "f_rest_2", "f_rest_3", "f_rest_4",
                     "f_rest_5", "f_rest_6", "f_rest_7", "f_rest_8", "opacity",  "scale_0",  "scale_1",
                     "scale_2",  "rot_0",    "rot_1",    "rot_2",    "rot_3"}));
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3; k++) expected.put(sent.mean[3 * i + k]);
        for (int k = 0; k < 3; k++) expected.put(0.0f);
        const float *sh = sent.sh + 12 * i;
        for (int k = 0; k < 3; k++) expected.put(sh[k]);
        for (const int k : {3, 6, 9, 4, 7, 10, 5, 8, 11}) expected.put(sh[k]); // red's three, green's, blue's
        expected.put(sent.opacity_logit[i]);
        for (int k = 0; k < 3; k++) expected.put(sent.log_scale[3 * i + k]);
        for (int k = 0; k < 4; k++) expected.put(sent.quaternion[4 * i + k]);
    }
    EXPECT_EQ(read_bytes(path), expected.text);
    scene_close(&sent);
}

TEST_F(Ply, ReadsAnyOrderAmongOthers) {
    // Backwards, with properties of every size between, lines that end in CR LF, comments, and a list after
    // it all.
    Bytes file;
    file.put(std::string("ply\r\nformat binary_little_endian 1.0\r\ncomment element face 3\nobj_info x\n\n"
                         "element vertex 2\n"));
    const char *const types[] = {"char", "int8",  "uchar", "uint8",  "short", "int16",   "ushort", "uint16",
                                 "int",  "int32", "uint",  "uint32", "float", "float32", "double", "float64"};
    const size_t sizes[] = {1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 8};
    std::vector<std::string> names(needed.rbegin(), needed.rend());
    for (size_t i = 0; i < 16; i++) {
        file.put(std::string("property ") + types[i] + " other_" + std::to_string(i) + "\n");
        if (i < names.size()) file.put("property\tfloat32  " + names[i] + "\n");
    }
    file.put(std::string("element face 1\nproperty list uchar int vertex_index\nend_header\n"));
    for (int vertex = 0; vertex < 2; vertex++)
        for (size_t i = 0; i < 16; i++) {
            file.put(std::string(sizes[i], '\xff'));
            if (i < names.size()) file.put(float(100 * vertex) + float(names.size() - 1 - i));
        }
    file.put(uint8_t(1)).put(int32_t(0));
    ASSERT_TRUE(read(file.text)) << why.text;
    ASSERT_EQ(got.count, 2);
    EXPECT_EQ(got.sh_degree, 0);
    for (int i = 0; i < 2; i++) {
        const float base = 100.0f * float(i);
        for (int k = 0; k < 3; k++) EXPECT_EQ(got.mean[3 * i + k], base + float(k));
        for (int k = 0; k < 3; k++) EXPECT_EQ(got.sh[3 * i + k], base + 3 + float(k));
        EXPECT_EQ(got.opacity_logit[i], base + 6);
        for (int k = 0; k < 3; k++) EXPECT_EQ(got.log_scale[3 * i + k], base + 7 + float(k));
        for (int k = 0; k < 4; k++) EXPECT_EQ(got.quaternion[4 * i + k], base + 10 + float(k));
    }
}

TEST_F(Ply, RefusesEveryBeginning) {
    for (const int degree : {0, 1}) {
        gs_gaussians sent = make(2, degree);
        ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
        scene_close(&sent);
        refuses_every_beginning(path, [&](fault *reason) {
            scene_close(&got);
            return scene_read(path.c_str(), SCENE_FINITE, &got, reason);
        });
    }
}

TEST_F(Ply, SurvivesEveryFlip) {
    gs_gaussians sent = make(2, 1);
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    scene_close(&sent);
    survives_every_flip(
        path, [&](fault *reason) { return scene_read(path.c_str(), SCENE_FINITE, &got, reason); },
        [&] { scene_close(&got); });
}

TEST_F(Ply, RefusesOtherFormats) {
    const std::string rest = header("0", needed).substr(strlen("ply\nformat binary_little_endian 1.0\n"));
    ASSERT_TRUE(read("ply\nformat binary_little_endian 1.0\n" + rest)) << why.text;
    expect_refusal("ply\nformat binary_big_endian 1.0\n" + rest, "format 'binary_big_endian 1.0'");
    expect_refusal("ply\nformat binary_little_endian 2.0\n" + rest, "format 'binary_little_endian 2.0'");
    expect_refusal("ply\n" + rest, "no 'format' line");
    expect_refusal("plyx\n" + rest, "not a PLY file");
    expect_refusal("\n", "not a PLY file");
    expect_refusal(std::string(5000, 'x'), "at byte 0: a header line of more than");
    expect_refusal("ply\ncomment " + std::string(5000, 'x'), "at byte 4: a header line of more than");
    expect_refusal("ply\nformat binary_little_endian 1.0\nend_header\n", "no 'element vertex' line");
    expect_refusal("ply\nformat binary_little_endian 1.0\nelement face 1\n", "the first element is 'face'");
    expect_refusal("ply\nformat binary_little_endian 1.0\nproperty float x\n", "header line 'property ...'");
    expect_refusal("ply\nnonsense\n", "at byte 4: unexpected header line 'nonsense ...'");
}

// Doubles, whole numbers and text are read as the floats nearest to them.
TEST_F(Ply, ReadsPropertiesOfAnyNumberType) {
    const double values[14] = {1.5, -2, 4500000.125, 1, 2, 3, 0.1, -3, -2, -1, 1, 0, 7, 0};
    std::string text, ascii = "ply\nformat ascii 1.0\nelement vertex 2\n", wide = header("2", needed);
    for (const std::string &name : needed) ascii += "property float " + name + "\n";
    Bytes rows;
    for (size_t at; (at = wide.find("float ")) != std::string::npos;) wide.replace(at, 5, "double");
    wide.replace(wide.find("double rot_2"), 6, "short");
    for (int row = 0; row < 2; row++)
        for (size_t k = 0; k < 14; k++) {
            if (k == 12)
                rows.put(int16_t(-7));
            else
                rows.put(values[k]);
            text += std::to_string(k == 12 ? -7 : values[k]) + (k == 13 && row == 0 ? "\n" : " ");
        }
    for (const std::string &bytes : {wide + rows.text, ascii + "end_header\n" + text}) {
        ASSERT_TRUE(read(bytes)) << why.text;
        ASSERT_EQ(got.count, 2);
        for (size_t k = 0; k < 3; k++) EXPECT_EQ(got.mean[3 + k], float(values[k])) << k;
        EXPECT_EQ(got.opacity_logit[1], 0.1f);
        EXPECT_EQ(got.quaternion[6], -7);
    }
    expect_refusal(ascii + "end_header\n" + text.substr(0, text.rfind(" 0")), "truncated at byte");
    expect_refusal(ascii + "end_header\n1 2 x" + text, "'x1.500000' is not a number of a vertex");
}

TEST_F(Ply, CarriesTheOffsetOfTheData) {
    gs_gaussians sent = make(2, 0);
    for (const double x : {0.0, 499999.5}) {
        const scene_notes notes = {false, 0, {0, 0, 0}, {x, 9 * x, 0}};
        scene_stream s;
        ASSERT_TRUE(scene_stream_open(&s, path.c_str(), &sent, &notes, &why)) << why.text;
        ASSERT_TRUE(scene_stream_put(&s, &sent, &why) && scene_stream_commit(&s, &why)) << why.text;
        scene_notes back;
        ASSERT_TRUE(scene_read_notes(path.c_str(), &back, &why)) << why.text;
        EXPECT_EQ(memcmp(back.offset, notes.offset, sizeof back.offset), 0);
        EXPECT_EQ(read_bytes(path).find("dsplat_offset") == std::string::npos, x == 0);
    }
    scene_close(&sent);
}

TEST_F(Ply, RefusesBadProperties) {
    for (size_t i = 0; i < needed.size(); i++) {
        std::vector<std::string> names = needed;
        names.erase(names.begin() + ptrdiff_t(i));
        expect_refusal(header("0", names), "no vertex property '" + needed[i] + "'");
        names = needed;
        names.push_back(needed[i]);
        expect_refusal(header("0", names), "property '" + needed[i] + "' occurs twice");
    }
    std::string text = header("0", needed);
    expect_refusal(text.replace(text.find("float opacity"), 5, "flaot"), "'flaot': not a PLY number type");
    text = header("0", needed);
    expect_refusal(text.replace(text.find("float opacity"), 5, "list uchar int"),
                   "a vertex property is a list");
    text = header("0", needed);
    expect_refusal(text.replace(text.find("opacity"), 7, "opacity value"), "malformed property");
    std::vector<std::string> many = needed;
    for (int i = 0; i < 2000; i++) many.push_back("p" + std::to_string(i));
    expect_refusal(header("0", many), "more than 1024 vertex properties");
}

TEST_F(Ply, KnowsTheDegreeByTheCount) {
    for (int count = 0; count <= 72; count++) {
        std::vector<std::string> names = needed;
        for (int i = 0; i < count; i++) names.push_back("f_rest_" + std::to_string(i));
        const bool good = count == 0 || count == 9 || count == 24 || count == 45;
        if (good) {
            ASSERT_TRUE(read(header("0", names))) << why.text;
            EXPECT_EQ(3 * ((got.sh_degree + 1) * (got.sh_degree + 1) - 1), count);
            if (count == 0) continue;
            names.back() = "f_rest_44x"; // the right number, but one is missing
            expect_refusal(header("0", names),
                           "no vertex property 'f_rest_" + std::to_string(count - 1) + "'");
        } else {
            expect_refusal(header("0", names), std::to_string(count) + " properties f_rest_*");
        }
    }
}

TEST_F(Ply, RefusesAbsurdCounts) {
    for (const char *count :
         {"-1", "x", "1x", "1.0", "1e3", "+1", "99999999999999999999999", "18446744073709551616"})
        expect_refusal(header(count, needed) + std::string(56, '\0'),
                       std::string("'") + count + "' is not a number");
    for (const char *count :
         {"2", "2147483648", "4294967296", "4294967297", "9223372036854775808", "18446744073709551615",
          "329406144173384851"}) // the last times 56 bytes overflows to 40
        expect_refusal(header(count, needed) + std::string(56, '\0'),
                       std::string(count) + " vertices announced");
    expect_refusal(header("1", needed) + std::string(57, '\0'), "1 bytes follow the last vertex, at byte");
    EXPECT_TRUE(read(header("1", needed) + std::string(56, '\0'))) << why.text;
}

TEST_F(Ply, RefusesNonFiniteValues) {
    const char *const names[] = {"mean[0]",       "mean[1]",      "mean[2]",          "sh[0]",
                                 "sh[1]",         "sh[2]",        "opacity_logit[0]", "log_scale[0]",
                                 "log_scale[1]",  "log_scale[2]", "quaternion[0]",    "quaternion[1]",
                                 "quaternion[2]", "quaternion[3]"};
    for (size_t i = 0; i < needed.size(); i++) {
        for (const float value : {std::nanf(""), infinity, -infinity}) {
            std::vector<float> rows(3 * needed.size(), 1.0f);
            rows[needed.size() + i] = value;
            Bytes file;
            file.put(header("3", needed));
            for (const float each : rows) file.put(each);
            const bool opacity = names[i][0] == 'o', scale = names[i][0] == 'l';
            const bool limit = std::isinf(value) && (opacity || (scale && value < 0));
            testing::internal::CaptureStderr();
            if (!limit) {
                expect_refusal(file.text, std::string("Gaussian 1 has ") + names[i] + " = ");
            }
            write_bytes(path, file.text);
            ASSERT_TRUE(scene_read(path.c_str(), SCENE_DROP, &got, &why)) << why.text;
            const std::string said =
                "dsplat: " + path + ": 1 Gaussians are not finite and left out (the first: ";
            EXPECT_EQ(testing::internal::GetCapturedStderr().find(said), limit ? std::string::npos : 0);
            ASSERT_EQ(got.count, limit ? 3 : 2);
            if (limit) { // an opacity of 1 or 0, a scale of 0
                EXPECT_NEAR(opacity ? got.opacity_logit[1] : got.log_scale[3 + i - 7],
                            !opacity    ? std::log(1e-20)
                            : value > 0 ? 13.8
                                        : -13.8,
                            0.02);
            }
            scene_close(&got);
        }
    }
}

TEST_F(Ply, SaysThatItIsAntialiased) {
    gs_gaussians sent = make(1, 0);
    sent.antialias = 1;
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    scene_close(&sent);
    std::string file = read_bytes(path);
    const std::string comment = "comment SplatRenderMode: mip\n";
    ASSERT_NE(file.find(comment), std::string::npos);
    EXPECT_TRUE(read(file) && got.antialias) << why.text;
    file.replace(file.find(comment), comment.size(), "comment splat antialiased\n"); // of version 0.1
    EXPECT_TRUE(read(file) && got.antialias) << why.text;
    file.replace(file.find("comment splat"), 26, "");
    EXPECT_TRUE(read(file) && !got.antialias) << why.text;
}

TEST_F(Ply, WritesNoFileThatItWouldRefuse) {
    gs_gaussians sent = make(3, 2);
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    const std::string old = read_bytes(path);
    sent.sh[27 + 3 * 5 + 1] = std::nanf("");
    EXPECT_FALSE(scene_write(path.c_str(), &sent, &why));
    EXPECT_TRUE(contains(why, path + ": not written: Gaussian 1 has sh[16] = ")) << why.text;
    EXPECT_EQ(read_bytes(path), old);
    EXPECT_EQ(folder.entries(), 1u);
    scene_close(&sent);
}

TEST_F(Ply, DoesNotWriteIntoAMissingFolder) {
    gs_gaussians sent = make(1, 0);
    const std::string missing = folder / "none/scene.ply";
    EXPECT_FALSE(scene_write(missing.c_str(), &sent, &why));
    EXPECT_TRUE(contains(why, missing)) << why.text;
    scene_close(&sent);
}

} // namespace ply_test
