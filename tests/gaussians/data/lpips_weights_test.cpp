// SPDX-License-Identifier: MIT
// Files of tensors, and the weights of LPIPS in them.
#include "lpips_weights.h"
#include "lpips/lpips_file.h"
#include "safetensors.h"
#include <algorithm>
#include <cmath>

namespace {

const tensor_shape pair = {2, {2, 3}};
const tensor two_by_three = {"b", {2, 3}, {1, 2, 3, 4, 5, 6}};

// Reads the tensor b.
bool read_pair(const std::string &path, std::vector<float> *out, fault *why) {
    safetensors file = {};
    out->assign(6, 0);
    const bool read =
        safetensors_open(&file, path.c_str(), why) && safetensors_read(&file, "b", &pair, out->data(), why);
    safetensors_close(&file);
    return read;
}

struct Safetensors : testing::Test {
    TemporaryFolder folder;
    std::string path = folder / "weights.safetensors";
    std::vector<float> got;
    fault why = {};
    void expect_refusal(const std::string &bytes, const std::string &text) {
        write_bytes(path, bytes);
        EXPECT_FALSE(read_pair(path, &got, &why)) << text;
        EXPECT_TRUE(contains(why, path + ": " + text)) << why.text;
    }
};

TEST_F(Safetensors, ReadsTensorsInAnyOrder) {
    write_bytes(path, safetensors_of({{"a", {1}, {9}}, two_by_three, {"c", {4}, {7, 7, 7, 7}}}));
    ASSERT_TRUE(read_pair(path, &got, &why)) << why.text;
    EXPECT_EQ(got, two_by_three.values);
    safetensors file = {};
    ASSERT_TRUE(safetensors_open(&file, path.c_str(), &why)) << why.text;
    EXPECT_TRUE(safetensors_has(&file, "c"));
    EXPECT_FALSE(safetensors_has(&file, "d"));
    float values[4];
    for (const char *name : {"c", "a"}) {
        const tensor_shape shape = {1, {name[0] == 'c' ? 4 : 1}};
        ASSERT_TRUE(safetensors_read(&file, name, &shape, values, &why)) << why.text;
        EXPECT_EQ(values[0], name[0] == 'c' ? 7 : 9);
    }
    safetensors_close(&file);
    safetensors_close(&file);
}

TEST_F(Safetensors, RefusesEveryBeginning) {
    write_bytes(path, safetensors_of({two_by_three}));
    refuses_every_beginning(path, [&](fault *reason) { return read_pair(path, &got, reason); });
}

TEST_F(Safetensors, SurvivesEveryFlip) {
    write_bytes(path, safetensors_of({two_by_three}));
    survives_every_flip(
        path, [&](fault *reason) { return read_pair(path, &got, reason); }, [] {});
}

TEST_F(Safetensors, RefusesBadHeaders) {
    const std::string data(24, '\1');
    const auto header = [&](const std::string &entry) {
        return safetensors_bytes("{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":" + entry + "}}",
                                 data);
    };
    write_bytes(path, header("[0,24]"));
    ASSERT_TRUE(read_pair(path, &got, &why)) << why.text;
    for (const char *place : {"[0,25]", "[-4,20]", "[8,4]", "[0]", "24", "[0,24.0]", "[0,1e3]", "[0,24,24]",
                              "\"0\"", "[0,9223372036854775807]"})
        expect_refusal(header(place),
                       "tensor 'b': data_offsets must be two places within the 24 bytes that follow byte ");
    expect_refusal(header("[0,18446744073709551616]"), "at byte ");
    expect_refusal(header("[0,20]"), "4 bytes follow the last tensor, at byte ");
    expect_refusal(header("[4,24]"), "tensor 'b': its 6 values take 24 bytes, not as data_offsets say");
    expect_refusal(safetensors_bytes("[]", ""), "at byte 8: the header is not an object");
    expect_refusal(safetensors_bytes("{\"b\":3}", data), "tensor 'b': data_offsets must be");
    expect_refusal(safetensors_bytes("{\"b\":{},\"b\":{}}", data), "at byte ");
    expect_refusal(safetensors_bytes("{", data), "at byte ");
    expect_refusal(Bytes().put(uint64_t(1) << 40).put(data).text,
                   "at byte 0: the header has 1099511627776 bytes; at most 1048576");
    expect_refusal(Bytes().put(uint64_t(25)).put(data).text,
                   "truncated or damaged: 25 bytes of the header announced");
    EXPECT_FALSE(read_pair(folder / "none", &got, &why));
    EXPECT_TRUE(contains(why, "none: cannot open")) << why.text;
}

TEST_F(Safetensors, RefusesOtherTensors) {
    expect_refusal(safetensors_of({{"c", {2, 3}, two_by_three.values}}), "tensor 'b' is missing");
    expect_refusal(safetensors_of({two_by_three}, "F16"), "tensor 'b' has type F16; it must be F32");
    expect_refusal(safetensors_of({{"b", {3, 2}, two_by_three.values}}),
                   "tensor 'b': its shape must be [2, 3]");
    expect_refusal(safetensors_of({{"b", {6}, two_by_three.values}}), "tensor 'b': its shape must be [2, 3]");
    expect_refusal(safetensors_of({{"b", {2, 3, 1}, two_by_three.values}}),
                   "tensor 'b': its shape must be [2, 3]");
    for (const float value : {NAN, INFINITY, -INFINITY})
        expect_refusal(safetensors_of({{"b", {2, 3}, {1, 2, 3, 4, value, 6}}}), "tensor 'b': value 4 is ");
}

struct LpipsWeights : Safetensors {};

TEST_F(LpipsWeights, AreReadInTheOrderOfTheNetwork) {
    for (const gs_lpips_network network : {GS_LPIPS_ALEX, GS_LPIPS_VGG}) {
        std::vector<tensor> tensors = lpips_tensors(network);
        std::reverse(tensors.begin(), tensors.end());
        tensors.push_back({"classifier.1.bias", {1}, {NAN}}); // is not read
        write_bytes(path, safetensors_of(tensors));
        lpips_weights got_weights;
        ASSERT_TRUE(lpips_weights_read(path.c_str(), &got_weights, &why)) << why.text;
        EXPECT_EQ(got_weights.network, network);
        const std::vector<float> wanted = invented_weights(network);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), got_weights.values));
        lpips_weights_close(&got_weights);
        EXPECT_EQ(got_weights.values, nullptr);
        lpips_weights_close(&got_weights);
    }
}

TEST_F(LpipsWeights, RefusesWhatIsMissingOrOfAnotherShape) {
    const std::vector<tensor> whole = lpips_tensors(GS_LPIPS_ALEX);
    const auto expect_refused = [&](const std::vector<tensor> &tensors, const std::string &text) {
        write_bytes(path, safetensors_of(tensors));
        lpips_weights got_weights;
        EXPECT_FALSE(lpips_weights_read(path.c_str(), &got_weights, &why)) << text;
        EXPECT_TRUE(contains(why, path + ": tensor '" + text)) << why.text;
        EXPECT_EQ(got_weights.values, nullptr);
    };
    for (size_t i = 0; i < whole.size(); i += 3) {
        std::vector<tensor> tensors = whole;
        tensors.erase(tensors.begin() + ptrdiff_t(i));
        expect_refused(tensors, whole[i].name + "' is missing");
        tensors = whole;
        std::swap(tensors[i].shape[0], tensors[i].shape.back());
        tensors[i].shape.push_back(1);
        expect_refused(tensors, whole[i].name + "': its shape must be [");
    }
    // The convolutions of AlexNet beside a name of VGG-16.
    std::vector<tensor> both = whole;
    both.push_back({"features.28.weight", {1}, {0}});
    expect_refused(both, "features.0.weight': its shape must be [64, 3, 3, 3]");
}

} // namespace
