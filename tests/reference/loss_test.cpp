// SPDX-License-Identifier: MIT
// The reference's loss against its definition, and its gradient against finite differences.
#include "finite_difference.h"

#include <gtest/gtest.h>

namespace {

struct Pictures {
    std::vector<double> color;   // [3][height][width]
    std::vector<uint8_t> target; // [height][width][3]
};

// Colours around the target, some outside 0..1.
Pictures random_pictures(int width, int height, unsigned seed) {
    const size_t pixels = static_cast<size_t>(width) * static_cast<size_t>(height);
    Pictures p{random_weights(3 * pixels, seed), std::vector<uint8_t>(3 * pixels)};
    const std::vector<double> values = random_weights(3 * pixels, seed + 1);
    for (size_t k = 0; k < 3 * pixels; k++) p.target[k] = static_cast<uint8_t>(127.5 + 127.4 * values[k]);
    for (size_t k = 0; k < pixels; k++)
        for (size_t c = 0; c < 3; c++)
            p.color[c * pixels + k] = 0.3 * p.color[c * pixels + k] + p.target[3 * k + c] / 255.0;
    return p;
}

// Some pixels of every kind: alone, at the border, a block larger than the window, and single ones that count
// inside a masked part.
std::vector<uint8_t> some_mask(int width, int height) {
    std::vector<uint8_t> mask(static_cast<size_t>(width * height), 255);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            if ((x < 13 && y > 6 && (x % 7 || y % 5)) || (x * 7 + y * 3) % 11 == 0)
                mask[static_cast<size_t>(y * width + x)] = 0;
    return mask;
}

// A window's means are over the pixels that count and those outside the image, which are zeros.
TEST(Loss, IsWhatItsDefinitionSays) {
    constexpr int width = 29, height = 24, pixels = width * height;
    for (const bool masked : {false, true}) {
        const std::vector<uint8_t> mask =
            masked ? some_mask(width, height) : std::vector<uint8_t>(static_cast<size_t>(pixels), 1);
        Pictures p = random_pictures(width, height, 45);
        auto target = [&](int c, int k) { return p.target[static_cast<size_t>(3 * k + c)] / 255.0; };
        auto color = [&](int c, int k) { return p.color[static_cast<size_t>(c * pixels + k)]; };
        double l1 = 0, ssim = 0, n = 0;
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < pixels; k++) {
                const int y = k / width, x = k % width;
                if (!mask[static_cast<size_t>(k)]) continue;
                n++;
                l1 += std::abs(color(c, k) - target(c, k));
                double sum = 0, m[5] = {};
                for (int row = y - 5; row <= y + 5; row++)
                    for (int column = x - 5; column <= x + 5; column++) {
                        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
                        const int at = row * width + column;
                        if (inside && !mask[static_cast<size_t>(at)]) continue;
                        const double w =
                            std::exp(-((row - y) * (row - y) + (column - x) * (column - x)) / 4.5);
                        const double a = inside ? color(c, at) : 0, b = inside ? target(c, at) : 0;
                        const double values[5] = {a, b, a * a, b * b, a * b};
                        sum += w;
                        for (int j = 0; j < 5; j++) m[j] += w * values[j];
                    }
                for (double &mean : m) mean /= sum;
                ssim +=
                    (2 * m[0] * m[1] + 1e-4) * (2 * (m[4] - m[0] * m[1]) + 9e-4) /
                    ((m[0] * m[0] + m[1] * m[1] + 1e-4) * (m[2] - m[0] * m[0] + m[3] - m[1] * m[1] + 9e-4));
            }
        reference_loss_value value, other;
        const auto loss = [&](reference_loss_value *out) {
            reference_loss(p.color.data(), p.target.data(), masked ? mask.data() : nullptr, width, height,
                           nullptr, nullptr, out, nullptr);
        };
        loss(&value);
        EXPECT_NEAR(value.l1, l1 / n, 1e-14);
        EXPECT_NEAR(value.ssim, ssim / n, 1e-12);
        EXPECT_NEAR(value.loss, 0.8 * l1 / n + 0.2 * (1 - ssim / n), 1e-12);
        if (!masked) continue;
        EXPECT_GT(n, 3 * pixels / 2);
        EXPECT_LT(n, 3 * pixels * 5 / 6);
        // What is masked does not matter at all.
        for (size_t k = 0; k < 3 * pixels; k++) {
            if (!mask[k % pixels]) p.color[k] = 17;
            if (!mask[k / 3]) p.target[k] ^= 255;
        }
        loss(&other);
        EXPECT_EQ(other.loss, value.loss);
    }
}

TEST(Loss, GradientMatchesFiniteDifferences) {
    const int sizes[][2] = {{1, 1}, {3, 7}, {16, 16}, {23, 14}};
    for (const auto &[width, height] : sizes)
        for (const bool masked : {false, true}) {
            SCOPED_TRACE(testing::Message() << width << " x " << height << (masked ? ", masked" : ""));
            const std::vector<uint8_t> mask = some_mask(width, height);
            Pictures p = random_pictures(width, height, 43);
            p.color[1 % p.color.size()] = p.target[3 % p.target.size()] / 255.0; // no slope of L1 here
            std::vector<double> gradient(p.color.size());
            std::vector<signed char> sign(p.color.size());
            const auto loss = [&, w = width, h = height](const signed char *held, signed char *taken,
                                                         double *out) {
                reference_loss_value value;
                reference_loss(p.color.data(), p.target.data(), masked ? mask.data() : nullptr, w, h, held,
                               taken, &value, out);
                return value.loss;
            };
            loss(nullptr, sign.data(), gradient.data());
            GroupError error;
            bool any = false;
            for (size_t k = 0; k < p.color.size(); k++) {
                const bool counts = !masked || mask[k % mask.size()];
                any |= counts;
                error.add(gradient[k],
                          derivative([&] { return loss(sign.data(), nullptr, nullptr); }, p.color[k], 1e-3));
                EXPECT_TRUE(counts || gradient[k] == 0);
            }
            EXPECT_TRUE(!any || error.relative() <= max_gradient_error) << error.relative();
        }
}

// Planes of any number, with all windows or those inside the image alone.
TEST(Ssim, GradientMatchesFiniteDifferences) {
    for (const int valid : {0, 1}) {
        const reference_ssim_shape shape = {19, 14, 2, valid};
        const std::vector<double> second = random_weights(2 * 19 * 14, 48);
        std::vector<double> first = random_weights(second.size(), 49), gradient(first.size());
        reference_ssim(first.data(), second.data(), &shape, gradient.data());
        GroupError error;
        for (size_t k = 0; k < first.size(); k++)
            error.add(gradient[k],
                      derivative([&] { return reference_ssim(first.data(), second.data(), &shape, nullptr); },
                                 first[k], 1e-3));
        EXPECT_LE(error.relative(), max_gradient_error) << valid;
    }
}

// Targets with unknown pixels and a mask, one depth exactly right.
TEST(DepthLoss, IsTheMeanOfWhatCountsAndItsGradientMatchesFiniteDifferences) {
    std::vector<double> depth = random_weights(29, 51), gradient(29);
    const std::vector<double> values = random_weights(29, 52);
    std::vector<float> target(values.begin(), values.end());
    std::vector<uint8_t> mask(29);
    const auto counts = [](size_t i) { return i % 7 != 3 && i % 5 != 1; };
    for (size_t i = 0; i < 29; i++) {
        if (i % 7 == 3) target[i] = NAN;
        mask[i] = i % 5 != 1;
    }
    depth[2] = static_cast<double>(target[2]);
    std::vector<signed char> sign(29);
    const auto loss = [&](const signed char *held, signed char *taken, double *out) {
        return reference_depth_loss(depth.data(), target.data(), mask.data(), 29, held, taken, out);
    };
    const double value = loss(nullptr, sign.data(), gradient.data());
    GroupError error;
    double sum = 0, n = 0;
    for (size_t i = 0; i < 29; i++) {
        if (counts(i)) sum += std::abs(depth[i] - static_cast<double>(target[i])), n++;
        error.add(gradient[i],
                  derivative([&] { return loss(sign.data(), nullptr, nullptr); }, depth[i], 1e-3));
        EXPECT_EQ(gradient[i] == 0, !counts(i) || i == 2) << i;
    }
    EXPECT_NEAR(value, sum / n, 1e-15);
    EXPECT_LE(error.relative(), max_gradient_error);
}

} // namespace
