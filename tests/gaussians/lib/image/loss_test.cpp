// SPDX-License-Identifier: MIT
// gs_loss against the double-precision reference, and what must hold without one.
#include "filled_context.h"

#include <distwar_gs.h>
#include <reference.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <math.h>
#include <random>
#include <string>

namespace {

struct picture {
    int width, height;
    std::vector<float> color;    // [3][height][width]
    std::vector<uint8_t> target; // [height][width][3]
    std::vector<uint8_t> mask;   // [height][width], or empty

    picture(int width, int height)
        : width(width), height(height), color(size_t(3) * width * height), target(color.size()) {}
    float target_at(int channel, int pixel) const { return float(target[3 * pixel + channel]) / 255.0f; }
};

struct outcome {
    gs_status status;
    std::vector<double> result;
    std::vector<float> gradient;
};

// Outputs and the memory of the context hold NaN beforehand: nothing may be added to what stands there. shift: bytes by which
// the target is out of alignment.
outcome run(const picture &p, bool want_gradient = true, size_t shift = 0) {
    std::vector<uint8_t> shifted(shift, 0);
    shifted.insert(shifted.end(), p.target.begin(), p.target.end());
    const device_vector<uint8_t> target(shifted);
    const device_vector<float> color(p.color), gradient(std::vector<float>(p.color.size(), NAN));
    const device_vector<double> result(std::vector<double>(3, NAN));
    const device_vector<uint8_t> mask(p.mask);
    const gs_loss_image image = {
        {p.width, p.height, color.data(), target.data() + shift, p.mask.empty() ? nullptr : mask.data()},
        result.data(),
        want_gradient ? gradient.data() : nullptr};
    const gs_status status = gs_loss(&image, 1, filled_context());
    return {status, result.read(), gradient.read()};
}

struct kind {
    const char *name;
    std::function<void(picture &, std::mt19937 &)> fill;
    double gradient_tolerance = 1e-5;
};

float uniform(std::mt19937 &random, float low, float high) {
    return low + (high - low) * float(random() >> 8) * 0x1p-24f;
}

const kind kinds[] = {
    {"noise",
     [](picture &p, std::mt19937 &random) {
         for (float &c : p.color) c = uniform(random, 0, 1);
         for (uint8_t &t : p.target) t = uint8_t(random());
     }},
    {"constant bright",
     [](picture &p, std::mt19937 &) {
         for (float &c : p.color) c = 0.97f;
         for (uint8_t &t : p.target) t = 240;
     }},
    {"constant gray", // of all images the one whose rounding errors SSIM magnifies most: flat, yet far apart
     [](picture &p, std::mt19937 &) {
         for (float &c : p.color) c = 0.9f;
         for (uint8_t &t : p.target) t = 128;
     },
     3e-5},
    {"black on white",
     [](picture &p, std::mt19937 &) {
         for (float &c : p.color) c = 0;
         for (uint8_t &t : p.target) t = 255;
     }},
    {"flat with a little noise", // where SSIM is worst conditioned
     [](picture &p, std::mt19937 &random) {
         for (float &c : p.color) c = 0.9f + uniform(random, -0.01f, 0.01f);
         for (uint8_t &t : p.target) t = uint8_t(228 + random() % 4);
     }},
    {"gradient and edge, nearly trained",
     [](picture &p, std::mt19937 &random) {
         for (int i = 0; i < p.width * p.height; i++)
             for (int channel = 0; channel < 3; channel++) {
                 const int x = i % p.width, y = i / p.width;
                 p.target[3 * i + channel] = uint8_t(x > 20 + channel ? 250 - y % 50 : 3 * x + y % 90);
                 p.color[channel * p.width * p.height + i] =
                     p.target_at(channel, i) + uniform(random, -0.02f, 0.02f);
             }
     }},
    {"far outside 0..1",
     [](picture &p, std::mt19937 &random) {
         for (float &c : p.color) c = uniform(random, -20, 30);
         for (uint8_t &t : p.target) t = uint8_t(random());
     }},
};

const int sizes[][2] = {{1, 1}, {5, 3}, {16, 16}, {33, 50}, {32, 64}, {70, 9}, {1, 40}};

TEST(Loss, AgreesWithTheReference) {
    std::mt19937 random(1);
    for (const kind &k : kinds)
        for (const auto &size : sizes) {
            SCOPED_TRACE(std::string(k.name) + ", " + std::to_string(size[0]) + "x" +
                         std::to_string(size[1]));
            picture p(size[0], size[1]);
            k.fill(p, random);
            const outcome out = run(p);
            ASSERT_EQ(out.status, GS_OK) << gs_last_error();

            const int pixels = p.width * p.height;
            const std::vector<double> color(p.color.begin(), p.color.end());
            std::vector<signed char> sign(color.size());
            for (int channel = 0; channel < 3; channel++)
                for (int i = 0; i < pixels; i++) {
                    const float c = p.color[channel * pixels + i], t = p.target_at(channel, i);
                    sign[channel * pixels + i] = (signed char)((c > t) - (c < t));
                }
            reference_loss_value value;
            std::vector<double> gradient(color.size());
            reference_loss(color.data(), p.target.data(), p.width, p.height, sign.data(), nullptr, &value,
                           gradient.data());

            // 1e-7: the images' own values, near 1, are rounded by as much.
            EXPECT_LE(fabs(out.result[0] - value.loss), 1e-6 * value.loss + 1e-7);
            EXPECT_LE(fabs(out.result[1] - value.l1), 1e-6 * value.l1 + 1e-7);
            EXPECT_LE(fabs(out.result[2] - value.ssim), 1e-6 * fabs(value.ssim) + 1e-7);
            double difference = 0, norm = 0;
            for (size_t i = 0; i < color.size(); i++) {
                difference += pow(out.gradient[i] - gradient[i], 2);
                norm += pow(gradient[i], 2);
            }
            EXPECT_LE(sqrt(difference), k.gradient_tolerance * sqrt(norm));
        }
}

// Pixels, blocks larger than the window, single ones that count inside a block, and borders.
std::vector<uint8_t> some_mask(int width, int height) {
    std::vector<uint8_t> mask(size_t(width * height), 1);
    for (int i = 0; i < width * height; i++) {
        const int x = i % width, y = i / width;
        if ((x > 3 && x < 30 && y > 8 && y < 40 && (x % 9 || y % 8)) || (x * 5 + y * 3) % 13 == 0)
            mask[size_t(i)] = 0;
    }
    return mask;
}

TEST(MaskedLoss, AgreesWithTheReference) {
    std::mt19937 random(6);
    for (const kind &k : kinds)
        for (const auto &size : sizes) {
            SCOPED_TRACE(std::string(k.name) + ", " + std::to_string(size[0]) + "x" +
                         std::to_string(size[1]));
            picture p(size[0], size[1]);
            k.fill(p, random);
            p.mask = some_mask(p.width, p.height);
            const outcome out = run(p);
            ASSERT_EQ(out.status, GS_OK) << gs_last_error();
            const std::vector<double> color(p.color.begin(), p.color.end());
            const size_t pixels = p.mask.size();
            std::vector<signed char> sign(color.size());
            for (size_t i = 0; i < color.size(); i++) {
                const float c = p.color[i], t = p.target_at(int(i / pixels), int(i % pixels));
                sign[i] = (signed char)((c > t) - (c < t));
            }
            reference_loss_value value;
            std::vector<double> gradient(color.size());
            reference_masked_loss(color.data(), p.target.data(), p.mask.data(), p.width, p.height,
                                  sign.data(), nullptr, &value, gradient.data());
            EXPECT_LE(fabs(out.result[0] - value.loss), 1e-6 * value.loss + 2e-7);
            EXPECT_LE(fabs(out.result[1] - value.l1), 1e-6 * value.l1 + 1e-7);
            EXPECT_LE(fabs(out.result[2] - value.ssim), 1e-6 * fabs(value.ssim) + 5e-7);
            double difference = 0, norm = 0;
            for (size_t i = 0; i < color.size(); i++) {
                difference += pow(out.gradient[i] - gradient[i], 2);
                norm += pow(gradient[i], 2);
                if (!p.mask[i % pixels]) {
                    EXPECT_EQ(out.gradient[i], 0) << i;
                }
            }
            EXPECT_LE(sqrt(difference), std::max(k.gradient_tolerance, 3e-5) * sqrt(norm));
        }
}

TEST(MaskedLoss, WhatDoesNotCountMayBeAnything) {
    std::mt19937 random(7);
    picture p(70, 50);
    kinds[0].fill(p, random);
    p.mask = some_mask(p.width, p.height);
    const outcome out = run(p);
    const size_t pixels = p.mask.size();
    for (size_t i = 0; i < p.color.size(); i++)
        if (!p.mask[i % pixels]) p.color[i] = NAN;
    for (size_t i = 0; i < p.target.size(); i++)
        if (!p.mask[i / 3]) p.target[i] ^= 0xFF;
    const outcome other = run(p);
    EXPECT_EQ(out.result, other.result);
    EXPECT_EQ(out.gradient, other.gradient);
}

TEST(MaskedLoss, OfAllIsTheLossAndOfNothingIsNothing) {
    std::mt19937 random(8);
    picture p(33, 50);
    kinds[0].fill(p, random);
    const outcome plain = run(p);
    p.mask.assign(size_t(33 * 50), 255);
    const outcome all = run(p);
    for (int k = 0; k < 3; k++) EXPECT_NEAR(all.result[size_t(k)], plain.result[size_t(k)], 1e-7);
    p.mask.assign(size_t(33 * 50), 0);
    const outcome none = run(p);
    EXPECT_EQ(none.result, (std::vector<double>{0, 0, 1}));
    for (const float g : none.gradient) ASSERT_EQ(g, 0);
}

TEST(Loss, VanishesWhereImagesAreEqual) {
    std::mt19937 random(2);
    for (const auto &size : sizes) {
        picture p(size[0], size[1]);
        for (uint8_t &t : p.target) t = uint8_t(random());
        const int pixels = p.width * p.height;
        for (int channel = 0; channel < 3; channel++)
            for (int i = 0; i < pixels; i++) p.color[channel * pixels + i] = p.target_at(channel, i);
        const outcome out = run(p);
        ASSERT_EQ(out.status, GS_OK) << gs_last_error();
        EXPECT_LE(fabs(out.result[0]), 1e-6);
        EXPECT_EQ(out.result[1], 0); // exactly: so the slope of L1 is 0 as well
        EXPECT_LE(fabs(out.result[2] - 1), 1e-6);
        // A value's L1 slope alone would be 0.8 / n.
        for (const float g : out.gradient) ASSERT_LE(fabs(g) * float(3 * pixels), 1e-4f);
    }
}

TEST(Loss, ValueAloneIsTheSame) {
    std::mt19937 random(3);
    picture p(33, 50);
    kinds[0].fill(p, random);
    const outcome both = run(p), value = run(p, false);
    ASSERT_EQ(value.status, GS_OK) << gs_last_error();
    // Sums are taken in one order, but where no derivative is wanted a compiler may round a pixel's floats in
    // another way: on an H200 the means differ by 3e-11.
    for (int i = 0; i < 3; i++) EXPECT_LE(fabs(value.result[i] - both.result[i]), 1e-9);
    for (const float g : value.gradient) ASSERT_TRUE(isnan(g)) << "written without being asked for";
}

TEST(Loss, TargetNeedsNoAlignment) {
    std::mt19937 random(4);
    picture p(19, 23);
    kinds[0].fill(p, random);
    const outcome aligned = run(p);
    for (size_t shift = 1; shift < 4; shift++) {
        const outcome shifted = run(p, true, shift);
        ASSERT_EQ(shifted.status, GS_OK) << gs_last_error();
        EXPECT_EQ(shifted.gradient, aligned.gradient) << shift;
    }
}

TEST(Loss, NaNShowsAndStaysNear) {
    std::mt19937 random(5);
    picture p(50, 40);
    kinds[0].fill(p, random);
    const outcome clean = run(p);
    for (const float poison : {NAN, INFINITY}) {
        const int at_x = 20, at_y = 17, channel = 1;
        picture bad = p;
        bad.color[(channel * p.height + at_y) * p.width + at_x] = poison;
        const outcome out = run(bad);
        ASSERT_EQ(out.status, GS_OK) << gs_last_error();
        EXPECT_FALSE(isfinite(out.result[0]));
        EXPECT_FALSE(isfinite(out.result[1]));
        EXPECT_TRUE(isnan(out.result[2]));
        for (int i = 0; i < int(p.color.size()); i++) {
            const int x = i % p.width, y = i / p.width % p.height;
            const int distance = std::max(abs(x - at_x), abs(y - at_y)); // the window reaches 5, twice
            if (i / (p.width * p.height) == channel && distance <= 10)
                ASSERT_TRUE(isnan(out.gradient[i])) << x << ", " << y;
            else
                ASSERT_EQ(out.gradient[i], clean.gradient[i]) << x << ", " << y;
        }
    }
}

TEST(Loss, RefusesBadArguments) {
    const picture p(8, 8);
    const device_vector<float> color(p.color), gradient(p.color.size());
    const device_vector<uint8_t> target(p.target);
    const device_vector<double> result(3);
    const auto loss = [&](const float *c, const uint8_t *t, int w, int h, double *r) {
        const gs_loss_image image = {{w, h, c, t, nullptr}, r, gradient.data()};
        return gs_loss(&image, 1, nullptr);
    };
    const float *c = color.data();
    const uint8_t *t = target.data();
    double *const r = result.data();
    EXPECT_EQ(loss(c, t, 8, 8, r), GS_OK);
    EXPECT_EQ(loss(nullptr, t, 8, 8, r), GS_INVALID_ARGUMENT);
    EXPECT_EQ(loss(c, nullptr, 8, 8, r), GS_INVALID_ARGUMENT);
    EXPECT_EQ(loss(c, t, 0, 8, r), GS_INVALID_ARGUMENT);
    EXPECT_EQ(loss(c, t, 8, -1, r), GS_INVALID_ARGUMENT);
    EXPECT_EQ(loss(c, t, GS_MAX_SIZE + 1, 8, r), GS_INVALID_ARGUMENT);
    EXPECT_EQ(loss(c, t, 8, std::numeric_limits<int>::max(), r), GS_INVALID_ARGUMENT);
    EXPECT_EQ(loss(c, t, 8, 8, nullptr), GS_INVALID_ARGUMENT);
}

// Of some pictures, each with a gradient or not.
struct batch {
    std::deque<device_vector<float>> color, gradient;
    std::deque<device_vector<uint8_t>> target, mask;
    std::deque<device_vector<double>> result;
    std::vector<gs_loss_image> images;

    batch(const std::vector<picture> &pictures, const std::vector<bool> &with_gradient) {
        for (size_t i = 0; i < pictures.size(); i++) {
            const picture &p = pictures[i];
            color.emplace_back(p.color), target.emplace_back(p.target), mask.emplace_back(p.mask);
            gradient.emplace_back(std::vector<float>(p.color.size(), NAN));
            result.emplace_back(std::vector<double>(3, NAN));
            images.push_back({{p.width, p.height, color[i].data(), target[i].data(),
                               p.mask.empty() ? nullptr : mask[i].data()},
                              result[i].data(),
                              with_gradient[i] ? gradient[i].data() : nullptr});
        }
    }
};

gs_status run(const batch &of) {
    const int32_t count = int32_t(of.images.size());
    return gs_loss(of.images.data(), count, filled_context());
}

void expect_those_of_one_each(int width, int height, const std::vector<bool> &masked,
                              const std::vector<bool> &with_gradient) {
    std::mt19937 random(3);
    std::vector<picture> pictures;
    for (const bool has_mask : masked) {
        picture p(width, height);
        kinds[0].fill(p, random);
        if (has_mask)
            for (int i = 0; i < width * height; i++) p.mask.push_back(random() % 3 > 0);
        pictures.push_back(p);
    }
    const batch all(pictures, with_gradient);
    ASSERT_EQ(run(all), GS_OK) << gs_last_error();
    for (size_t i = 0; i < pictures.size(); i++) {
        const outcome one = run(pictures[i]);
        ASSERT_EQ(all.result[i].read(), one.result) << "image " << i;
        if (with_gradient[i]) {
            ASSERT_EQ(all.gradient[i].read(), one.gradient) << "image " << i;
        } else {
            ASSERT_TRUE(isnan(all.gradient[i].read()[0])) << "image " << i;
        }
    }
}

TEST(Losses, HaveTheBitsOfOneEach) {
    expect_those_of_one_each(70, 45, {false, false, false, false}, {true, true, true, true});
    expect_those_of_one_each(70, 45, {true, true, true}, {true, true, true});
    expect_those_of_one_each(33, 20, {false, true, true, false, false, false},
                             {true, true, false, false, true, true});
    expect_those_of_one_each(9, 11, std::vector<bool>(GS_MAX_VIEWS, false),
                             std::vector<bool>(GS_MAX_VIEWS, true));
}

TEST(Losses, MayNotAllFitIntoALaunch) {
    expect_those_of_one_each(1400, 500, std::vector<bool>(3, false), std::vector<bool>(3, true)); // 2 and 1
}

TEST(Losses, RefuseBadArguments) {
    const std::vector<picture> two(2, picture(8, 8));
    const auto status = [&](const std::function<void(batch &)> &change) {
        batch of(two, {true, true});
        change(of);
        return run(of);
    };
    EXPECT_EQ(status([](batch &) {}), GS_OK);
    EXPECT_EQ(status([](batch &of) { of.images[1].images.color = nullptr; }), GS_INVALID_ARGUMENT);
    EXPECT_EQ(status([](batch &of) { of.images[1].result = nullptr; }), GS_INVALID_ARGUMENT);
    EXPECT_EQ(status([](batch &of) { of.images[1].images.height = 7; }), GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("same size"), std::string::npos) << gs_last_error();
    const batch of(two, {true, true});
    EXPECT_EQ(gs_loss(of.images.data(), 0, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_loss(of.images.data(), GS_MAX_VIEWS + 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_loss(nullptr, 2, nullptr), GS_INVALID_ARGUMENT);
}

} // namespace
