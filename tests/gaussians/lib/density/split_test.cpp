// SPDX-License-Identifier: MIT
// Splits: who is drawn, whose rows are taken, and what the halves have of the whole.
#include "density_scene.h"
#include "distwar_gs.h"
#include <algorithm>
#include <string>

namespace split_test {

constexpr float least_opacity = 0.005f;

struct halves {
    host_gaussians gaussians, first, second;
};

halves split(const host_gaussians &start, int64_t existing, const std::vector<float> &density,
             uint64_t iteration = 600) {
    const device_set gaussians(start), first(start), second(start);
    const gs_gaussians g = gaussians.get(), m = first.get(), v = second.get();
    const device_vector<float> sums(density);
    const gs_refill_rules rules = {existing, least_opacity, 1, iteration, sums.data(), nullptr};
    EXPECT_GS_OK(gs_refill(&g, &m, &v, &rules, nullptr));
    return {gaussians.read(), first.read(), second.read()};
}

float logit(double opacity) {
    return float(std::log(opacity / (1 - opacity)));
}

// Row 0 lives, row 1 is dead.
halves split_one(host_gaussians *start, double opacity) {
    start->opacity_logit(0) = logit(opacity);
    start->opacity_logit(1) = -9;
    return split(*start, 2, {8, 1, 0, 0});
}

TEST(Split, HalvesHaveMeanAndVarianceOfTheWhole) {
    for (unsigned seed = 5; seed < 10; seed++) {
        host_gaussians start = random_gaussians(seed, 2, 1);
        const float *scales = start.log_scale(0);
        const int axis = int(std::max_element(scales, scales + 3) - scales);
        const double s = std::exp(double(scales[axis]));
        halves got = split_one(&start, 0.5);
        double apart[3], along[3];
        for (int k = 0; k < 3; k++) {
            const double one = got.gaussians.mean(0)[k], other = got.gaussians.mean(1)[k];
            EXPECT_NEAR((one + other) / 2, start.mean(0)[k], 1e-6);
            apart[k] = (other - one) / 2;
            EXPECT_EQ(got.gaussians.log_scale(0)[k], got.gaussians.log_scale(1)[k]);
            if (k != axis) {
                EXPECT_EQ(got.gaussians.log_scale(0)[k], start.log_scale(0)[k]);
            }
        }
        to_own_axes(start, 0, apart, 0, along);
        const double small = std::exp(double(got.gaussians.log_scale(0)[axis]));
        EXPECT_NEAR(along[axis] * along[axis] + small * small, s * s, 1e-5 * s * s);
        for (int k = 0; k < 3; k++)
            if (k != axis) {
                EXPECT_NEAR(along[k], 0, 1e-5 * s);
            }
        const std::vector<float> whole = start.row(0), one = got.gaussians.row(0),
                                 other = got.gaussians.row(1), nothing(whole.size(), 0.0f);
        for (size_t k = 6; k < whole.size(); k++) {
            EXPECT_EQ(one[k], other[k]);
            if (k != 10) { // the opacity
                EXPECT_EQ(one[k], whole[k]) << k;
            }
        }
        for (int64_t i = 0; i < 2; i++) {
            EXPECT_EQ(got.first.row(i), nothing);
            EXPECT_EQ(got.second.row(i), nothing);
        }
    }
}

// Sums over a grid that has the longest axis in the picture.
TEST(Split, HalvesStopTheLightThatTheWholeStopped) {
    for (const double opacity : {0.02, 0.3, 0.9, 0.99}) {
        host_gaussians start = random_gaussians(5, 2, 1);
        halves got = split_one(&start, opacity);
        EXPECT_EQ(got.gaussians.opacity(0), got.gaussians.opacity(1));
        const double d = std::sqrt(0.5), step = 1.0 / 32; // in deviations of the whole
        double before = 0, after = 0;
        for (double x = -6; x < 6; x += step)
            for (double y = -6; y < 6; y += step) {
                const auto alpha = [&](double o, double place, double deviation) {
                    return o * std::exp(-(std::pow((x - place) / deviation, 2) + y * y) / 2);
                };
                const double one = alpha(got.gaussians.opacity(0), d, d),
                             other = alpha(got.gaussians.opacity(1), -d, d);
                before += alpha(opacity, 0, 1);
                after += one + other - one * other;
            }
        EXPECT_NEAR(after, before, 1e-4 * before) << opacity;
    }
}

TEST(Split, EveryDeadRowIsTakenAndEveryGaussianIsSplitOnce) {
    const int64_t count = 400;
    host_gaussians start = random_gaussians(3, count, 0);
    std::vector<float> sums;
    for (int64_t i = 0; i < count; i++) {
        start.opacity_logit(i) = i % 4 == 0 ? -9.0f : 0.0f;
        sums.push_back(float(1 + i % 7));
        sums.push_back(1);
    }
    start.opacity_logit(8) = NAN; // dead, too
    sums[2 * 13] = 0, sums[2 * 14] = NAN, sums[2 * 15] = INFINITY;
    halves got = split(start, count, sums);
    int64_t changed = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool stays = got.gaussians.row(i) == start.row(i);
        EXPECT_EQ(stays, got.first.row(i) == start.row(i));
        EXPECT_EQ(stays, got.second.row(i) == start.row(i));
        EXPECT_GT(got.gaussians.opacity(i), least_opacity);
        EXPECT_FALSE(stays && i % 4 == 0);
        changed += !stays && i % 4 != 0;
    }
    EXPECT_EQ(changed, 100);
    for (int64_t i = 13; i < 16; i++) EXPECT_EQ(got.gaussians.row(i), start.row(i));
    const halves again = split(start, count, sums);
    EXPECT_EQ(again.gaussians.array[0], got.gaussians.array[0]);
    EXPECT_NE(split(start, count, sums, 700).gaussians.array[0], got.gaussians.array[0]);
}

// One dead Gaussian, many times.
TEST(Split, DrawsInProportionToTheSums) {
    const int64_t count = 5;
    const int times = 1000;
    const double weights[4] = {0.02, 0.1, 0.3, 0.58};
    host_gaussians start = random_gaussians(4, count, 0);
    std::vector<float> sums(2 * count, 1.0f);
    for (int64_t i = 0; i < count; i++) {
        start.opacity_logit(i) = i < 4 ? 0.0f : -9.0f;
        if (i < 4) sums[size_t(2 * i)] = float(weights[i]);
    }
    int drawn[4] = {};
    for (int k = 1; k <= times; k++) {
        halves got = split(start, count, sums, uint64_t(k));
        for (int64_t i = 0; i < 4; i++) drawn[i] += got.gaussians.mean(i)[0] != start.mean(i)[0];
    }
    for (int i = 0; i < 4; i++)
        EXPECT_NEAR(drawn[i], weights[i] * times, 5 * std::sqrt(weights[i] * times)) << i;
}

TEST(Split, WhereNoneIsLeftNewRowsAreDeadAndOldOnesStay) {
    host_gaussians start = random_gaussians(7, 50, 1);
    std::vector<float> sums(100, 1.0f);
    for (int64_t i = 0; i < 50; i++) start.opacity_logit(i) = i < 2 ? 0.0f : i < 40 ? -9.0f : 3.0f;
    sums[0] = 0;
    halves got = split(start, 40, sums);
    int64_t living = 0;
    for (int64_t i = 0; i < 50; i++) {
        living += got.gaussians.opacity(i) > least_opacity;
        if (i == 0 || (i > 2 && i < 40)) {
            EXPECT_EQ(got.gaussians.row(i), start.row(i)) << i;
        }
    }
    EXPECT_EQ(living, 3);
    const host_gaussians none(0, 1);
    EXPECT_EQ(split(none, 0, {}).gaussians.count, 0);
}

TEST(Split, RefusesBadArguments) {
    const device_set set(random_gaussians(9, 4, 0));
    const gs_gaussians g = set.get();
    const device_vector<float> sums(8);
    const gs_refill_rules good = {4, least_opacity, 1, 1, sums.data(), nullptr};
    const auto refused = [&](const gs_refill_rules *rules, const char *text) {
        EXPECT_EQ(gs_refill(&g, &g, &g, rules, nullptr), GS_INVALID_ARGUMENT);
        EXPECT_EQ(std::string(gs_last_error()).rfind(std::string("gs_refill: ") + text, 0), 0u)
            << gs_last_error();
    };
    refused(nullptr, "rules");
    gs_refill_rules bad = good;
    bad.existing = 5;
    refused(&bad, "existing");
    for (const float opacity : {-0.1f, 1.0f, float(NAN)}) {
        bad = good;
        bad.least_opacity = opacity;
        refused(&bad, "least_opacity");
    }
}

} // namespace split_test
