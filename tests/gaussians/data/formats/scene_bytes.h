// SPDX-License-Identifier: MIT
// Numbers and texts of the tests of data; files of scenes, byte by byte as their specifications have them.
#ifndef SCENE_BYTES_H
#define SCENE_BYTES_H

#include "files.h"
#include "formats/formats.h"
#include "scene.h"
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <vector>
#include <zlib.h>

// An array of any numbers begins with these, each to the tolerance.
template <typename T>
void expect_values(const T *got, const std::vector<double> &expected, double tolerance = 0) {
    for (size_t k = 0; k < expected.size(); k++) EXPECT_NEAR(double(got[k]), expected[k], tolerance) << k;
}

inline std::string replaced(std::string text, const std::string &from, const std::string &to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// JSON of a text in which ' stands for ".
inline std::string quoted(std::string json) {
    std::replace(json.begin(), json.end(), '\'', '"');
    return json;
}
// JSON with such a text in place of another.
inline std::string with(const std::string &json, const std::string &from, const std::string &to) {
    return replaced(json, quoted(from), quoted(to));
}

// ---- PLY

// The properties of a file of SH degree 0 that must be there.
inline const std::vector<std::string> ply_needed = {"x",      "y",       "z",       "f_dc_0",  "f_dc_1",
                                                    "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2",
                                                    "rot_0",  "rot_1",   "rot_2",   "rot_3"};

inline std::string ply_header(const std::string &count, const std::vector<std::string> &names,
                              const std::string &format = "binary_little_endian") {
    std::string text = "ply\nformat " + format + " 1.0\nelement vertex " + count + "\n";
    for (const std::string &name : names) text += "property float " + name + "\n";
    return text + "end_header\n";
}

// Of two points with colours.
inline std::string ply_of_points(const std::string &format, const std::string &rows,
                                 const std::string &type = "uint8",
                                 const std::vector<std::string> &colors = {"red", "green", "blue"}) {
    std::string header = ply_header("2", {"x", "y", "z"}, format);
    for (const std::string &name : colors)
        header.insert(header.find("end_header"), "property " + type + " " + name + "\n");
    return header + rows;
}

// ---- SPZ

// The 16 bytes of the header of versions 1 to 3, and of the first half of that of 4.
inline Bytes spz_header(uint32_t version, uint32_t count, uint8_t degree, uint8_t fraction_bits,
                        uint8_t flags, uint8_t streams) {
    Bytes b;
    b.put(uint32_t(0x5053474e)).put(version).put(count);
    return b.put(degree).put(fraction_bits).put(flags).put(streams);
}

// RFC 1952, with one block that is not compressed (RFC 1951, 3.2.4).
inline std::string gzip(const std::string &data) {
    const auto crc = crc32(0, reinterpret_cast<const Bytef *>(data.data()), uInt(data.size()));
    Bytes b;
    b.put(std::string("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11));
    b.put(uint16_t(data.size())).put(uint16_t(~data.size())).put(data);
    return b.put(uint32_t(crc)).put(uint32_t(data.size())).text;
}

// RFC 8878: a frame of one segment with a raw block.
inline std::string zstd(const std::string &data) {
    Bytes b;
    b.put(uint32_t(0xfd2fb528)).put(uint8_t(0x20)).put(uint8_t(data.size()));
    const uint32_t block = 1 | uint32_t(data.size()) << 3;
    for (int k = 0; k < 3; k++) b.put(uint8_t(block >> 8 * k));
    return b.put(data).text;
}

// One Gaussian of degree 1 by its parts. Its mean is (1, -2, 3) in the file, with 12 bits after the point.
inline const std::string positions("\x00\x10\x00\x00\xe0\xff\x00\x30\x00", 9), alphas("\x33", 1),
    colors("\xff\x80\x00", 3), scales("\x60\x70\xa0", 3),
    harmonics("\x80\x88\x78\x90\xc0\x40\x00\xf8\x81", 9);
// No rotation but a bit: x of largest -, y -, z +; in version 3 w is the largest.
inline const std::string first_three("\x7f\xbf\x40", 3);
inline const std::string smallest_three("\xff\x00\x30\xc0",
                                        4); // w largest; x 3 << 8, y 0, z 255 of 511, bit 9 is the sign

// ---- .splat

inline std::string splat_file() {
    Bytes b;
    for (int i = 0; i < 2; i++) {
        for (const float x : {1.5f, -2.0f, float(i)}) b.put(x);
        for (const float s : {1.0f, 0.25f, 4.0f}) b.put(s);
        b.put(std::string("\xff\x00\x80\x33", 4)); // red, no green, half blue, opacity 0.2
        b.put(std::string("\x80\xff\x80\x01", 4)); // 0, 127, 0, -127 of 128
    }
    return b.text;
}

// ---- compressed PLY

// One Gaussian; colors: its chunk has bounds of colours.
inline std::string compressed_file(bool colors, int coefficients) {
    std::string header =
        "ply\nformat binary_little_endian 1.0\ncomment SplatRenderMode: mip\nelement chunk 1\n";
    for (const char *bound : {"min_", "max_", "min_scale_", "max_scale_"})
        for (const char *axis : {"x", "y", "z"})
            header += std::string("property float ") + bound + axis + "\n";
    for (const char *bound : {"min_", "max_"})
        for (const char *channel : {"r", "g", "b"})
            if (colors) header += std::string("property float ") + bound + channel + "\n";
    header += "element vertex 1\n";
    for (const char *word : {"position", "rotation", "scale", "color"})
        header += std::string("property uint packed_") + word + "\n";
    if (coefficients > 0) header += "element sh 1\n";
    for (int k = 0; k < coefficients; k++) header += "property uchar f_rest_" + std::to_string(k) + "\n";
    Bytes b;
    b.put(header + "end_header\n");
    for (const float bound : {-1.0f, -2.0f, 0.0f, 1.0f, 2.0f, 8.0f, -5.0f, -5.0f, -5.0f, -1.0f, -1.0f, -1.0f})
        b.put(bound);
    if (colors)
        for (const float bound : {0.5f, 0.0f, 0.0f, 1.0f, 1.0f, 1.0f}) b.put(bound);
    b.put(uint32_t(2047u << 21 | 0u << 11 | 1024u)); // x at its most, y at its least, z 1024 of 2047
    b.put(uint32_t(2u << 30 | 1023u << 20 |
                   511u << 10)); // y is left out; w +, x 511 of 1023, z -: |.| <= sqrt(1/2)
    b.put(uint32_t(0u << 21 | 1023u << 11 | 2047u));
    b.put(uint32_t(0u << 24 | 255u << 16 | 51u << 8 | 255u));
    for (int k = 0; k < coefficients; k++) b.put(uint8_t(k == 1 ? 255 : k == 2 ? 0 : 128 + k));
    return b.text;
}

// ---- glTF

struct gltf_model {
    std::string json, binary;
};

// Two Gaussians: rotations as bytes, opacities as shorts, the rest as floats, below a node that doubles and moves them and
// turns x to y.
inline gltf_model two_gaussians(int sh_degree = 1) {
    std::string harmonics, accessors;
    Bytes b;
    for (const float x : {1.0f, 0.0f, 0.0f, 0.0f, 3.0f, 5.0f}) b.put(x);    // 0: positions
    for (const float s : {1.0f, 2.0f, 0.5f, 0.25f, 1.0f, 1.0f}) b.put(s);   // 24: scales
    b.put(std::string("\x00\x00\x00\x7f\x7f\x00\x00\x00", 8));              // 48: w = 1; x = 1
    b.put(uint16_t(13107)).put(uint16_t(65535));                            // 56: 0.2, 1
    for (int k = 0, l = 0; l <= sh_degree; l += ++k == (l + 1) * (l + 1)) { // 60: coefficients
        harmonics += ",\"KHR_gaussian_splatting:SH_DEGREE_" + std::to_string(l) + "_COEF_" +
                     std::to_string(k - l * l) + "\":" + std::to_string(4 + k);
        accessors += R"(,{"bufferView":0,"byteOffset":)" + std::to_string(b.text.size()) +
                     R"(,"componentType":5126,"count":2,"type":"VEC3"})";
        for (int i = 0; i < 6; i++) b.put(float(k) + 0.125f * float(i));
    }
    const std::string bytes = std::to_string(b.text.size()),
                      json =
                          R"({"asset":{"version":"2.0"},"extensionsUsed":["KHR_gaussian_splatting"],"scene":0,
"scenes":[{"nodes":[0]}],"nodes":[{"children":[1],"translation":[10,20,30],"rotation":[0,0,0.70710678118654752,0.70710678118654752],
"scale":[2,2,2]},{"mesh":0}],"meshes":[{"primitives":[{"attributes":{"POSITION":0},"mode":4},{"mode":0,"attributes":{"POSITION":0,
"KHR_gaussian_splatting:SCALE":1,"KHR_gaussian_splatting:ROTATION":2,"KHR_gaussian_splatting:OPACITY":3)" +
                          harmonics + R"(},
"extensions":{"KHR_gaussian_splatting":{"kernel":"ellipse","colorSpace":"srgb_rec709_display"}}}]}],
"buffers":[{"byteLength":)" +
                          bytes + R"(}],"bufferViews":[{"buffer":0,"byteLength":)" + bytes +
                          R"(}],"accessors":[
{"bufferView":0,"componentType":5126,"count":2,"type":"VEC3"},
{"bufferView":0,"byteOffset":24,"componentType":5126,"count":2,"type":"VEC3"},
{"bufferView":0,"byteOffset":48,"componentType":5120,"normalized":true,"count":2,"type":"VEC4"},
{"bufferView":0,"byteOffset":56,"componentType":5123,"normalized":true,"count":2,"type":"SCALAR"})" +
                          accessors + "]}";
    return {json, b.text};
}

inline std::string glb(const gltf_model &m) {
    std::string json = m.json;
    while (json.size() % 4) json += ' ';
    Bytes b;
    b.put(uint32_t(0x46546c67)).put(uint32_t(2)).put(uint32_t(28 + json.size() + m.binary.size()));
    b.put(uint32_t(json.size())).put(uint32_t(0x4e4f534a)).put(json);
    return b.put(uint32_t(m.binary.size())).put(uint32_t(0x004e4942)).put(m.binary).text;
}

// ---- ZIP

using files = std::map<std::string, std::string>;

inline std::string zip_of(const files &all) {
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

inline std::string file_of(const std::string &archive, const std::string &name) {
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

// All of a file that scene_write has written.
inline files files_of(const std::string &archive) {
    files all;
    for (const char *name : {"meta.json", "means_l.webp", "means_u.webp", "quats.webp", "scales.webp",
                             "sh0.webp", "shN_centroids.webp", "shN_labels.webp"})
        all[name] = file_of(archive, name);
    return all;
}

// ---- scenes, and how far apart two are

struct scene_in_memory : gs_gaussians {
    scene_in_memory() : gs_gaussians{} {}
    ~scene_in_memory() { scene_close(this); }
    scene_in_memory(const scene_in_memory &) = delete;
    void open(int64_t n, int degree) {
        fault why;
        scene_close(this);
        ASSERT_TRUE(scene_open(this, n, degree, &why)) << why.text;
    }
    int64_t sh_floats() const { return 3 * int64_t(sh_degree + 1) * (sh_degree + 1); }
};

// A file in a folder of its own, and what is read of it.
struct scene_file {
    bool read() {
        scene_close(&got);
        return scene_read(path.c_str(), SCENE_FINITE, &got, &why);
    }
    bool read(const std::string &name, const std::string &bytes) {
        write_bytes(path = folder / name, bytes);
        return read();
    }
    TemporaryFolder folder;
    std::string path;
    scene_in_memory sent, got;
    fault why = {};
};

// Values as a trained scene has them; quaternions of any length.
inline void fill_randomly(scene_in_memory *g, int64_t count, int degree, unsigned seed) {
    g->open(count, degree);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < 3 * count; i++) g->mean[i] = 3 * normal(random);
    for (int64_t i = 0; i < 3 * count; i++) g->log_scale[i] = -4 + normal(random);
    for (int64_t i = 0; i < 4 * count; i++) g->quaternion[i] = 2 * normal(random);
    for (int64_t i = 0; i < count; i++) g->opacity_logit[i] = 2 * normal(random);
    for (int64_t i = 0; i < g->sh_floats() * count; i++)
        g->sh[i] = std::tanh(normal(random)) * (i % g->sh_floats() < 3 ? 2.0f : 0.9f);
}

inline double opacity_of(const gs_gaussians &g, int64_t i) {
    return 1 / (1 + std::exp(-double(g.opacity_logit[i])));
}

// The rotation of a Gaussian, without the signs of its axes, which do not matter.
inline std::array<double, 9> axes_of(const gs_gaussians &g, int64_t i) {
    const float *const from = g.quaternion + 4 * i;
    const double length = std::hypot(std::hypot(from[0], from[1]), std::hypot(from[2], from[3]));
    double q[4];
    for (int k = 0; k < 4; k++) q[k] = from[k] / length;
    std::array<double, 9> axes;
    rotation_of_quaternion(q, axes.data());
    return axes;
}

// What a format may change: absolute differences.
struct tolerances {
    double mean, log_scale, axes, opacity, sh0, sh1, sh_rest;
};

// The Gaussian of `in` whose mean is nearest: a format may change their order.
inline int64_t nearest_to(const gs_gaussians &in, const float mean[3]) {
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < in.count; i++) {
        double square = 0;
        for (int k = 0; k < 3; k++) square += std::pow(double(in.mean[3 * i + k]) - mean[k], 2);
        if (square < least) best = i;
        least = std::min(least, square);
    }
    return best;
}

inline void expect_near(const scene_in_memory &got, const scene_in_memory &sent, const tolerances &t) {
    ASSERT_EQ(got.count, sent.count);
    ASSERT_EQ(got.sh_degree, sent.sh_degree);
    EXPECT_EQ(got.antialias, sent.antialias);
    const int64_t floats = sent.sh_floats();
    for (int64_t i = 0; i < sent.count; i++) {
        const int64_t j = nearest_to(got, sent.mean + 3 * i);
        for (int k = 0; k < 3; k++) {
            ASSERT_NEAR(got.mean[3 * j + k], sent.mean[3 * i + k], t.mean) << i;
            ASSERT_NEAR(got.log_scale[3 * j + k], sent.log_scale[3 * i + k], t.log_scale) << i;
        }
        ASSERT_NEAR(opacity_of(got, j), opacity_of(sent, i), t.opacity) << i;
        const std::array<double, 9> a = axes_of(got, j), b = axes_of(sent, i);
        for (size_t k = 0; k < 9; k++) ASSERT_NEAR(a[k], b[k], t.axes) << i;
        for (int64_t k = 0; k < floats; k++)
            ASSERT_NEAR(got.sh[j * floats + k], sent.sh[i * floats + k],
                        k < 3    ? t.sh0
                        : k < 12 ? t.sh1
                                 : t.sh_rest)
                << i << " " << k;
    }
}

#endif
