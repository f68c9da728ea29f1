// SPDX-License-Identifier: MIT
// Relocation, noise and penalties of MCMC density control against their published formulas.
#include "density_scene.h"
#include <algorithm>

namespace {

constexpr float least_opacity = 0.005f;

double logit(double opacity) {
    return std::log(opacity / (1 - opacity));
}

struct relocated {
    host_gaussians gaussians, first, second;
};

relocated relocate(const host_gaussians &start, int64_t existing, const host_gaussians &moments,
                   uint64_t seed = 1, uint64_t iteration = 600) {
    const device_set gaussians(start), first(moments), second(moments);
    const gs_gaussians g = gaussians.get(), m = first.get(), v = second.get();
    const device_vector<uint64_t> dead(std::vector<uint64_t>{7}); // it grows by the number
    const gs_refill_rules relocation = {existing, least_opacity, seed, iteration, nullptr, dead.data()};
    EXPECT_GS_OK(gs_refill(&g, &m, &v, &relocation, nullptr));
    uint64_t expected = 7;
    for (int64_t i = 0; i < existing; i++) expected += !(start.opacity(i) > double(least_opacity));
    EXPECT_EQ(dead.read()[0], expected);
    return {gaussians.read(), first.read(), second.read()};
}

// Kheradmand et al. 2024, equation 9, as it stands: opacity of each of n, and the factor of their scales.
void share(double opacity, int n, double *each, double *factor) {
    *each = 1 - std::pow(1 - opacity, 1.0 / n);
    long double sum = 0;
    for (int i = 1; i <= n; i++) {
        long double binomial = 1; // C(i - 1, k)
        for (int k = 0; k < i; k++) {
            sum += binomial * (k % 2 ? -1 : 1) * std::pow(static_cast<long double>(*each), k + 1) /
                   std::sqrt(k + 1.0L);
            binomial = binomial * (i - 1 - k) / (k + 1);
        }
    }
    *factor = double(static_cast<long double>(opacity) / sum);
}

// One lives, the others take its place.
TEST(Relocate, ThoseThatShareAPlaceShowWhatOneDid) {
    for (const double opacity : {0.01, 0.3, 0.9, 0.99})
        for (const int n : {2, 3, 5, 20, 51, 60}) {
            SCOPED_TRACE(testing::Message() << "opacity " << opacity << ", " << n << " share");
            host_gaussians start = random_gaussians(unsigned(n), n, 1);
            const host_gaussians moments = random_gaussians(2, n, 1);
            const int64_t living = n / 2;
            for (int64_t i = 0; i < n; i++) start.opacity_logit(i) = float(i == living ? logit(opacity) : -9);
            relocated got = relocate(start, n, moments);
            double each, factor;
            share(start.opacity(living), std::min(n, 51), &each, &factor);
            each = std::max(each, double(least_opacity));
            const std::vector<float> place = got.gaussians.row(living), nothing(place.size(), 0.0f);
            EXPECT_NEAR(got.gaussians.opacity(living), each, 1e-5 * each);
            for (int k = 0; k < 3; k++)
                EXPECT_NEAR(got.gaussians.log_scale(living)[k], start.log_scale(living)[k] + std::log(factor),
                            1e-5);
            const std::vector<float> before = start.row(living);
            for (size_t k = 0; k < place.size(); k++)
                if (k < 3 || (k >= 6 && k != 10)) {
                    EXPECT_EQ(place[k], before[k]) << k;
                }
            for (int64_t i = 0; i < n; i++) {
                EXPECT_EQ(got.gaussians.row(i), place);
                EXPECT_EQ(got.first.row(i), nothing);
                EXPECT_EQ(got.second.row(i), nothing);
            }
        }
}

TEST(Relocate, TheLivingThatNobodyJoinsStayWithTheirState) {
    const int64_t count = 400;
    host_gaussians start = random_gaussians(3, count, 2);
    const host_gaussians moments = random_gaussians(4, count, 2);
    for (int64_t i = 0; i < count; i++) start.opacity_logit(i) = float(i % 10 == 0 ? -8 : logit(0.5));
    start.opacity_logit(30) = NAN; // dead, too
    relocated got = relocate(start, count, moments);
    int64_t joined = 0, newcomers = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool stays = got.gaussians.row(i) == start.row(i);
        EXPECT_EQ(stays, got.first.row(i) == moments.row(i));
        EXPECT_EQ(stays, got.second.row(i) == moments.row(i));
        EXPECT_FALSE(stays && i % 10 == 0);
        EXPECT_GT(got.gaussians.opacity(i), least_opacity);
        joined += !stays && i % 10 != 0;
        newcomers += i % 10 == 0;
    }
    EXPECT_GT(joined, 20);
    EXPECT_LE(joined, newcomers);
}

TEST(Relocate, PlacesAreDrawnInProportionToOpacity) {
    const int64_t living = 5, count = 20000;
    host_gaussians start = random_gaussians(5, count, 0);
    const double opacities[living] = {0.01, 0.1, 0.2, 0.5, 0.8};
    double total = 0;
    for (int64_t i = 0; i < living; i++) {
        start.opacity_logit(i) = float(logit(opacities[i]));
        total += opacities[i];
    }
    // Half of the others are dead, half are new rows, which may hold anything.
    for (int64_t i = living; i < count; i++) start.opacity_logit(i) = i < count / 2 ? -9 : 3;
    relocated got = relocate(start, count / 2, start);
    int joined[living] = {};
    for (int64_t i = living; i < count; i++) {
        int64_t at = 0;
        while (at < living && got.gaussians.mean(i)[0] != start.mean(at)[0]) at++;
        ASSERT_LT(at, living) << i;
        joined[at]++;
    }
    for (int64_t i = 0; i < living; i++) {
        const double expected = opacities[i] / total * double(count - living);
        EXPECT_NEAR(joined[i], expected, 5 * std::sqrt(expected)) << i;
    }
}

TEST(Relocate, SameInputSameBytesAndAnotherIterationOtherPlaces) {
    host_gaussians start = random_gaussians(6, 3000, 0);
    for (int64_t i = 0; i < 3000; i++) start.opacity_logit(i) = i % 3 == 0 ? -9.0f : float(i % 7) - 3;
    const auto places = [&](uint64_t seed, uint64_t iteration) {
        return relocate(start, 3000, start, seed, iteration).gaussians.array[0];
    };
    EXPECT_EQ(places(1, 600), places(1, 600));
    EXPECT_NE(places(1, 600), places(1, 700));
    EXPECT_NE(places(1, 600), places(2, 600));
}

TEST(Relocate, WhereNobodyLivesNewRowsAreDead) {
    host_gaussians start = random_gaussians(7, 50, 1);
    for (int64_t i = 0; i < 50; i++) start.opacity_logit(i) = i < 40 ? -9.0f : 3.0f;
    relocated got = relocate(start, 40, start);
    for (int64_t i = 0; i < 50; i++) {
        EXPECT_LT(got.gaussians.opacity(i), least_opacity);
        EXPECT_EQ(got.gaussians.row(i) == start.row(i), i < 40);
    }
    const host_gaussians none(0, 1);
    EXPECT_EQ(relocate(none, 0, none).gaussians.count, 0);
}

// Along an axis of size s the deviation is s min(scale s, 1), so that noise has no unit.
TEST(Relocate, NoiseIsShapedByCovarianceBoundedByTheSizeAndKeptFromTheOpaque) {
    const int64_t count = 4000;
    host_gaussians start = random_gaussians(8, count, 0);
    const double opacities[] = {0.004, 0.02, 0.9};
    for (int64_t i = 0; i < count; i++) start.opacity_logit(i) = float(logit(opacities[i % 3]));
    const auto moved = [&](uint64_t iteration) {
        const device_set set(start);
        const gs_gaussians g = set.get();
        EXPECT_GS_OK(gs_density_noise(&g, 0, 2.5f, 9, iteration, nullptr));
        return set.read();
    };
    host_gaussians after = moved(17);
    normal_check noise[2];
    int64_t bounded = 0, not_bounded = 0;
    for (int64_t i = 0; i < count; i++) {
        double offset[3], own[3];
        const double strength = 1 / (1 + std::exp(100 * (start.opacity(i) - 0.005)));
        for (int k = 0; k < 3; k++) offset[k] = (double(after.mean(i)[k]) - start.mean(i)[k]) / strength;
        if (i % 3 == 2) {
            EXPECT_EQ(after.row(i), start.row(i));
            continue;
        }
        to_own_axes(start, i, offset, 1, own);
        for (int k = 0; k < 3; k++) {
            const double scaled = 2.5 * std::exp(double(start.log_scale(i)[k]));
            bounded += scaled > 1, not_bounded += scaled < 1;
            own[k] /= std::fmin(scaled, 1);
        }
        noise[i % 3].add(own);
    }
    EXPECT_GT(bounded, count / 10);
    EXPECT_GT(not_bounded, count / 10);
    noise[0].expect_standard();
    noise[1].expect_standard();
    for (int a = 1; a < 5; a++) EXPECT_EQ(after.array[a], start.array[a]);
    EXPECT_EQ(moved(17).array[0], after.array[0]);
    EXPECT_NE(moved(18).array[0], after.array[0]);
}

TEST(Relocate, PenaltiesHaveTheGradientOfTheMeans) {
    const int64_t count = 300;
    host_gaussians start = random_gaussians(10, count, 1), gradient = random_gaussians(11, count, 1);
    const device_set set(start), sums(gradient);
    const gs_gaussians g = set.get(), out = sums.get();
    ASSERT_GS_OK(gs_density_penalty(&g, g.count, 3, 5, &out, nullptr));
    host_gaussians got = sums.read();
    const double step = 1e-5;
    for (int64_t i = 0; i < count; i++) {
        const double logit_here = start.opacity_logit(i);
        const double by_logit =
            3 * (1 / (1 + std::exp(-logit_here - step)) - 1 / (1 + std::exp(-logit_here + step))) /
            (2 * step * count);
        EXPECT_NEAR(got.opacity_logit(i) - gradient.opacity_logit(i), by_logit, 1e-6);
        for (int k = 0; k < 3; k++) {
            const double s = start.log_scale(i)[k];
            const double by_scale = 5 * (std::exp(s + step) - std::exp(s - step)) / (2 * step * 3 * count);
            EXPECT_NEAR(got.log_scale(i)[k] - gradient.log_scale(i)[k], by_scale, 1e-6 * (1 + by_scale));
        }
    }
    for (int a : {0, 2, 4}) EXPECT_EQ(got.array[a], gradient.array[a]);
}

TEST(Relocate, RefusesBadArguments) {
    const device_set set(random_gaussians(12, 10, 1)), other(random_gaussians(12, 9, 1));
    const gs_gaussians g = set.get(), wrong = other.get();
    const auto call = [&](int64_t existing, const gs_gaussians *moments, float least) {
        const gs_refill_rules relocation = {existing, least, 1, 1, nullptr, nullptr};
        return gs_refill(&g, moments, moments, &relocation, nullptr);
    };
    EXPECT_EQ(call(11, &g, 0.005f), GS_INVALID_ARGUMENT);
    EXPECT_EQ(call(-1, &g, 0.005f), GS_INVALID_ARGUMENT);
    EXPECT_EQ(call(10, &wrong, 0.005f), GS_INVALID_ARGUMENT);
    EXPECT_EQ(call(10, nullptr, 0.005f), GS_INVALID_ARGUMENT);
    EXPECT_EQ(call(10, &g, NAN), GS_INVALID_ARGUMENT);
    EXPECT_EQ(call(10, &g, 1), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_refill(&g, &g, &g, nullptr, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_refill: rules must be given");
    EXPECT_EQ(gs_density_noise(&g, 0, NAN, 1, 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_density_noise(nullptr, 0, 1, 1, 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_density_penalty(&g, g.count, -1, 0, &g, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_density_penalty(&g, g.count, 1, 0, &wrong, nullptr), GS_INVALID_ARGUMENT);
}

} // namespace
