// SPDX-License-Identifier: MIT
// gs_refill by relocation and by splits, against the published formulas and by what the halves have of the whole: who is
// drawn, whose rows are taken. Noise and penalties of MCMC density control against their formulas.
#include "density_scene.h"
#include <algorithm>

namespace {

constexpr float least_opacity = 0.005f;

float logit(double opacity) {
    return float(std::log(opacity / (1 - opacity)));
}

struct refilled {
    host_gaussians gaussians, first, second;
};

// density: sums for splits; empty: by relocation, where the number of the dead is checked.
refilled refill(const host_gaussians &start, int64_t existing, const host_gaussians &moments,
                const std::vector<float> &density = {}, uint64_t seed = 1, uint64_t iteration = 600) {
    const device_set gaussians(start), first(moments), second(moments);
    const gs_gaussians g = gaussians.get(), m = first.get(), v = second.get();
    const device_vector<float> sums(density);
    const device_vector<uint64_t> dead(std::vector<uint64_t>{7}); // it grows by the number
    gs_refill_rules rules = {existing, least_opacity, seed, iteration, nullptr, dead.data()};
    if (!density.empty()) rules.density = sums.data(), rules.dead = nullptr;
    EXPECT_GS_OK(gs_refill(&g, &m, &v, &rules, nullptr));
    uint64_t expected = 7;
    for (int64_t i = 0; i < existing && density.empty(); i++)
        expected += !(start.opacity(i) > double(least_opacity));
    EXPECT_EQ(dead.read()[0], expected);
    return {gaussians.read(), first.read(), second.read()};
}

// ---- by relocation ----

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
TEST(Relocate, SharingAPlaceKeepsTheImage) {
    for (const double opacity : {0.01, 0.3, 0.9, 0.99})
        for (const int n : {2, 3, 5, 20, 51, 60}) {
            SCOPED_TRACE(testing::Message() << "opacity " << opacity << ", " << n << " share");
            host_gaussians start = random_gaussians(unsigned(n), n, 1);
            const host_gaussians moments = random_gaussians(2, n, 1);
            const int64_t living = n / 2;
            for (int64_t i = 0; i < n; i++) start.opacity_logit(i) = i == living ? logit(opacity) : -9.0f;
            refilled got = refill(start, n, moments);
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

TEST(Relocate, PlacesAreDrawnInProportionToOpacity) {
    const int64_t living = 5, count = 20000;
    host_gaussians start = random_gaussians(5, count, 0);
    const double opacities[living] = {0.01, 0.1, 0.2, 0.5, 0.8};
    double total = 0;
    for (int64_t i = 0; i < living; i++) {
        start.opacity_logit(i) = logit(opacities[i]);
        total += opacities[i];
    }
    // Half of the others are dead, half are new rows, which may hold anything.
    for (int64_t i = living; i < count; i++) start.opacity_logit(i) = i < count / 2 ? -9 : 3;
    refilled got = refill(start, count / 2, start);
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

// ---- noise and penalties ----

// Along an axis of size s the deviation is s min(scale s, 1), so that noise has no unit.
TEST(Relocate, NoiseFollowsItsFormula) {
    const int64_t count = 4000;
    host_gaussians start = random_gaussians(8, count, 0);
    const double opacities[] = {0.004, 0.02, 0.9};
    for (int64_t i = 0; i < count; i++) start.opacity_logit(i) = logit(opacities[i % 3]);
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

// ---- by splits ----

// Row 0 lives, row 1 is dead.
refilled split_one(host_gaussians *start, double opacity) {
    start->opacity_logit(0) = logit(opacity);
    start->opacity_logit(1) = -9;
    return refill(*start, 2, *start, {8, 1, 0, 0});
}

TEST(Split, HalvesHaveMeanAndVarianceOfTheWhole) {
    for (unsigned seed = 5; seed < 10; seed++) {
        host_gaussians start = random_gaussians(seed, 2, 1);
        const float *scales = start.log_scale(0);
        const int axis = int(std::max_element(scales, scales + 3) - scales);
        const double s = std::exp(double(scales[axis]));
        refilled got = split_one(&start, 0.5);
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
        refilled got = split_one(&start, opacity);
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
        refilled got = refill(start, count, start, sums, 1, uint64_t(k));
        for (int64_t i = 0; i < 4; i++) drawn[i] += got.gaussians.mean(i)[0] != start.mean(i)[0];
    }
    for (int i = 0; i < 4; i++)
        EXPECT_NEAR(drawn[i], weights[i] * times, 5 * std::sqrt(weights[i] * times)) << i;
}

// ---- either way ----

// By splits each of the living is drawn once, so that as many change as were dead.
TEST(Refill, DeadRowsAreTakenAndOthersStay) {
    const int64_t count = 400;
    host_gaussians start = random_gaussians(3, count, 2);
    const host_gaussians moments = random_gaussians(4, count, 2);
    std::vector<float> sums;
    for (int64_t i = 0; i < count; i++) {
        start.opacity_logit(i) = i % 4 == 0 ? -9.0f : 0.0f;
        sums.insert(sums.end(), {float(1 + i % 7), 1});
    }
    start.opacity_logit(8) = NAN;                                  // dead, too
    sums[2 * 13] = 0, sums[2 * 14] = NAN, sums[2 * 15] = INFINITY; // not drawn
    for (const std::vector<float> &density : {std::vector<float>(), sums}) {
        const auto at = [&](uint64_t seed, uint64_t iteration) {
            return refill(start, count, moments, density, seed, iteration);
        };
        refilled got = at(1, 600);
        int64_t changed = 0;
        for (int64_t i = 0; i < count; i++) {
            const bool stays = got.gaussians.row(i) == start.row(i);
            EXPECT_EQ(stays, got.first.row(i) == moments.row(i));
            EXPECT_EQ(stays, got.second.row(i) == moments.row(i));
            EXPECT_GT(got.gaussians.opacity(i), least_opacity);
            EXPECT_FALSE(stays && i % 4 == 0);
            EXPECT_TRUE(stays || density.empty() || i < 13 || i > 15);
            changed += !stays && i % 4 != 0;
        }
        EXPECT_GT(changed, density.empty() ? 20 : 99);
        EXPECT_LE(changed, 100);
        EXPECT_EQ(at(1, 600).gaussians.array[0], got.gaussians.array[0]);
        EXPECT_NE(at(1, 700).gaussians.array[0], got.gaussians.array[0]);
        EXPECT_NE(at(2, 600).gaussians.array[0], got.gaussians.array[0]);
    }
}

TEST(Refill, WhereNoneIsLeftNewRowsAreDeadAndOldOnesStay) {
    for (const bool splits : {false, true}) {
        host_gaussians start = random_gaussians(7, 50, 1);
        std::vector<float> sums(splits ? 100 : 0, 1.0f);
        if (splits) sums[0] = 0; // row 1 can be split, and row 0 cannot
        for (int64_t i = 0; i < 50; i++)
            start.opacity_logit(i) = splits && i < 2 ? 0.0f : i < 40 ? -9.0f : 3.0f;
        refilled got = refill(start, 40, start, sums);
        int64_t living = 0;
        for (int64_t i = 0; i < 50; i++) {
            living += got.gaussians.opacity(i) > least_opacity;
            const bool may_change = i >= 40 || (splits && (i == 1 || i == 2));
            EXPECT_TRUE(may_change || got.gaussians.row(i) == start.row(i)) << i;
        }
        EXPECT_EQ(living, splits ? 3 : 0);
        const host_gaussians none(0, 1);
        EXPECT_EQ(refill(none, 0, none, std::vector<float>(splits)).gaussians.count, 0);
    }
}

} // namespace
