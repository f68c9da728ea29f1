// SPDX-License-Identifier: MIT
// Readers of scenes, by files written by hand from their specifications.
#include "scene_bytes.h"

namespace readers_test {

// What a file holds: the first values of each array, opacities, degree 0 as colours, and higher degrees.
using list = std::vector<double>;
struct values {
    int64_t count;
    int sh_degree;
    bool antialias;
    list mean, log_scale, quaternion, opacity, color, rest;
};
values holds(int64_t count, int sh_degree, bool antialias, list mean, list log_scale, list quaternion,
             list opacity, list color, list rest = {}) {
    return {count, sh_degree, antialias, mean, log_scale, quaternion, opacity, color, rest};
}

class Readers : public testing::Test, protected scene_file {
  protected:
    // A file is read as it holds, and none of its beginnings but those without some of the `unread` bytes at its end.
    void reads(const std::string &name, const std::string &bytes, const values &e, size_t unread = 0) {
        SCOPED_TRACE(name + " of " + std::to_string(bytes.size()) + " bytes");
        ASSERT_TRUE(read(name, bytes)) << why.text;
        ASSERT_EQ(got.count, e.count);
        ASSERT_EQ(got.sh_degree, e.sh_degree);
        EXPECT_EQ(got.antialias != 0, e.antialias);
        expect_values(got.mean, e.mean, 1e-5);
        expect_values(got.log_scale, e.log_scale, 1e-6);
        for (size_t i = 0; 4 * i < e.quaternion.size(); i++) { // up to their signs
            double dot = 0;
            for (size_t k = 0; k < 4; k++) dot += double(got.quaternion[4 * i + k]) * e.quaternion[4 * i + k];
            for (size_t k = 0; k < 4; k++)
                EXPECT_NEAR(double(got.quaternion[4 * i + k]) * (dot < 0 ? -1 : 1), e.quaternion[4 * i + k],
                            1e-6);
        }
        for (size_t i = 0; i < e.opacity.size(); i++)
            EXPECT_NEAR(opacity_of(got, int64_t(i)), e.opacity[i], 1e-5) << i;
        for (size_t k = 0; k < e.color.size(); k++)
            EXPECT_NEAR(0.5 + 0.28209479177387814 * double(got.sh[k]), e.color[k], 1e-6) << k;
        if (!e.rest.empty()) expect_values(got.sh + 3, e.rest, 1e-5);
        const size_t step = bytes.size() < 700 ? 1 : 5;
        for (size_t size = 0; name != "a.splat" && size + unread < bytes.size(); size += step) {
            ASSERT_FALSE(read(name, bytes.substr(0, size))) << size;
            ASSERT_TRUE(contains(why, path)) << why.text;
            ASSERT_EQ(got.mean, nullptr);
        }
    }
};

TEST_F(Readers, PlyByItsDescription) {
    // Backwards, with properties of every size between, lines that end in CR LF, comments, and a list after it all.
    Bytes mixed;
    mixed.put(std::string("ply\r\nformat binary_little_endian 1.0\r\ncomment element face 3\nobj_info x\n\n"
                          "element vertex 2\n"));
    const char *const types[] = {"char", "int8",  "uchar", "uint8",  "short", "int16",   "ushort", "uint16",
                                 "int",  "int32", "uint",  "uint32", "float", "float32", "double", "float64"};
    const std::vector<std::string> names(ply_needed.rbegin(), ply_needed.rend());
    for (size_t i = 0; i < 16; i++) {
        mixed.put(std::string("property ") + types[i] + " other_" + std::to_string(i) + "\n");
        if (i < names.size()) mixed.put("property\tfloat32  " + names[i] + "\n");
    }
    mixed.put(std::string("element face 1\nproperty list uchar int vertex_index\nend_header\n"));
    for (int vertex = 0; vertex < 2; vertex++)
        for (size_t i = 0; i < 16; i++) {
            mixed.put(std::string(i < 12 ? size_t(1) << i / 4 : i < 14 ? 4 : 8, '\xff'));
            if (i < names.size()) mixed.put(float(100 * vertex) + float(names.size() - 1 - i));
        }
    mixed.put(uint8_t(1)).put(int32_t(0));
    values two = holds(2, 0, false, {0, 1, 2, 100, 101, 102}, {7, 8, 9, 107},
                       {10, 11, 12, 13, 110, 111, 112, 113}, {}, {});
    reads("a.ply", mixed.text, two, 5);

    // Doubles, whole numbers and text are read as the floats nearest to them.
    const double numbers[14] = {1.5, -2, 4500000.125, 1, 2, 3, 0.1, -3, -2, -1, 1, 0, -7, 0};
    std::string text = ply_header("2", ply_needed, "ascii"), wide = ply_header("2", ply_needed);
    for (size_t at; (at = wide.find("float ")) != std::string::npos;) wide.replace(at, 5, "double");
    wide.replace(wide.find("double rot_2"), 6, "short");
    Bytes rows;
    for (size_t k = 0; k < 28; k++) {
        if (k % 14 == 12)
            rows.put(int16_t(-7));
        else
            rows.put(numbers[k % 14]);
        text += std::to_string(numbers[k % 14]) + (k == 13 ? "\n" : " ");
    }
    two = holds(2, 0, false, {1.5, -2, double(4500000.125f), 1.5}, {-3, -2, -1, -3},
                {1, 0, -7, 0, 1, 0, -7, 0}, {1 / (1 + std::exp(-0.1))}, {});
    reads("a.ply", wide + rows.text, two);
    reads("a.ply", text, two, 9);

    // As nerfstudio exports a scene without harmonics.
    std::string header = ply_header("1", ply_needed);
    for (const std::string name : {"red", "green", "blue"})
        header.replace(header.find("float f_dc_"), 12, "uchar " + name);
    Bytes bytes;
    bytes.put(header).put(1.0f).put(2.0f).put(3.0f).put(std::string("\xff\x00\x80", 3));
    for (int k = 6; k < 14; k++) bytes.put(float(k));
    reads("a.ply", bytes.text,
          holds(1, 0, false, {1, 2, 3}, {7, 8, 9}, {10, 11, 12, 13}, {1 / (1 + std::exp(-6.0))},
                {1, 0, 128 / 255.0}));
}

TEST_F(Readers, OthersByTheirSpecifications) {
    const double half = std::sqrt(0.5);
    reads("a.splat", splat_file(),
          holds(2, 0, false, {1.5, -2, 0, 1.5, -2, 1}, {0, std::log(0.25), std::log(4)},
                {0, 127 / 128.0, 0, -127 / 128.0}, {0.2, 0.2}, {1, 0, 128 / 255.0, 1}));
    reads("a.splat", "", holds(0, 0, false, {}, {}, {}, {}, {}));

    // All of red's coefficients come first. Files of 2024 have no bounds of colours: 0..1.
    const double step = 8 / 256.0;
    values packed = holds(
        1, 1, true, {1, -2, 8 * 1024 / 2047.0}, {-5, -1, -1},
        {half, (511 / 1023.0 - 0.5) * std::sqrt(2), 0, -half}, {254.75 / 255}, {0.5, 1, 0.2},
        {128.5 * step - 4, 131.5 * step - 4, 134.5 * step - 4, 4, 132.5 * step - 4, 135.5 * step - 4, -4});
    reads("a.ply", compressed_file(true, 9), packed);
    packed.sh_degree = 0, packed.rest = {}, packed.color = {0, 1, 0.2};
    reads("a.compressed.ply", compressed_file(false, 0), packed);

    // (x, y, z) -> (10 - 2 y, 20 + 2 x, 30 + 2 z) by the node; our axes: the negative of x and y. The quarter turn about z
    // with that half turn: x -> -y, y -> x; the second Gaussian is turned by half about its x before. Coefficients of -y,
    // z, -x: what was of x is now of -y, what was of y of x.
    const gltf_model m = two_gaussians();
    values mesh = holds(2, 1, false, {-10, -22, 30, -4, -20, 40}, {}, {half, 0, 0, -half, 0, half, -half, 0},
                        {0.2, 0.999999}, {});
    for (const double scale : {2.0, 4.0, 1.0, 0.5, 2.0, 2.0}) mesh.log_scale.push_back(std::log(scale));
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++)
            for (int c = 0; c < 3; c++) {
                const double d = 0.375 * i + 0.125 * c, turned[] = {d, -(3 + d), 2 + d, 1 + d};
                mesh.rest.push_back(turned[k]);
            }
    mesh.rest.erase(mesh.rest.begin(), mesh.rest.begin() + 3); // degree 0
    reads("a.glb", glb(m), mesh);
    gltf_model by_columns = m;
    const size_t begin = m.json.find("\"translation\""), end = m.json.find("]},{\"mesh\"");
    by_columns.json.replace(begin, end - begin, "\"matrix\":[0,2,0,0,-2,0,0,0,0,0,2,0,10,20,30,1");
    reads("a.glb", glb(by_columns), mesh);
    mesh = holds(2, 1, false, {-1}, {}, {}, {}, {}); // no scene: all meshes, as they are
    reads("a.glb", glb({with(m.json, "'scenes':[{'nodes':[0]}],", ""), m.binary}), mesh);
}

TEST_F(Readers, SpzByItsSpecification) {
    const double third = std::sqrt(0.5) / 511;
    const auto expected = [&](bool antialias, double x, double y,
                              double z) { // of the file; y and z are reversed
        const double w = std::sqrt(1 - x * x - y * y - z * z);
        values e = holds(1, 1, antialias, {1, 2, -3}, {-4, -3, 0}, {w, x, -y, -z}, {0.2}, {},
                         {0, -0.0625, 0.0625, -0.125, -0.5, 0.5, -1, 0.9375, 0.0078125}); // y, z, x
        for (const int byte : {255, 128, 0})
            e.color.push_back(0.5 + 0.28209479177387814 * (byte / 255.0 - 0.5) / 0.15);
        return e;
    };
    const values first = expected(true, 127 / 127.5 - 1, 191 / 127.5 - 1, 64 / 127.5 - 1),
                 smallest = expected(false, 3 * third, 0, 255 * third);
    const std::string between = alphas + colors + scales,
                      body = positions + between + smallest_three + harmonics;
    const auto gzipped = [&](uint32_t version, uint8_t flags, const std::string &parts) {
        return gzip(spz_header(version, 1, 1, 12, flags, 0).text + parts);
    };
    reads("a.spz", gzipped(2, 1, positions + between + first_three + harmonics), first);
    reads("a.spz", gzipped(3, 0, body), smallest); // bits: 11, then 10 for each of x, y, z: a sign and nine
    // Extensions, which the header announces, are skipped.
    reads("a.spz", gzipped(3, 2, body + std::string(6000, 'x')), smallest);
    for (const std::string extension : {"", "12345678"}) {
        Bytes file = spz_header(4, 1, 1, 12, extension.empty() ? 0 : 2, 6);
        file.put(uint32_t(32 + extension.size())).put(std::string(12, '\0')).put(extension);
        std::string streams;
        for (const std::string &part : {positions, alphas, colors, scales, smallest_three, harmonics}) {
            const std::string packed = zstd(part);
            file.put(uint64_t(packed.size())).put(uint64_t(part.size()));
            streams += packed;
        }
        reads("a.spz", file.text + streams, smallest);
    }
}

// What it reads is what the file holds, turned by half about x. The coefficients of degree 4 are dropped.
TEST_F(Readers, SpzTurnsHarmonicsAsTheScene) {
    std::string all;
    for (int k = 0; k < 72; k++) all += char(128 + k);
    testing::internal::CaptureStderr();
    ASSERT_TRUE(read("a.spz", gzip(spz_header(3, 1, 4, 12, 0, 0).text + positions + alphas + colors + scales +
                                   smallest_three + all)))
        << why.text;
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "dsplat: " + path + ": SH degree 4 is read to degree 3\n");
    ASSERT_EQ(got.sh_degree, 3);
    scene_in_memory in_file;
    in_file.open(1, 3);
    in_file.quaternion[0] = 1;
    for (int k = 0; k < 45; k++) in_file.sh[3 + k] = float(k) / 128;
    const similarity half = {{1, 0, 0, 0, -1, 0, 0, 0, -1}, 1, {}};
    gaussians_move(&in_file, &half);
    expect_values(got.sh + 3, {in_file.sh + 3, in_file.sh + 48}, 1e-6);
}

// The axes of glTF turn by half about z, which reverses the harmonics of odd order.
TEST_F(Readers, GltfTurnsHarmonics) {
    gltf_model m = two_gaussians(3);
    m.json = with(m.json, "'scenes':[{'nodes':[0]}],", ""); // the mesh as it is
    ASSERT_TRUE(read("a.glb", glb(m))) << why.text;
    ASSERT_EQ(got.sh_degree, 3);
    for (int i = 0; i < 96; i++) {
        const int k = i % 48 / 3, degree = int(std::sqrt(k)), order = k - degree * (degree + 1);
        const double in_file = k + 0.125 * (i / 48 * 3 + i % 3);
        EXPECT_NEAR(double(got.sh[i]), order % 2 ? -in_file : in_file, 1e-5) << i;
    }
}

// Scale 0, opacities 0 and 1 and a quaternion of length 0, as .splat and glTF have them, mean what they do in PLY.
TEST_F(Readers, LimitsMeanTheSame) {
    std::string splat = splat_file();
    splat.replace(12, 4, std::string(4, '\0')).replace(27, 5, "\xff\x80\x80\x80\x80");
    ASSERT_TRUE(read("a.splat", splat)) << why.text;
    expect_values(got.log_scale, {std::log(1e-20)}, 0.02);
    expect_values(got.quaternion, {0, 0, 0, 0});
    EXPECT_NEAR(opacity_of(got, 0), 254.75 / 255, 1e-6);
    gltf_model m = two_gaussians();
    m.binary.replace(24, 4, std::string(4, '\0')).replace(56, 2, std::string(2, '\0'));
    ASSERT_TRUE(read("a.glb", glb(m))) << why.text;
    expect_values(got.log_scale, {std::log(1e-20)}, 0.02);
    expect_values(got.opacity_logit, {-13.8, 13.8}, 0.02);
}

// A value that is not finite is refused, kept, or dropped with its Gaussian, but some have a meaning.
TEST_F(Readers, NonFiniteValues) {
    const char *const fields[] = {"mean[0]",       "mean[1]",      "mean[2]",          "sh[0]",
                                  "sh[1]",         "sh[2]",        "opacity_logit[0]", "log_scale[0]",
                                  "log_scale[1]",  "log_scale[2]", "quaternion[0]",    "quaternion[1]",
                                  "quaternion[2]", "quaternion[3]"};
    for (size_t i = 0; i < ply_needed.size(); i++) {
        for (const float value : {std::nanf(""), INFINITY, -INFINITY}) {
            Bytes file;
            file.put(ply_header("3", ply_needed));
            for (size_t k = 0; k < 3 * 14; k++) file.put(k == 14 + i ? value : k == 2 * 14 ? 7.0f : 1.0f);
            const bool opacity = fields[i][0] == 'o', scale = fields[i][0] == 'l';
            const bool limit = std::isinf(value) && (opacity || (scale && value < 0));
            ASSERT_EQ(read("a.ply", file.text), limit);
            EXPECT_TRUE(limit || contains(why, path + ": Gaussian 1 has " + fields[i] + " = ")) << why.text;
            scene_close(&got);
            ASSERT_TRUE(scene_read(path.c_str(), SCENE_ANY, &got, &why)) << why.text;
            EXPECT_EQ(got.count, 3);
            scene_close(&got);
            testing::internal::CaptureStderr();
            ASSERT_TRUE(scene_read(path.c_str(), SCENE_DROP, &got, &why)) << why.text;
            const std::string said =
                "dsplat: " + path + ": 1 Gaussians are not finite and left out (the first: ";
            EXPECT_EQ(testing::internal::GetCapturedStderr().find(said), limit ? std::string::npos : 0);
            ASSERT_EQ(got.count, limit ? 3 : 2);
            EXPECT_EQ(got.mean[3 * (got.count - 1)], 7);
            if (!limit) continue; // an opacity of 1 or 0, a scale of 0
            EXPECT_NEAR(opacity ? got.opacity_logit[1] : got.log_scale[3 + i - 7],
                        !opacity    ? std::log(1e-20)
                        : value > 0 ? 13.8
                                    : -13.8,
                        0.02);
        }
    }
}

} // namespace readers_test
