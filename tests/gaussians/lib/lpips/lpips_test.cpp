// SPDX-License-Identifier: MIT
// gs_lpips against torch's numbers, which lpips_activations.py made, against the double-precision reference, and what
// must hold without either.
#include "device_vector.h"
#include "lpips_case.h"

#include <distwar_gs_lpips.h>
#include <lpips.h>

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace lpips_test {

struct stored_picture {
    size_t largest; // index of the largest activation of the picture
    double value, mean;
};
struct stored_level {
    int channels, height, width;
    stored_picture picture[2];
    double part; // of LPIPS
};
#include "lpips_activations.h"

struct Case {
    gs_lpips_network network;
    int width, height;
    std::vector<float> color;  // [3][height][width]
    std::vector<uint8_t> pair; // [2][height][width][3]
    std::vector<uint8_t> mask; // empty: none

    Case(gs_lpips_network network, int width, int height)
        : network(network), width(width), height(height), color(3 * pixels()),
          pair(invented_pictures(width, height)) {
        for (size_t i = 0; i < pixels(); i++)
            for (size_t c = 0; c < 3; c++) color[c * pixels() + i] = float(pair[3 * i + c]) / 255.0f;
    }
    size_t pixels() const { return size_t(width) * size_t(height); }
    std::vector<uint8_t> target() const { return {pair.begin() + ptrdiff_t(3 * pixels()), pair.end()}; }
};

struct shape {
    int channels, height, width;
    size_t plane() const { return size_t(height) * size_t(width); }
};

std::vector<shape> shapes_of(const Case &c) {
    std::vector<shape> out;
    shape at = {3, c.height, c.width};
    const gs_lpips_architecture &network = *gs_lpips_architecture_of(c.network);
    for (int i = 0; i < network.convolutions; i++) {
        const gs_lpips_convolution &layer = network.convolution[i];
        const auto side = [&](int of) {
            const int pooled = layer.pool > 0 ? (of - layer.pool) / 2 + 1 : of;
            return (pooled + 2 * layer.padding - layer.size) / layer.stride + 1;
        };
        at = {layer.outputs, side(at.height), side(at.width)};
        if (layer.level > 0) out.push_back(at);
    }
    return out;
}

struct outcome {
    std::vector<double> result;
    std::vector<float> activations[GS_LPIPS_LEVELS];
};

// Memory holds NaN beforehand: nothing may be read before it is written, nor anything written behind the workspace.
outcome run(const Case &c, bool keep_activations = true) {
    size_t bytes = 0;
    EXPECT_EQ(gs_lpips_bytes(c.network, c.width, c.height, &bytes), GS_OK) << gs_last_error();
    const size_t guard = 64;
    const device_vector<uint8_t> workspace(std::vector<uint8_t>(bytes + guard, 0xff)), target(c.target()),
        mask(c.mask);
    const device_vector<float> color(c.color), weights(invented_weights(c.network));
    const device_vector<double> result(std::vector<double>(1 + GS_LPIPS_LEVELS, NAN));
    gs_lpips_comparison compared = {};
    compared.images = {c.width, c.height, color.data(), target.data(),
                       c.mask.empty() ? nullptr : mask.data()};
    compared.network = c.network;
    compared.weights = weights.data();
    std::vector<std::unique_ptr<device_vector<float>>> kept;
    for (const shape &level : shapes_of(c)) {
        if (!keep_activations) break;
        kept.push_back(std::make_unique<device_vector<float>>(
            std::vector<float>(2 * size_t(level.channels) * level.plane(), NAN)));
        compared.activations[kept.size() - 1] = kept.back()->data();
    }
    EXPECT_EQ(gs_lpips(&compared, workspace.data(), bytes, result.data(), nullptr), GS_OK) << gs_last_error();
    outcome out = {result.read(), {}};
    for (size_t i = 0; i < kept.size(); i++) out.activations[i] = kept[i]->read();
    const std::vector<uint8_t> after = workspace.read();
    EXPECT_TRUE(std::all_of(after.end() - guard, after.end(), [](uint8_t byte) { return byte == 0xff; }));
    return out;
}

void expect_stored(const Case &c, const stored_level *stored) {
    const outcome got = run(c);
    double sum = 0;
    for (size_t l = 0; l < GS_LPIPS_LEVELS; l++) {
        SCOPED_TRACE("level " + std::to_string(l + 1));
        const size_t values = size_t(stored[l].channels) * size_t(stored[l].height) * size_t(stored[l].width);
        ASSERT_EQ(got.activations[l].size(), 2 * values);
        for (size_t k = 0; k < 2; k++) {
            const stored_picture &wanted = stored[l].picture[k];
            const float *const picture = got.activations[l].data() + k * values;
            EXPECT_NEAR(picture[wanted.largest], wanted.value, 2e-6 * wanted.value);
            double mean = 0;
            for (size_t i = 0; i < values; i++) mean += double(picture[i]) / double(values);
            EXPECT_NEAR(mean, wanted.mean, 2e-6 * wanted.mean);
        }
        EXPECT_NEAR(got.result[1 + l], stored[l].part, 1e-5 * stored[l].part);
        sum += stored[l].part;
    }
    EXPECT_NEAR(got.result[0], sum, 1e-5 * sum);
}

TEST(Lpips, GivesTheNumbersOfTorchWithAlexNet) {
    expect_stored({GS_LPIPS_ALEX, 83, 61}, alex_levels);
}

TEST(Lpips, GivesTheNumbersOfTorchWithVgg) {
    expect_stored({GS_LPIPS_VGG, 37, 33}, vgg_levels);
}

// Sizes that the blocks of the kernels do not divide, and the smallest.
TEST(Lpips, GivesTheActivationsOfTheReference) {
    const int sizes[][2] = {{32, 32}, {150, 33}};
    for (const auto &size : sizes) {
        const Case c(GS_LPIPS_ALEX, size[0], size[1]);
        SCOPED_TRACE(std::to_string(c.width) + " x " + std::to_string(c.height));
        const outcome got = run(c);
        double *wanted[GS_LPIPS_LEVELS], result[1 + GS_LPIPS_LEVELS];
        reference_lpips(gs_lpips_architecture_of(c.network), invented_weights(c.network).data(),
                        c.pair.data(), c.width, c.height, wanted, result);
        for (size_t l = 0; l < GS_LPIPS_LEVELS; l++) {
            double error = 0, norm = 0;
            for (size_t i = 0; i < got.activations[l].size(); i++) {
                error += std::pow(double(got.activations[l][i]) - wanted[l][i], 2);
                norm += std::pow(wanted[l][i], 2);
            }
            EXPECT_GT(norm, 0);
            EXPECT_LE(std::sqrt(error / norm), 1e-6) << "level " << l + 1;
            free(wanted[l]);
        }
        for (size_t l = 0; l <= GS_LPIPS_LEVELS; l++)
            EXPECT_NEAR(got.result[l], result[l], 1e-5 * result[l]) << l;
        if (c.width > 32) continue;
        EXPECT_EQ(run(c, false).result, got.result) << "without kept activations";
    }
}

constexpr double none =
    1e-12; // a GPU contracts the difference of two equal products, which leaves their rounding

TEST(Lpips, OfEqualPicturesIsZero) {
    Case c(GS_LPIPS_ALEX, 33, 40);
    std::copy_n(c.pair.begin(), 3 * c.pixels(), c.pair.begin() + ptrdiff_t(3 * c.pixels()));
    for (const double value : run(c, false).result) EXPECT_NEAR(value, 0, none);
}

// Colours that a file of 8 bits shows as the photograph's; half a step and a little more is another colour.
TEST(Lpips, TakesTheColoursThatAFileHas) {
    Case c(GS_LPIPS_ALEX, 32, 32);
    uint8_t *const target = c.pair.data() + 3 * c.pixels();
    for (size_t i = 0; i < 3 * c.pixels(); i++) {
        const int value = i % 5 == 0 ? 255 : i % 5 == 1 ? 0 : target[i];
        const float off = value == 255 ? 900 : value == 0 ? -900 : i % 2 == 0 ? 0.49f : -0.49f;
        target[i] = uint8_t(value);
        c.color[i % 3 * c.pixels() + i / 3] = value == 0 && i % 10 == 1 ? NAN : (float(value) + off) / 255.0f;
    }
    EXPECT_NEAR(run(c, false).result[0], 0, none);
    c.color[2 * c.pixels()] += 0.02f / 255.0f; // value 2 of the picture, 0.49 steps above the photograph's
    EXPECT_GT(run(c, false).result[0], 100 * none);
}

TEST(Lpips, PixelsThatDoNotCountAreThePhotographs) {
    Case masked(GS_LPIPS_ALEX, 64, 48), replaced = masked;
    masked.mask.resize(masked.pixels());
    for (size_t i = 0; i < masked.pixels(); i++) {
        masked.mask[i] = i % 64 < 20 ? uint8_t(1 + i % 255) : 0;
        for (size_t c = 0; c < 3 && masked.mask[i] == 0; c++)
            replaced.color[c * masked.pixels() + i] = float(masked.target()[3 * i + c]) / 255.0f;
    }
    const std::vector<double> got = run(masked, false).result;
    EXPECT_EQ(got, run(replaced, false).result);
    EXPECT_GT(got[0], 0);
}

TEST(Lpips, RefusesWhatItCannotMeasure) {
    const auto expect_refusal = [](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT);
        EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos) << gs_last_error();
    };
    size_t bytes = 0;
    expect_refusal(gs_lpips_bytes(GS_LPIPS_ALEX, 31, 32, &bytes), "width and height must be 32 or more");
    expect_refusal(gs_lpips_bytes(GS_LPIPS_ALEX, 32, 31, &bytes), "width and height must be 32 or more");
    expect_refusal(gs_lpips_bytes(GS_LPIPS_VGG, 32, 16385, &bytes), "width and height must be in 1..16384");
    expect_refusal(gs_lpips_bytes(GS_LPIPS_NETWORKS, 32, 32, &bytes),
                   "network must be one of gs_lpips_network");
    expect_refusal(gs_lpips_bytes(GS_LPIPS_ALEX, 32, 32, nullptr), "bytes must be given");
    EXPECT_EQ(gs_lpips_architecture_of(GS_LPIPS_NETWORKS), nullptr);
    EXPECT_EQ(gs_lpips_weight_count(GS_LPIPS_NETWORKS), 0u);

    const device_vector<float> some(3 * 32 * 32);
    const device_vector<uint8_t> target(3 * 32 * 32);
    ASSERT_EQ(gs_lpips_bytes(GS_LPIPS_ALEX, 32, 32, &bytes), GS_OK);
    const device_vector<uint8_t> workspace(bytes);
    const device_vector<double> result(1 + GS_LPIPS_LEVELS);
    gs_lpips_comparison compared = {};
    compared.images = {32, 32, some.data(), target.data(), nullptr};
    const auto call = [&](size_t room) {
        return gs_lpips(&compared, workspace.data(), room, result.data(), nullptr);
    };
    expect_refusal(call(bytes), "weights and result must be given");
    compared.weights = some.data();
    expect_refusal(call(bytes - 1), "the workspace is NULL or smaller");
    compared.images.color = nullptr;
    expect_refusal(call(bytes), "color and target must be given");
    expect_refusal(gs_lpips(nullptr, workspace.data(), bytes, result.data(), nullptr),
                   "compared must be given");
}

} // namespace lpips_test
