// SPDX-License-Identifier: MIT
//
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

TEST(Loss, IsWhatItsDefinitionSays) {
    constexpr int width = 17, height = 13, pixels = width * height;
    const Pictures p = random_pictures(width, height, 41);
    auto target = [&](int c, int k) { return p.target[static_cast<size_t>(3 * k + c)] / 255.0; };
    auto color = [&](int c, int k) { return p.color[static_cast<size_t>(c * pixels + k)]; };
    double window[11][11], sum = 0;
    for (int i = 0; i < 11; i++)
        for (int j = 0; j < 11; j++)
            sum += window[i][j] = std::exp(-((i - 5) * (i - 5) + (j - 5) * (j - 5)) / (2 * 1.5 * 1.5));
    double l1 = 0, ssim = 0;
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                l1 += std::abs(color(c, y * width + x) - target(c, y * width + x)) / (3 * pixels);
                double m[5] = {};
                for (int i = 0; i < 11; i++)
                    for (int j = 0; j < 11; j++) {
                        const int row = y + i - 5, column = x + j - 5;
                        if (row < 0 || row >= height || column < 0 || column >= width) continue;
                        const double w = window[i][j] / sum, a = color(c, row * width + column),
                                     b = target(c, row * width + column);
                        m[0] += w * a;
                        m[1] += w * b;
                        m[2] += w * a * a;
                        m[3] += w * b * b;
                        m[4] += w * a * b;
                    }
                ssim +=
                    (2 * m[0] * m[1] + 1e-4) * (2 * (m[4] - m[0] * m[1]) + 9e-4) /
                    ((m[0] * m[0] + m[1] * m[1] + 1e-4) * (m[2] - m[0] * m[0] + m[3] - m[1] * m[1] + 9e-4)) /
                    (3 * pixels);
            }
    reference_loss_value value;
    reference_loss(p.color.data(), p.target.data(), width, height, nullptr, nullptr, &value, nullptr);
    EXPECT_NEAR(value.l1, l1, 1e-14);
    EXPECT_NEAR(value.ssim, ssim, 1e-13);
    EXPECT_NEAR(value.loss, 0.8 * l1 + 0.2 * (1 - ssim), 1e-13);
}

TEST(Loss, OfTheTargetItselfIsNothing) {
    constexpr int width = 9, height = 14, pixels = width * height;
    Pictures p = random_pictures(width, height, 42);
    for (size_t k = 0; k < pixels; k++)
        for (size_t c = 0; c < 3; c++) p.color[c * pixels + k] = p.target[3 * k + c] / 255.0;
    reference_loss_value value;
    std::vector<double> gradient(3 * pixels);
    std::vector<signed char> sign(3 * pixels, 9);
    reference_loss(p.color.data(), p.target.data(), width, height, nullptr, sign.data(), &value,
                   gradient.data());
    EXPECT_NEAR(value.loss, 0, 1e-14);
    EXPECT_NEAR(value.ssim, 1, 1e-14);
    for (size_t k = 0; k < gradient.size(); k++) {
        EXPECT_EQ(sign[k], 0);
        EXPECT_NEAR(gradient[k], 0, 1e-14);
    }
}

TEST(Loss, GradientMatchesFiniteDifferences) {
    const int sizes[][2] = {{1, 1}, {3, 7}, {16, 16}, {23, 14}};
    for (const auto &[width, height] : sizes) {
        Pictures p = random_pictures(width, height, 43);
        p.color[0] = p.target[0] / 255.0; // no slope of L1 here
        std::vector<double> gradient(p.color.size());
        std::vector<signed char> sign(p.color.size());
        reference_loss_value value;
        reference_loss(p.color.data(), p.target.data(), width, height, nullptr, sign.data(), &value,
                       gradient.data());
        GroupError error;
        for (size_t k = 0; k < p.color.size(); k++)
            error.add(gradient[k], derivative(
                                       [&] {
                                           reference_loss(p.color.data(), p.target.data(), width, height,
                                                          sign.data(), nullptr, &value, nullptr);
                                           return value.loss;
                                       },
                                       p.color[k], 1e-3));
        EXPECT_LE(error.relative(), max_gradient_error) << width << " x " << height;
    }
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

TEST(MaskedLoss, IsTheLossOfWhatCounts) {
    constexpr int width = 29, height = 24, pixels = width * height;
    const std::vector<uint8_t> mask = some_mask(width, height);
    Pictures p = random_pictures(width, height, 45);
    auto target = [&](int c, int k) { return p.target[static_cast<size_t>(3 * k + c)] / 255.0; };
    auto color = [&](int c, int k) { return p.color[static_cast<size_t>(c * pixels + k)]; };
    double l1 = 0, ssim = 0, n = 0;
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                const int k = y * width + x;
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
    EXPECT_GT(n, 3 * pixels / 2);
    EXPECT_LT(n, 3 * pixels * 5 / 6);
    reference_loss_value value;
    reference_masked_loss(p.color.data(), p.target.data(), mask.data(), width, height, nullptr, nullptr,
                          &value, nullptr);
    EXPECT_NEAR(value.l1, l1 / n, 1e-14);
    EXPECT_NEAR(value.ssim, ssim / n, 1e-12);
    // What is masked does not matter at all.
    for (size_t k = 0; k < pixels; k++)
        for (size_t c = 0; c < 3; c++)
            if (!mask[k]) p.color[c * pixels + k] = 17, p.target[3 * k + c] ^= 255;
    reference_loss_value other;
    reference_masked_loss(p.color.data(), p.target.data(), mask.data(), width, height, nullptr, nullptr,
                          &other, nullptr);
    EXPECT_EQ(other.loss, value.loss);
}

TEST(MaskedLoss, GradientMatchesFiniteDifferences) {
    constexpr int width = 23, height = 17;
    const std::vector<uint8_t> mask = some_mask(width, height);
    Pictures p = random_pictures(width, height, 46);
    std::vector<double> gradient(p.color.size());
    std::vector<signed char> sign(p.color.size());
    reference_loss_value value;
    const auto loss = [&](const signed char *held, signed char *taken, double *out) {
        reference_masked_loss(p.color.data(), p.target.data(), mask.data(), width, height, held, taken,
                              &value, out);
        return value.loss;
    };
    loss(nullptr, sign.data(), gradient.data());
    GroupError error;
    for (size_t k = 0; k < p.color.size(); k++) {
        error.add(gradient[k],
                  derivative([&] { return loss(sign.data(), nullptr, nullptr); }, p.color[k], 1e-3));
        if (!mask[k % mask.size()]) {
            EXPECT_EQ(gradient[k], 0);
        }
    }
    EXPECT_LE(error.relative(), max_gradient_error);
}

TEST(MaskedLoss, OfNothingIsNothing) {
    const Pictures p = random_pictures(7, 5, 47);
    const std::vector<uint8_t> mask(35, 0), all(35, 1);
    std::vector<double> gradient(p.color.size(), 9);
    reference_loss_value value, same;
    reference_masked_loss(p.color.data(), p.target.data(), mask.data(), 7, 5, nullptr, nullptr, &value,
                          gradient.data());
    EXPECT_EQ(value.loss, 0);
    EXPECT_EQ(value.ssim, 1);
    for (const double g : gradient) EXPECT_EQ(g, 0);
    reference_masked_loss(p.color.data(), p.target.data(), all.data(), 7, 5, nullptr, nullptr, &value,
                          nullptr);
    reference_loss(p.color.data(), p.target.data(), 7, 5, nullptr, nullptr, &same, nullptr);
    EXPECT_NEAR(value.loss, same.loss, 1e-15);
}

// Targets with unknown pixels and a mask, one depth exactly right.
struct Depths {
    std::vector<double> depth = random_weights(29, 51);
    std::vector<float> target = std::vector<float>(29);
    std::vector<uint8_t> mask = std::vector<uint8_t>(29, 1);

    Depths() {
        const std::vector<double> values = random_weights(29, 52);
        for (size_t i = 0; i < 29; i++) {
            target[i] = i % 7 == 3 ? NAN : static_cast<float>(values[i]);
            mask[i] = i % 5 != 1;
        }
        depth[2] = static_cast<double>(target[2]);
    }
    bool counts(size_t i) const { return i % 7 != 3 && i % 5 != 1; }
};

TEST(DepthLoss, IsTheMeanOfWhatCounts) {
    const Depths d;
    double sum = 0, n = 0;
    for (size_t i = 0; i < 29; i++) {
        if (!d.counts(i)) continue;
        sum += std::abs(d.depth[i] - static_cast<double>(d.target[i]));
        n++;
    }
    EXPECT_NEAR(
        reference_depth_loss(d.depth.data(), d.target.data(), d.mask.data(), 29, nullptr, nullptr, nullptr),
        sum / n, 1e-15);
    const std::vector<float> unknown(29, NAN);
    std::vector<double> gradient(29, 9);
    EXPECT_EQ(
        reference_depth_loss(d.depth.data(), unknown.data(), nullptr, 29, nullptr, nullptr, gradient.data()),
        0);
    EXPECT_EQ(gradient, std::vector<double>(29));
}

TEST(DepthLoss, GradientMatchesFiniteDifferences) {
    Depths d;
    std::vector<double> gradient(29);
    std::vector<signed char> sign(29);
    const auto loss = [&](const signed char *held, signed char *taken, double *out) {
        return reference_depth_loss(d.depth.data(), d.target.data(), d.mask.data(), 29, held, taken, out);
    };
    loss(nullptr, sign.data(), gradient.data());
    GroupError error;
    for (size_t i = 0; i < 29; i++) {
        error.add(gradient[i],
                  derivative([&] { return loss(sign.data(), nullptr, nullptr); }, d.depth[i], 1e-3));
        EXPECT_EQ(gradient[i] == 0, !d.counts(i) || i == 2) << i;
    }
    EXPECT_LE(error.relative(), max_gradient_error);
}

} // namespace
