// SPDX-License-Identifier: MIT
// Formats that are only read, by files written by hand from their specifications: .splat, compressed PLY, glTF.
#include "scene_cases.h"
#include <functional>

namespace readers_test {

class Readers : public testing::Test {
  protected:
    bool read(const std::string &name, const std::string &bytes) {
        path = folder / name;
        write_bytes(path, bytes);
        scene_close(&got);
        return scene_read(path.c_str(), SCENE_FINITE, &got, &why);
    }
    void expect_refusal(const std::string &name, const std::string &bytes, const std::string &part) {
        EXPECT_FALSE(read(name, bytes)) << part;
        EXPECT_TRUE(contains(why, path) && contains(why, part)) << part << ": " << why.text;
        EXPECT_EQ(got.mean, nullptr);
    }
    // Every beginning is refused; a flipped byte is refused or gives a scene.
    void damage(const std::string &name, const std::string &whole, size_t step) {
        ASSERT_TRUE(read(name, whole)) << why.text;
        for (size_t size = 0; size < whole.size(); size += step) {
            ASSERT_FALSE(read(name, whole.substr(0, size))) << size << " of " << whole.size();
            std::string flipped = whole;
            flipped[size] = char(flipped[size] ^ 0x81);
            ASSERT_TRUE(read(name, flipped) || contains(why, path)) << size << ": " << why.text;
        }
    }
    TemporaryFolder folder;
    std::string path;
    scene_in_memory got;
    fault why = {};
};

// ---- .splat

std::string splat_file() {
    Bytes b;
    for (int i = 0; i < 2; i++) {
        for (const float x : {1.5f, -2.0f, float(i)}) b.put(x);
        for (const float s : {1.0f, 0.25f, 4.0f}) b.put(s);
        b.put(std::string("\xff\x00\x80\x33", 4)); // red, no green, half blue, opacity 0.2
        b.put(std::string("\x80\xff\x80\x01", 4)); // 0, 127, 0, -127 of 128
    }
    return b.text;
}

TEST_F(Readers, SplatByItsLayout) {
    ASSERT_TRUE(read("a.splat", splat_file())) << why.text;
    ASSERT_EQ(got.count, 2);
    EXPECT_EQ(got.sh_degree, 0);
    EXPECT_EQ(got.mean[0], 1.5f);
    EXPECT_EQ(got.mean[5], 1);
    EXPECT_EQ(got.log_scale[0], 0);
    EXPECT_FLOAT_EQ(got.log_scale[1], std::log(0.25f));
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[0], 1, 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[1], 0, 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[2], 128 / 255.0, 1e-6);
    EXPECT_NEAR(opacity_of(got, 0), 0.2, 1e-6);
    EXPECT_EQ(got.quaternion[1], 127 / 128.0f);
    EXPECT_EQ(got.quaternion[3], -127 / 128.0f);
    ASSERT_TRUE(read("a.splat", "")) << why.text;
    EXPECT_EQ(got.count, 0);
    expect_refusal("a.splat", splat_file().substr(1), "truncated at byte 63: not a multiple of 32");
    std::string negative = splat_file();
    negative[15] = char(negative[15] ^ 0x80); // the sign of a scale
    expect_refusal("a.splat", negative, "Gaussian 0 has log_scale[0] = ");
    EXPECT_FALSE(scene_write((folder / "b.splat").c_str(), &got, &why));
    EXPECT_TRUE(contains(why, "b.splat: .splat files are only read; the suffix must be one of .ply"))
        << why.text;
}

// ---- compressed PLY

std::string compressed_header(const std::string &chunks, const std::string &vertices, bool colors,
                              int coefficients) {
    std::string text =
        "ply\nformat binary_little_endian 1.0\ncomment SplatRenderMode: mip\nelement chunk " + chunks + "\n";
    for (const char *bound : {"min_x", "min_y", "min_z", "max_x", "max_y", "max_z", "min_scale_x",
                              "min_scale_y", "min_scale_z", "max_scale_x", "max_scale_y", "max_scale_z"})
        text += std::string("property float ") + bound + "\n";
    if (colors)
        for (const char *bound : {"min_r", "min_g", "min_b", "max_r", "max_g", "max_b"})
            text += std::string("property float ") + bound + "\n";
    text += "element vertex " + vertices + "\n";
    for (const char *word : {"position", "rotation", "scale", "color"})
        text += std::string("property uint packed_") + word + "\n";
    if (coefficients > 0) text += "element sh " + vertices + "\n";
    for (int k = 0; k < coefficients; k++) text += "property uchar f_rest_" + std::to_string(k) + "\n";
    return text + "end_header\n";
}

std::string compressed_file(bool colors, int coefficients) {
    Bytes b;
    b.put(compressed_header("1", "1", colors, coefficients));
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

TEST_F(Readers, CompressedPlyByItsLayout) {
    ASSERT_TRUE(read("a.ply", compressed_file(true, 9))) << why.text;
    ASSERT_EQ(got.count, 1);
    ASSERT_EQ(got.sh_degree, 1);
    EXPECT_TRUE(got.antialias);
    EXPECT_EQ(got.mean[0], 1);
    EXPECT_EQ(got.mean[1], -2);
    EXPECT_NEAR(got.mean[2], 8 * 1024 / 2047.0, 1e-6);
    EXPECT_EQ(got.log_scale[0], -5);
    EXPECT_EQ(got.log_scale[1], -1);
    EXPECT_NEAR(got.quaternion[0], std::sqrt(0.5), 1e-6);
    EXPECT_NEAR(got.quaternion[1], (511 / 1023.0 - 0.5) * std::sqrt(2), 1e-6);
    EXPECT_NEAR(got.quaternion[2], 0, 1e-6);
    EXPECT_NEAR(got.quaternion[3], -std::sqrt(0.5), 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[0], 0.5, 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[1], 1, 1e-6);
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[2], 0.2, 1e-6);
    EXPECT_GT(opacity_of(got, 0), 254.5 / 255);
    EXPECT_FLOAT_EQ(got.sh[3], (128.5f / 256) * 8 - 4); // red's first, second and third, then green's first
    EXPECT_EQ(got.sh[6], 4);
    EXPECT_EQ(got.sh[9], -4);
    EXPECT_FLOAT_EQ(got.sh[4], (131.5f / 256) * 8 - 4);
    ASSERT_TRUE(read("a.compressed.ply", compressed_file(false, 0)))
        << why.text; // as of 2024: colours in 0..1
    EXPECT_NEAR(0.5 + 0.28209479177387814 * got.sh[0], 0, 1e-6);
}

TEST_F(Readers, CompressedPlyRefusals) {
    const std::string good = compressed_file(true, 9);
    const auto with = [&](const std::string &from, const std::string &to) {
        std::string text = good;
        return text.replace(text.find(from), from.size(), to);
    };
    expect_refusal("a.ply", with("element chunk 1", "element chunk 2"),
                   "2 chunks and 1 rows of coefficients for 1");
    expect_refusal("a.ply", with("element vertex 1", "element vertex 2147483648"),
                   "unexpected line 'element ...'");
    expect_refusal("a.ply", with("element vertex 1", "element vertex 2147483647"), "1 chunks and 1 rows");
    expect_refusal("a.ply", with("element vertex 1", "element vertex -1"), "unexpected line 'element ...'");
    expect_refusal("a.ply", with("element sh 1", "element sh 0"), "1 chunks and 0 rows");
    expect_refusal("a.ply", with("float min_y", "float min_x"), "unexpected line 'property ...'");
    expect_refusal("a.ply", with("uint packed_scale", "int packed_scale"), "unexpected line 'property ...'");
    expect_refusal("a.ply", with("property uchar f_rest_8\n", ""), "properties are missing");
    expect_refusal("a.ply", with("property float max_b\n", ""), "properties are missing");
    expect_refusal("a.ply", with("binary_little_endian", "ascii"), "at byte 4: unexpected line 'format ...'");
    expect_refusal("a.ply", with("comment", "comment " + std::string(1100, 'x')),
                   "a header line of more than");
    expect_refusal("a.ply", good + "x", "bytes announced, but");
    std::string nan = good;
    memcpy(&nan[nan.find("end_header\n") + 11], "\0\0\xc0\x7f", 4); // min_x
    expect_refusal("a.ply", nan, "Gaussian 0 has mean[0] = ");
    damage("a.ply", good, 3);
}

// ---- glTF

struct model {
    std::string json, binary;
};

std::string replaced(std::string text, const std::string &from, const std::string &to) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
}

// Two Gaussians of degree 1: rotations as bytes, opacities as shorts, the rest as floats, below a node that doubles and
// moves them and turns x to y.
model two_gaussians() {
    Bytes b;
    for (const float x : {1.0f, 0.0f, 0.0f, 0.0f, 3.0f, 5.0f}) b.put(x);  // 0: positions
    for (const float s : {1.0f, 2.0f, 0.5f, 0.25f, 1.0f, 1.0f}) b.put(s); // 24: scales
    b.put(std::string("\x00\x00\x00\x7f\x7f\x00\x00\x00", 8));            // 48: w = 1; x = 1
    b.put(uint16_t(13107)).put(uint16_t(65535));                          // 56: 0.2, 1
    for (int k = 0; k < 4; k++)                                           // 60: coefficients
        for (int i = 0; i < 6; i++) b.put(float(k) + 0.125f * float(i));
    model m;
    m.binary = b.text;
    m.json = R"({"asset":{"version":"2.0"},"extensionsUsed":["KHR_gaussian_splatting"],"scene":0,
"scenes":[{"nodes":[0]}],"nodes":[{"children":[1],"translation":[10,20,30],"rotation":[0,0,0.70710678118654752,0.70710678118654752],
"scale":[2,2,2]},{"mesh":0}],"meshes":[{"primitives":[{"attributes":{"POSITION":0},"mode":4},{"mode":0,"attributes":{"POSITION":0,
"KHR_gaussian_splatting:SCALE":1,"KHR_gaussian_splatting:ROTATION":2,"KHR_gaussian_splatting:OPACITY":3,
"KHR_gaussian_splatting:SH_DEGREE_0_COEF_0":4,"KHR_gaussian_splatting:SH_DEGREE_1_COEF_0":5,
"KHR_gaussian_splatting:SH_DEGREE_1_COEF_1":6,"KHR_gaussian_splatting:SH_DEGREE_1_COEF_2":7},
"extensions":{"KHR_gaussian_splatting":{"kernel":"ellipse","colorSpace":"srgb_rec709_display"}}}]}],
"buffers":[{"byteLength":156}],"bufferViews":[{"buffer":0,"byteLength":156}],"accessors":[
{"bufferView":0,"componentType":5126,"count":2,"type":"VEC3"},
{"bufferView":0,"byteOffset":24,"componentType":5126,"count":2,"type":"VEC3"},
{"bufferView":0,"byteOffset":48,"componentType":5120,"normalized":true,"count":2,"type":"VEC4"},
{"bufferView":0,"byteOffset":56,"componentType":5123,"normalized":true,"count":2,"type":"SCALAR"},
{"bufferView":0,"byteOffset":60,"componentType":5126,"count":2,"type":"VEC3"},
{"bufferView":0,"byteOffset":84,"componentType":5126,"count":2,"type":"VEC3"},
{"bufferView":0,"byteOffset":108,"componentType":5126,"count":2,"type":"VEC3"},
{"bufferView":0,"byteOffset":132,"componentType":5126,"count":2,"type":"VEC3"}]})";
    return m;
}

std::string glb(const model &m) {
    std::string json = m.json;
    while (json.size() % 4) json += ' ';
    Bytes b;
    b.put(uint32_t(0x46546c67)).put(uint32_t(2)).put(uint32_t(28 + json.size() + m.binary.size()));
    b.put(uint32_t(json.size())).put(uint32_t(0x4e4f534a)).put(json);
    return b.put(uint32_t(m.binary.size())).put(uint32_t(0x004e4942)).put(m.binary).text;
}

TEST_F(Readers, GltfByItsSpecification) {
    const model m = two_gaussians();
    const auto expect_it = [&] {
        ASSERT_EQ(got.count, 2);
        ASSERT_EQ(got.sh_degree, 1);
        // The node: (x, y, z) -> (10 - 2 y, 20 + 2 x, 30 + 2 z); our axes: the negative of x and y.
        const float means[] = {-10, -22, 30, -4, -20, 40};
        for (int k = 0; k < 6; k++) EXPECT_NEAR(got.mean[k], means[k], 1e-5) << k;
        const double scales[] = {2, 4, 1, 0.5, 2, 2};
        for (int k = 0; k < 6; k++) EXPECT_NEAR(got.log_scale[k], std::log(scales[k]), 1e-6) << k;
        // A quarter turn about z with the half turn: x -> -y, y -> x. The second is turned by half about its x before.
        const double turn[] = {0, 1, 0, -1, 0, 0, 0, 0, 1};
        for (size_t k = 0; k < 9; k++) EXPECT_NEAR(axes_of(got, 0)[k], turn[k], 1e-6) << k;
        for (size_t k = 0; k < 9; k++) EXPECT_NEAR(axes_of(got, 1)[k], k % 3 ? -turn[k] : turn[k], 1e-6) << k;
        EXPECT_NEAR(opacity_of(got, 0), 0.2, 1e-5);
        EXPECT_GT(opacity_of(got, 1), 0.99999);
        // Coefficients of -y, z, -x: what was of x is now of -y, what was of y of x.
        const float *const sh = got.sh + 12;
        for (int c = 0; c < 3; c++) {
            const float d = 0.375f + 0.125f * float(c);
            EXPECT_NEAR(sh[c], d, 1e-6);
            EXPECT_NEAR(sh[3 + c], -(3 + d), 1e-5);
            EXPECT_NEAR(sh[6 + c], 2 + d, 1e-5);
            EXPECT_NEAR(sh[9 + c], 1 + d, 1e-5);
        }
    };
    ASSERT_TRUE(read("a.glb", glb(m))) << why.text;
    expect_it();
    write_bytes(folder / "part/a.bin", m.binary);
    ASSERT_TRUE(read("a.gltf",
                     replaced(m.json, "{\"byteLength\":156}", "{\"byteLength\":156,\"uri\":\"part/a.bin\"}")))
        << why.text;
    expect_it();
    // A matrix, by columns; two parts of different degrees; no scene.
    model matrix = m;
    const size_t begin = m.json.find("\"translation\""), end = m.json.find("]},{\"mesh\"");
    matrix.json.replace(begin, end - begin, "\"matrix\":[0,2,0,0,-2,0,0,0,0,0,2,0,10,20,30,1");
    ASSERT_TRUE(read("a.glb", glb(matrix))) << why.text;
    expect_it();
    ASSERT_TRUE(read("a.glb", glb({replaced(m.json, "\"scenes\":[{\"nodes\":[0]}],", ""), m.binary})))
        << why.text;
    EXPECT_EQ(got.mean[0], -1);
}

TEST_F(Readers, GltfRefusals) {
    const model m = two_gaussians();
    const struct {
        const char *from, *to, *part;
    } rows[] = {
        {"\"mode\":0", "\"mode\":1", "must have mode 0"},
        {"\"ellipse\"", "\"disc\"", "kernel 'disc'"},
        {"srgb_rec709_display", "lin_rec709_display", "colorSpace 'lin_rec709_display'"},
        {"\"kernel\":\"ellipse\",", "", "kernel ''"},
        {"\"KHR_gaussian_splatting:SCALE\":1,", "", "attribute KHR_gaussian_splatting:SCALE"},
        {"\"KHR_gaussian_splatting:SH_DEGREE_1_COEF_1\":6,", "", "SH_DEGREE_1_COEF_1"},
        {"SH_DEGREE_1_COEF_2\":7", "SH_DEGREE_2_COEF_0\":7", "SH_DEGREE_1_COEF_2"},
        {"\"POSITION\":0,\n", "\"POSITION\":8,\n", "attribute POSITION"},
        {"\"POSITION\":0,\n", "\"POSITION\":-1,\n", "attribute POSITION"},
        {"\"count\":2,\"type\":\"VEC3\"", "\"count\":20,\"type\":\"VEC3\"", "attribute POSITION"},
        {"\"count\":2,\"type\":\"VEC3\"", "\"count\":2,\"sparse\":{},\"type\":\"VEC3\"",
         "attribute POSITION"},
        {"\"count\":2,\"type\":\"VEC3\"", "\"count\":1,\"type\":\"VEC3\"", "attributes of different counts"},
        {"\"count\":2,\"type\":\"VEC3\"", "\"count\":9223372036854775807,\"type\":\"VEC3\"",
         "attribute POSITION"},
        {"\"byteOffset\":24", "\"byteOffset\":157", "SCALE"},
        {"\"byteOffset\":24", "\"byteOffset\":-24", "SCALE"},
        {"\"byteOffset\":24", "\"byteOffset\":9223372036854775807", "SCALE"},
        {"5123,\"normalized\":true,", "5123,", "opacity 13107"},
        {"{\"buffer\":0,\"byteLength\":156}", "{\"buffer\":0,\"byteLength\":157}", "attribute POSITION"},
        {"{\"buffer\":0,\"byteLength\":156}", "{\"buffer\":1,\"byteLength\":156}", "attribute POSITION"},
        {"{\"buffer\":0,\"byteLength\":156}", "{\"buffer\":0,\"byteStride\":4,\"byteLength\":156}",
         "attribute POSITION"},
        {"{\"byteLength\":156}", "{\"byteLength\":157}", "buffers[0] has 156 bytes, not 157"},
        {"{\"byteLength\":156}", "{\"byteLength\":156,\"uri\":\"a.bin\"}", "is in the file and has a uri"},
        {"[{\"byteLength\":156}]", "[{\"byteLength\":156},{\"byteLength\":1,\"uri\":\"../a.bin\"}]",
         "not a file beside it"},
        {"[{\"byteLength\":156}]", "[{\"byteLength\":156},{\"byteLength\":1,\"uri\":\"data:,x\"}]",
         "not a file beside it"},
        {"\"scale\":[2,2,2]", "\"scale\":[2,2,3]", "scales them unequally"},
        {"\"scale\":[2,2,2]", "\"scale\":[-2,2,2]", "mirrors them"},
        {"\"scale\":[2,2,2]", "\"scale\":[0,0,0]", "shears"},
        {"\"scale\":[2,2,2]", "\"scale\":[2,2]", "nodes[0]: missing, malformed"},
        {"\"children\":[1]", "\"children\":[0]", "nodes[0]: missing, malformed, a child of two nodes"},
        {"\"children\":[1]", "\"children\":[1,1]", "nodes[1]: missing, malformed, a child of two nodes"},
        {"\"children\":[1]", "\"children\":[2]", "nodes[2]: missing"},
        {"\"children\":[1]", "\"children\":[\"x\"]", "malformed children"},
        {"\"children\":[1]", "\"children\":[]", "holds no Gaussians"},
        {"\"scene\":0", "\"scene\":0,\"scene\":0", "of the JSON: duplicate"},
    };
    for (const auto &row : rows)
        expect_refusal("a.glb", glb({replaced(m.json, row.from, row.to), m.binary}), row.part);
    std::string binary = m.binary;
    binary[27] = char(0xbf); // a scale below 0
    expect_refusal("a.glb", glb({m.json, binary}), "Gaussian 0 has scale -");
    binary = m.binary;
    memcpy(&binary[0], "\0\0\xc0\x7f", 4);
    expect_refusal("a.glb", glb({m.json, binary}), "Gaussian 0 has mean[");
    std::string nodes = "[{\"children\":[1],\"mesh\":0}"; // deeper than it goes
    for (int k = 1; k < 100; k++) nodes += ",{\"children\":[" + std::to_string(k + 1) + "]}";
    const size_t begin = m.json.find("\"nodes\":[{") + 8, end = m.json.find(",\"meshes\"");
    std::string deep = m.json;
    expect_refusal("a.glb", glb({deep.replace(begin, end - begin, nodes + ",{}]"), m.binary}),
                   "more than 64 deep");
    expect_refusal("a.gltf", m.json, "buffers[0] has 0 bytes, not 156");
    expect_refusal("a.gltf", "[]", "holds no Gaussians");
    std::string version = glb(m);
    version[4] = 1;
    expect_refusal("a.glb", version, "not a whole file of version 2");
    damage("a.glb", glb(m), 5);
}

} // namespace readers_test
