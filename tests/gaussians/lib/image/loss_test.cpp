// SPDX-License-Identifier: MIT
// gs_loss, of colours, gains and depths, and gs_ssim against the double-precision reference, and what must hold without
// one. gs_exposure_step against its formula.
#include "filled_context.h"
#include "kernel_frame.h"
#include "rows.h"

#include <algorithm>
#include <deque>
#include <math.h>
#include <random>

namespace {

struct picture {
    int width, height;
    std::vector<float> color;               // [3][height][width]
    std::vector<uint8_t> target;            // [height][width][3]
    std::vector<uint8_t> mask;              // [height][width], or empty
    std::vector<float> log_gain;            // or empty
    std::vector<float> depth, depth_target; // [height][width], or empty
    float depth_weight = 0;

    picture(int width, int height)
        : width(width), height(height), color(size_t(3) * width * height), target(color.size()) {}
    size_t pixels() const { return size_t(width) * size_t(height); }
    float target_at(size_t channel, size_t pixel) const {
        return float(target[3 * pixel + channel]) / 255.0f;
    }
};

template <typename T>
T *pointer_of(const device_vector<T> &of, bool wanted = true) {
    return wanted ? of.data() : nullptr;
}

// A picture on the device. Outputs hold NaN beforehand: nothing may be added to what stands there. shift: bytes by which the
// target is out of alignment.
struct loss_of_picture {
    device_vector<float> color, log_gain, depth, depth_target;
    device_vector<uint8_t> target, mask;
    device_vector<double> result{std::vector<double>(3, NAN)}, depth_result{std::vector<double>(1, NAN)};
    device_vector<float> gradient, gain_sums{std::vector<float>(GS_EXPOSURE_SUMS, NAN)}, depth_gradient;
    gs_loss_image image;

    explicit loss_of_picture(const picture &p, bool want_gradient = true, size_t shift = 0)
        : color(p.color), log_gain(p.log_gain), depth(p.depth), depth_target(p.depth_target),
          target(shifted(p.target, shift)), mask(p.mask), gradient(std::vector<float>(p.color.size(), NAN)),
          depth_gradient(std::vector<float>(p.pixels(), NAN)),
          image({{p.width, p.height, color.data(), target.data() + shift, pointer_of(mask, !p.mask.empty())},
                 result.data(),
                 pointer_of(gradient, want_gradient),
                 pointer_of(log_gain, !p.log_gain.empty()),
                 gain_sums.data(),
                 pointer_of(depth, !p.depth.empty()),
                 pointer_of(depth_target, !p.depth.empty()),
                 depth_result.data(),
                 pointer_of(depth_gradient, want_gradient),
                 p.depth_weight}) {}
    static std::vector<uint8_t> shifted(const std::vector<uint8_t> &values, size_t shift) {
        std::vector<uint8_t> out(shift, 0);
        out.insert(out.end(), values.begin(), values.end());
        return out;
    }
};

struct outcome {
    std::vector<double> result;
    std::vector<float> gradient, gain_sums;
    double depth_result;
    std::vector<float> depth_gradient;
};

outcome read(const loss_of_picture &of) {
    return {of.result.read(), of.gradient.read(), of.gain_sums.read(), of.depth_result.read()[0],
            of.depth_gradient.read()};
}

outcome run(const picture &p, bool want_gradient = true, size_t shift = 0) {
    const loss_of_picture of(p, want_gradient, shift);
    EXPECT_GS_OK(gs_loss(&of.image, 1, filled_context()));
    return read(of);
}

struct expectation {
    reference_loss_value value;
    std::vector<double> gradient; // by the colours that are compared
};

// held: the signs of `color` - target.
expectation expected(const picture &p, const std::vector<double> &color,
                     const std::vector<signed char> &held) {
    expectation out = {{}, std::vector<double>(color.size())};
    reference_loss(color.data(), p.target.data(), p.mask.empty() ? nullptr : p.mask.data(), p.width, p.height,
                   held.data(), nullptr, &out.value, out.gradient.data());
    return out;
}

// Of floats, as the kernel sees them.
std::vector<signed char> signs_of(const picture &p, const std::vector<float> &color) {
    std::vector<signed char> out(color.size());
    for (size_t i = 0; i < color.size(); i++) {
        const float t = p.target_at(i / p.pixels(), i % p.pixels());
        out[i] = (signed char)((color[i] > t) - (color[i] < t));
    }
    return out;
}

float uniform(std::mt19937 &random, float low, float high) {
    return low + (high - low) * float(random() >> 8) * 0x1p-24f;
}

std::vector<float> uniform_values(std::mt19937 &random, size_t count, float low, float high) {
    std::vector<float> out(count);
    for (float &value : out) value = uniform(random, low, high);
    return out;
}

// What is rendered at a place, and what should be there: anything of these ranges, `edge` beside a picture of an edge.
struct kind {
    const char *name;
    float color[2], target[2];
    bool edge = false;
    double gradient_tolerance = 1e-5, of_planes = 1e-5; // of_planes: of gs_ssim
};
struct value_pair {
    float color, target;
};

const kind kinds[] = {
    {"noise", {0, 1}, {0, 1}},
    {"gradient and edge, nearly trained", {-0.02f, 0.02f}, {0, 0}, true},
    {"constant bright", {0.97f, 0.97f}, {240 / 255.0f, 240 / 255.0f}, false, 1e-5, 3e-4},
    // Of all images the one whose rounding errors SSIM magnifies most: flat, yet far apart. A sum of terms that are 600
    // times as large.
    {"constant gray", {0.9f, 0.9f}, {128 / 255.0f, 128 / 255.0f}, false, 3e-5, 3e-4},
    {"black on white", {0, 0}, {1, 1}, false, 1e-5, 3e-4},
    {"flat with a little noise", {0.89f, 0.91f}, {0.894f, 0.906f}}, // where SSIM is worst conditioned
    {"far outside 0..1", {-20, 30}, {0, 1}},
};

value_pair value_at(const kind &k, int x, int y, int channel, std::mt19937 &random) {
    const float edge = float(x > 20 + channel ? 250 - y % 50 : 3 * x + y % 90) / 255.0f;
    const float color = uniform(random, k.color[0], k.color[1]),
                target = uniform(random, k.target[0], k.target[1]);
    return k.edge ? value_pair{edge + color, edge} : value_pair{color, target};
}

picture picture_of(const kind &k, int width, int height, std::mt19937 &random) {
    picture p(width, height);
    for (size_t i = 0; i < p.color.size(); i++) {
        const size_t pixel = i % p.pixels(), channel = i / p.pixels();
        const value_pair at = value_at(k, int(pixel) % width, int(pixel) / width, int(channel), random);
        p.color[i] = at.color, p.target[3 * pixel + channel] = uint8_t(255 * at.target + 0.5f);
    }
    return p;
}

picture noise(int width, int height, uint32_t seed) {
    std::mt19937 random(seed);
    return picture_of(kinds[0], width, height, random);
}

// Depths of 0..1; of the targets some are unknown, some equal.
picture with_depths(int width, int height, uint32_t seed) {
    picture p = noise(width, height, seed);
    std::mt19937 random(seed);
    p.depth = p.depth_target = uniform_values(random, p.pixels(), 0, 1);
    for (float &target : p.depth_target)
        if (random() % 8 != 0) target = random() % 9 == 0 ? NAN : uniform(random, 0, 1);
    p.depth_weight = 1;
    return p;
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

const int sizes[][2] = {{1, 1}, {5, 3}, {16, 16}, {33, 50}, {32, 64}, {70, 9}, {1, 40}};

TEST(Loss, AgreesWithTheReference) {
    std::mt19937 random(1);
    for (const kind &k : kinds)
        for (const auto &size : sizes)
            for (const bool masked : {false, true}) {
                SCOPED_TRACE(testing::Message()
                             << k.name << ", " << size[0] << " x " << size[1] << (masked ? ", masked" : ""));
                picture p = picture_of(k, size[0], size[1], random);
                if (masked) p.mask = some_mask(p.width, p.height);
                const outcome out = run(p);
                const expectation wanted = expected(p, doubles(p.color), signs_of(p, p.color));
                // 1e-7: the images' own values, near 1, are rounded by as much.
                const reference_loss_value &value = wanted.value;
                EXPECT_LE(fabs(out.result[0] - value.loss), 1e-6 * value.loss + (masked ? 2e-7 : 1e-7));
                EXPECT_LE(fabs(out.result[1] - value.l1), 1e-6 * value.l1 + 1e-7);
                EXPECT_LE(fabs(out.result[2] - value.ssim), 1e-6 * fabs(value.ssim) + (masked ? 5e-7 : 1e-7));
                EXPECT_LE(relative_norm(doubles(out.gradient), wanted.gradient),
                          std::max(k.gradient_tolerance, masked ? 3e-5 : 0));
                for (size_t i = 0; masked && i < out.gradient.size(); i++)
                    ASSERT_TRUE(p.mask[i % p.pixels()] || out.gradient[i] == 0) << i;
            }
}

TEST(Loss, WhatTheMaskLeavesOutMayBeAnything) {
    picture p = noise(70, 50, 7);
    p.mask = some_mask(p.width, p.height);
    const outcome out = run(p);
    for (size_t i = 0; i < p.color.size(); i++)
        if (!p.mask[i % p.pixels()]) p.color[i] = NAN;
    for (size_t i = 0; i < p.target.size(); i++)
        if (!p.mask[i / 3]) p.target[i] ^= 0xFF;
    const outcome other = run(p);
    EXPECT_EQ(out.result, other.result);
    EXPECT_EQ(out.gradient, other.gradient);
}

TEST(Loss, AMaskOfAllIsNoneAndOfNothingIsNothing) {
    picture p = with_depths(33, 50, 8);
    const outcome plain = run(p);
    p.mask.assign(p.pixels(), 255);
    const outcome all = run(p);
    for (size_t k = 0; k < 3; k++) EXPECT_NEAR(all.result[k], plain.result[k], 1e-7);
    p.mask.assign(p.pixels(), 0);
    const outcome none = run(p);
    EXPECT_EQ(none.result, (std::vector<double>{0, 0, 1}));
    EXPECT_EQ(none.gradient, std::vector<float>(p.color.size()));
    EXPECT_EQ(none.depth_result, 0);
    EXPECT_EQ(none.depth_gradient, std::vector<float>(p.pixels()));
}

TEST(Loss, VanishesWhereImagesAreEqual) {
    std::mt19937 random(2);
    for (const auto &size : sizes) {
        picture p(size[0], size[1]);
        for (uint8_t &t : p.target) t = uint8_t(random());
        for (size_t i = 0; i < p.color.size(); i++) p.color[i] = p.target_at(i / p.pixels(), i % p.pixels());
        const outcome out = run(p);
        EXPECT_LE(fabs(out.result[0]), 1e-6);
        EXPECT_EQ(out.result[1], 0); // exactly: so the slope of L1 is 0 as well
        EXPECT_LE(fabs(out.result[2] - 1), 1e-6);
        // A value's L1 slope alone would be 0.8 / n.
        for (const float g : out.gradient) ASSERT_LE(fabs(g) * float(p.color.size()), 1e-4f);
    }
}

TEST(Loss, ValueAloneIsTheSame) {
    picture p = noise(33, 50, 3);
    p.depth = p.depth_target = std::vector<float>(p.pixels(), 0.5f);
    p.depth[7] = 2;
    const outcome both = run(p), value = run(p, false);
    // Sums are taken in one order, but where no derivative is wanted a compiler may round a pixel's floats in
    // another way: on an H200 the means differ by 3e-11.
    for (size_t i = 0; i < 3; i++) EXPECT_LE(fabs(value.result[i] - both.result[i]), 1e-9);
    EXPECT_EQ(value.depth_result, both.depth_result);
    for (const float g : value.gradient) ASSERT_TRUE(isnan(g)) << "written without being asked for";
    for (const float g : value.depth_gradient) ASSERT_TRUE(isnan(g)) << "written without being asked for";
}

TEST(Loss, TargetNeedsNoAlignment) {
    const picture p = noise(19, 23, 4);
    const outcome aligned = run(p);
    for (size_t shift = 1; shift < 4; shift++)
        EXPECT_EQ(run(p, true, shift).gradient, aligned.gradient) << shift;
}

// Whether a pixel of the planes is so near to one of them that its windows, which reach 5 twice, see it.
bool sees(size_t i, size_t of, int width, int height) {
    const int pixels = width * height, a = int(i) % pixels, b = int(of) % pixels;
    return int(i) / pixels == int(of) / pixels &&
           std::max(abs(a % width - b % width), abs(a / width - b / width)) <= 10;
}

TEST(Loss, NaNShowsAndStaysNear) {
    const picture p = noise(50, 40, 5);
    const outcome clean = run(p);
    for (const float poison : {NAN, INFINITY}) {
        picture bad = p;
        const size_t at = p.pixels() + 17 * 50 + 20; // channel 1
        bad.color[at] = poison;
        const outcome out = run(bad);
        EXPECT_FALSE(isfinite(out.result[0]));
        EXPECT_FALSE(isfinite(out.result[1]));
        EXPECT_TRUE(isnan(out.result[2]));
        for (size_t i = 0; i < p.color.size(); i++)
            if (sees(i, at, p.width, p.height)) {
                ASSERT_TRUE(isnan(out.gradient[i])) << i;
            } else {
                ASSERT_EQ(out.gradient[i], clean.gradient[i]) << i;
            }
    }
}

// Several images have the bits of one each, whatever each has beside its colours.
TEST(Loss, OfSeveralImagesHasTheBitsOfOneEach) {
    enum what { MASK = 1, GRADIENT = 2, GAIN = 4, DEPTH = 8, ONLY_DEPTH = 16 };
    const struct {
        int width, height;
        std::vector<int> each;
    } cases[] = {
        {70, 45, {GRADIENT, GRADIENT, GRADIENT, GRADIENT}},
        {70, 45, {MASK | GRADIENT, MASK | GRADIENT, MASK | GRADIENT}},
        {33, 20, {GRADIENT, MASK | GRADIENT, MASK, 0, GRADIENT, GRADIENT}},
        {33,
         20,
         {GRADIENT | GAIN, GRADIENT, GAIN, GRADIENT | GAIN | DEPTH, DEPTH | ONLY_DEPTH | GRADIENT, MASK}},
        {33, 20, {DEPTH | ONLY_DEPTH, MASK | DEPTH | ONLY_DEPTH}},
        {9, 11, std::vector<int>(GS_MAX_VIEWS, GRADIENT)},
#ifndef DISTWAR_SANITIZE                             // the same kernels
        {1400, 500, {GRADIENT, GRADIENT, GRADIENT}}, // too large for one launch: 2 and 1
#endif
    };
    for (const auto &one : cases) {
        SCOPED_TRACE(testing::Message() << one.width << " x " << one.height << ", " << one.each.size());
        std::mt19937 random(3);
        std::deque<loss_of_picture> all, alone;
        std::vector<gs_loss_image> images;
        for (const int has : one.each) {
            picture p = picture_of(kinds[0], one.width, one.height, random);
            for (size_t i = 0; has & MASK && i < p.pixels(); i++) p.mask.push_back(random() % 3 > 0);
            if (has & GAIN) p.log_gain = uniform_values(random, GS_EXPOSURE_VALUES, -0.5f, 0.5f);
            if (has & DEPTH) {
                p.depth = uniform_values(random, p.pixels(), 0, 1), p.depth_weight = 2;
                p.depth_target = uniform_values(random, p.pixels(), 0, 1);
            }
            all.emplace_back(p, has & GRADIENT), alone.emplace_back(p, has & GRADIENT);
            if (has & ONLY_DEPTH) all.back().image.images.color = alone.back().image.images.color = nullptr;
            images.push_back(all.back().image);
            EXPECT_GS_OK(gs_loss(&alone.back().image, 1, filled_context()));
        }
        ASSERT_GS_OK(gs_loss(images.data(), int32_t(images.size()), filled_context()));
        for (size_t i = 0; i < all.size(); i++) {
            const outcome got = read(all[i]), wanted = read(alone[i]);
            const auto expect_same = [&](const auto &a, const auto &b) {
                ASSERT_EQ(a.size(), b.size());
                EXPECT_EQ(memcmp(a.data(), b.data(), a.size() * sizeof a[0]), 0) << "image " << i;
            };
            expect_same(got.result, wanted.result), expect_same(got.gradient, wanted.gradient);
            expect_same(got.gain_sums, wanted.gain_sums);
            expect_same(got.depth_gradient, wanted.depth_gradient);
            expect_same(std::vector<double>{got.depth_result}, std::vector<double>{wanted.depth_result});
            const int has = one.each[i];
            EXPECT_EQ(isnan(got.result[0]), has & ONLY_DEPTH ? true : false);
            EXPECT_EQ(isnan(got.gradient[0]), has & GRADIENT && !(has & ONLY_DEPTH) ? false : true);
            EXPECT_EQ(isnan(got.gain_sums[0]), has & GAIN && has & GRADIENT ? false : true);
            EXPECT_EQ(isnan(got.depth_result), has & DEPTH ? false : true);
        }
    }
}

// Parts of an image under a mask, of whose pixels all that count are counted. Bits and gradients: PartsKernels of ranks.
TEST(Loss, OfRowsAddsUpToTheWhole) {
    picture p = noise(33, 50, 9);
    p.mask = some_mask(p.width, p.height);
    const std::vector<double> whole = run(p).result;
    const loss_of_picture of(p);
    std::vector<double> sum(3);
    for (const gs_rows rows : {gs_rows{0, 1}, gs_rows{1, 4}}) {
        ASSERT_GS_OK(libgs_loss_rows(&of.image, rows, nullptr, filled_context()));
        for (size_t k = 0; k < 3; k++) sum[k] += of.result.read()[k];
    }
    for (size_t k = 0; k < 3; k++) EXPECT_NEAR(sum[k], whole[k], 1e-12);
}

// ---- gains ----

// The corrected colours are compared; gradients by colours and gains follow by the chain rule, the latter also by finite
// differences of the reference. Several blocks, and no whole number of them.
TEST(LossGains, AgreeWithTheReference) {
    std::mt19937 random(1);
    for (const kind &k : {kinds[0], kinds[1]})
        for (const bool masked : {false, true}) {
            SCOPED_TRACE(testing::Message() << k.name << (masked ? ", masked" : ""));
            picture p = picture_of(k, 131, 77, random);
            p.log_gain = uniform_values(random, GS_EXPOSURE_VALUES, -0.5f, 0.5f);
            if (masked) p.mask = some_mask(p.width, p.height);
            const outcome out = run(p);
            const auto corrected = [&](size_t moved, double step) {
                std::vector<double> color = doubles(p.color);
                for (size_t i = 0; i < color.size(); i++) {
                    const size_t c = i / p.pixels();
                    color[i] *= exp(double(p.log_gain[c]) + (c == moved ? step : 0));
                }
                return color;
            };
            std::vector<float> seen = p.color;
            for (size_t i = 0; i < seen.size(); i++) seen[i] *= expf(p.log_gain[i / p.pixels()]);
            const std::vector<signed char> held = signs_of(p, seen);
            const std::vector<double> color = corrected(0, 0);
            const expectation wanted = expected(p, color, held);
            for (const auto &[got, value] : {std::pair{out.result[0], wanted.value.loss},
                                             {out.result[1], wanted.value.l1},
                                             {out.result[2], wanted.value.ssim}})
                EXPECT_LE(fabs(got - value), 1e-6 * fabs(value) + 5e-7);
            std::vector<double> by_color = wanted.gradient;
            double sums[GS_EXPOSURE_SUMS] = {};
            for (size_t i = 0; i < by_color.size(); i++) {
                const size_t c = i / p.pixels();
                sums[c] += wanted.gradient[i] * color[i];
                sums[GS_EXPOSURE_VALUES + c] += fabs(wanted.gradient[i] * color[i]);
                by_color[i] *= exp(double(p.log_gain[c]));
            }
            EXPECT_LE(relative_norm(doubles(out.gradient), by_color), 3e-5);
            for (size_t c = 0; c < GS_EXPOSURE_VALUES; c++) {
                const double magnitude = sums[GS_EXPOSURE_VALUES + c];
                EXPECT_NEAR(out.gain_sums[c], sums[c], 1e-5 * magnitude) << c;
                EXPECT_NEAR(out.gain_sums[GS_EXPOSURE_VALUES + c], magnitude, 1e-5 * magnitude) << c;
                const double difference = expected(p, corrected(c, 1e-5), held).value.loss -
                                          expected(p, corrected(c, -1e-5), held).value.loss;
                EXPECT_NEAR(out.gain_sums[c], difference / 2e-5, 1e-4 * magnitude) << c;
            }
        }
}

// Of 700 views, more than a block has threads, and of a group of three of these; one alone is moved as it is.
TEST(LossGains, AStepMovesOneViewAndTheMeanOfItsGroupIsZero) {
    constexpr size_t views = 700, values = GS_EXPOSURE_VALUES;
    std::mt19937 random(6);
    const std::vector<float> before = uniform_values(random, views * values, -1, 1);
    std::vector<float> sums = uniform_values(random, 2 * values, -1, 1);
    for (size_t k = 0; k < values; k++) sums[values + k] = 1 + std::abs(sums[k]);
    const float rate = 0.1f, prior = 0.5f;
    std::vector<int32_t> all(views);
    for (size_t v = 0; v < views; v++) all[v] = int32_t((v * 37) % views);
    for (const auto &[members, place] :
         std::vector<std::pair<std::vector<int32_t>, int64_t>>{{all, 600}, {{412, 3, 77}, 1}, {{5}, 0}}) {
        const device_vector<float> log_gains(before), g(sums);
        const device_vector<int32_t> of(members);
        const gs_exposure_group group = {of.data(), int64_t(members.size()), place};
        EXPECT_GS_OK(gs_exposure_step(log_gains.data(), &group, g.data(), rate, prior, NULL));
        const std::vector<float> after = log_gains.read();
        std::vector<double> expected(before.begin(), before.end());
        for (size_t k = 0; k < values; k++) {
            double &own = expected[size_t(members[size_t(place)]) * values + k], mean = 0, sum = 0;
            own -= double(rate) * (double(sums[k]) / double(sums[values + k]) + double(prior) * own);
            if (members.size() == 1) continue; // no mean of its own
            for (const int32_t v : members) mean += expected[size_t(v) * values + k] / double(members.size());
            for (const int32_t v : members) expected[size_t(v) * values + k] -= mean;
            for (const int32_t v : members) sum += double(after[size_t(v) * values + k]);
            EXPECT_NEAR(sum, 0, 1e-7 * double(members.size())) << members.size() << " " << k;
        }
        for (size_t i = 0; i < after.size(); i++)
            ASSERT_NEAR(after[i], expected[i], 1e-6) << members.size() << " " << i;
    }
}

// ---- depth ----

TEST(DepthLoss, AgreesWithTheReference) {
    for (const auto &size : {std::pair{1, 1}, {33, 50}, {64, 32}, {231, 40}})
        for (const bool masked : {false, true}) {
            SCOPED_TRACE(testing::Message()
                         << size.first << " x " << size.second << (masked ? ", masked" : ""));
            picture p = with_depths(size.first, size.second, 5);
            p.depth_weight = 0.37f;
            for (size_t i = 0; masked && i < p.pixels(); i++) p.mask.push_back(i % 3 != 1);
            std::vector<double> gradient(p.pixels());
            const double expected = reference_depth_loss(
                doubles(p.depth).data(), p.depth_target.data(), masked ? p.mask.data() : nullptr,
                int64_t(p.pixels()), nullptr, nullptr, gradient.data());
            const outcome out = run(p);
            EXPECT_LE(fabs(out.depth_result - expected), 1e-6 * expected);
            for (size_t i = 0; i < gradient.size(); i++)
                ASSERT_LE(fabs(out.depth_gradient[i] - 0.37 * gradient[i]), 1e-6 * fabs(gradient[i])) << i;
        }
}

// What does not count may be anything; a NaN that counts shows.
TEST(DepthLoss, PassesOnANaNThatCounts) {
    picture p = with_depths(20, 9, 7);
    const outcome clean = run(p);
    for (size_t i = 0; i < p.depth.size(); i++)
        if (isnan(p.depth_target[i])) p.depth[i] = NAN;
    EXPECT_EQ(run(p).depth_result, clean.depth_result);
    EXPECT_EQ(run(p).depth_gradient, clean.depth_gradient);
    size_t known = 0;
    while (isnan(p.depth_target[known])) known++;
    p.depth[known] = NAN;
    EXPECT_TRUE(isnan(run(p).depth_result));
}

// ---- SSIM alone: the kernels of gs_loss on planes of floats ----

TEST(Ssim, AgreesWithTheReference) {
    std::mt19937 random(1);
    const reference_ssim_shape shapes[] = {{1, 1, 1, 0},   {5, 3, 2, 0},   {33, 50, 3, 0}, {70, 9, 5, 0},
                                           {11, 11, 1, 1}, {12, 40, 3, 1}, {43, 65, 2, 1}, {32, 32, 40, 1}};
    for (const reference_ssim_shape &shape : shapes)
        for (const kind &k : kinds) {
            SCOPED_TRACE(testing::Message() << k.name << ": " << shape.width << " x " << shape.height
                                            << (shape.valid ? " valid" : ""));
            std::vector<float> first, second;
            for (int plane = 0; plane < int(shape.planes); plane++)
                for (int i = 0; i < shape.width * shape.height; i++) {
                    const value_pair at = value_at(k, i % shape.width, i / shape.width, plane, random);
                    first.push_back(at.color), second.push_back(at.target);
                }
            std::vector<double> expected(first.size());
            const double value =
                reference_ssim(doubles(first).data(), doubles(second).data(), &shape, expected.data());
            const device_vector<float> a(first), b(second), gradient(std::vector<float>(first.size(), NAN));
            const device_vector<double> result(std::vector<double>(3, NAN));
            const gs_ssim_pair pair = {shape.width, shape.height, int32_t(shape.planes),
                                       shape.valid, a.data(),     b.data()};
            EXPECT_GS_OK(gs_ssim(&pair, result.data(), gradient.data(), filled_context()));
            EXPECT_LE(fabs(result.read()[0] - value), 1e-6 * fabs(value) + 1e-7);
            EXPECT_LE(relative_norm(doubles(gradient.read()), expected), k.of_planes);
        }
}

} // namespace
