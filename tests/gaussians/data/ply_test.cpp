// SPDX-License-Identifier: MIT
#include "formats/scene_bytes.h"
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

TEST_F(Ply, WritesTheUsualLayout) {
    gs_gaussians sent = make(2, 1);
    ASSERT_TRUE(scene_write(path.c_str(), &sent, &why)) << why.text;
    Bytes expected;
    expected.put(
        ply_header("2", {"x",        "y",        "z",        "nx",       "ny",       "nz",       "f_dc_0",
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
    std::vector<std::string> names(ply_needed.rbegin(), ply_needed.rend());
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

// Doubles, whole numbers and text are read as the floats nearest to them.
TEST_F(Ply, ReadsPropertiesOfAnyNumberType) {
    const double values[14] = {1.5, -2, 4500000.125, 1, 2, 3, 0.1, -3, -2, -1, 1, 0, 7, 0};
    std::string text, ascii = "ply\nformat ascii 1.0\nelement vertex 2\n", wide = ply_header("2", ply_needed);
    for (const std::string &name : ply_needed) ascii += "property float " + name + "\n";
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

TEST_F(Ply, KnowsTheDegreeByTheCount) {
    for (int count = 0; count <= 72; count++) {
        std::vector<std::string> names = ply_needed;
        for (int i = 0; i < count; i++) names.push_back("f_rest_" + std::to_string(i));
        const bool good = count == 0 || count == 9 || count == 24 || count == 45;
        if (good) {
            ASSERT_TRUE(read(ply_header("0", names))) << why.text;
            EXPECT_EQ(3 * ((got.sh_degree + 1) * (got.sh_degree + 1) - 1), count);
            if (count == 0) continue;
            names.back() = "f_rest_44x"; // the right number, but one is missing
            expect_refusal(ply_header("0", names),
                           "no vertex property 'f_rest_" + std::to_string(count - 1) + "'");
        } else {
            expect_refusal(ply_header("0", names), std::to_string(count) + " properties f_rest_*");
        }
    }
}

TEST_F(Ply, RefusesNonFiniteValues) {
    const char *const names[] = {"mean[0]",       "mean[1]",      "mean[2]",          "sh[0]",
                                 "sh[1]",         "sh[2]",        "opacity_logit[0]", "log_scale[0]",
                                 "log_scale[1]",  "log_scale[2]", "quaternion[0]",    "quaternion[1]",
                                 "quaternion[2]", "quaternion[3]"};
    for (size_t i = 0; i < ply_needed.size(); i++) {
        for (const float value : {std::nanf(""), infinity, -infinity}) {
            std::vector<float> rows(3 * ply_needed.size(), 1.0f);
            rows[2 * ply_needed.size()] = 7;
            rows[ply_needed.size() + i] = value;
            Bytes file;
            file.put(ply_header("3", ply_needed));
            for (const float each : rows) file.put(each);
            const bool opacity = names[i][0] == 'o', scale = names[i][0] == 'l';
            const bool limit = std::isinf(value) && (opacity || (scale && value < 0));
            testing::internal::CaptureStderr();
            if (!limit) {
                expect_refusal(file.text, std::string("Gaussian 1 has ") + names[i] + " = ");
            }
            write_bytes(path, file.text);
            ASSERT_TRUE(scene_read(path.c_str(), SCENE_ANY, &got, &why)) << why.text;
            EXPECT_EQ(got.count, 3);
            scene_close(&got);
            ASSERT_TRUE(scene_read(path.c_str(), SCENE_DROP, &got, &why)) << why.text;
            const std::string said =
                "dsplat: " + path + ": 1 Gaussians are not finite and left out (the first: ";
            EXPECT_EQ(testing::internal::GetCapturedStderr().find(said), limit ? std::string::npos : 0);
            ASSERT_EQ(got.count, limit ? 3 : 2);
            EXPECT_EQ(got.mean[3 * (got.count - 1)], rows[2 * ply_needed.size()]);
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

TEST_F(Ply, DoesNotWriteIntoAMissingFolder) {
    gs_gaussians sent = make(1, 0);
    const std::string missing = folder / "none/scene.ply";
    EXPECT_FALSE(scene_write(missing.c_str(), &sent, &why));
    EXPECT_TRUE(contains(why, missing)) << why.text;
    scene_close(&sent);
}

} // namespace ply_test
