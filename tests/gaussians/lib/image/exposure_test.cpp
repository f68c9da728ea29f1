// SPDX-License-Identifier: MIT
// The correction of colours against its formula in double precision, and its adjoint against finite
// differences of that.
#include "device_vector.h"
#include "distwar_gs.h"
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace {

#define EXPECT_GS_OK(call) EXPECT_EQ(call, GS_OK) << gs_last_error()

std::vector<float> random_values(unsigned seed, size_t count) {
    std::mt19937 random(seed);
    std::vector<float> out(count);
    for (float &value : out) value = float(random() >> 8) * 0x1p-23f - 1;
    return out;
}

struct Exposure : testing::Test {
    static constexpr int width = 131, height = 77; // several blocks, and no whole number of them
    static constexpr size_t plane = size_t(width) * height;
    std::vector<float> log_gain = random_values(1, GS_EXPOSURE_VALUES), color = random_values(2, 3 * plane),
                       by_corrected = random_values(3, 3 * plane);

    // sum of by_corrected times the corrected colours.
    double objective(const std::vector<double> &m, const std::vector<double> &c) const {
        double sum = 0;
        for (size_t i = 0; i < 3 * plane; i++) sum += double(by_corrected[i]) * std::exp(m[i / plane]) * c[i];
        return sum;
    }
};

TEST_F(Exposure, CorrectsEveryPixel) {
    const device_vector<float> m(log_gain), c(color), corrected(3 * plane);
    const gs_exposed image = {width, height, m.data(), c.data()};
    EXPECT_GS_OK(gs_exposure(&image, corrected.data(), NULL));
    const std::vector<float> got = corrected.read();
    for (size_t i = 0; i < 3 * plane; i++)
        ASSERT_NEAR(got[i], std::exp(double(log_gain[i / plane])) * double(color[i]), 1e-6) << i;
}

TEST_F(Exposure, AdjointMatchesFiniteDifferences) {
    const device_vector<float> m(log_gain), c(color), gradient(by_corrected), by_gain(GS_EXPOSURE_SUMS);
    const gs_exposed image = {width, height, m.data(), c.data()};
    EXPECT_GS_OK(gs_exposure_backward(&image, gradient.data(), by_gain.data(), NULL));
    const std::vector<double> base_m(log_gain.begin(), log_gain.end()), base_c(color.begin(), color.end());
    const std::vector<float> got_gain = by_gain.read(), got_color = gradient.read();
    const auto difference = [&](size_t k, double step) {
        std::vector<double> moved = base_m;
        moved[k] += step;
        return objective(moved, base_c);
    };
    for (size_t k = 0; k < GS_EXPOSURE_VALUES; k++)
        EXPECT_NEAR(got_gain[k], (difference(k, 1e-4) - difference(k, -1e-4)) / 2e-4,
                    1e-4 * std::sqrt(double(plane)))
            << k;
    for (size_t k = 0; k < GS_EXPOSURE_VALUES; k++) {
        double magnitudes = 0;
        for (size_t i = k * plane; i < (k + 1) * plane; i++)
            magnitudes += std::abs(double(by_corrected[i]) * std::exp(base_m[k]) * base_c[i]);
        EXPECT_NEAR(got_gain[GS_EXPOSURE_VALUES + k], magnitudes, 1e-5 * magnitudes) << k;
    }
    std::mt19937 random(4);
    for (int n = 0; n < 40; n++) { // linear in the colours: a step of 1 has no error but rounding
        const size_t k = random() % (3 * plane);
        std::vector<double> moved = base_c;
        moved[k] += 1;
        EXPECT_NEAR(got_color[k], objective(base_m, moved) - objective(base_m, base_c), 1e-5) << k;
    }
}

// Of 700 views, more than a block has threads, and of a group of three of these; one alone is moved as it is.
TEST_F(Exposure, AStepMovesOneViewAndTheMeanOfItsGroupIsZero) {
    constexpr size_t views = 700, values = GS_EXPOSURE_VALUES;
    const std::vector<float> before = random_values(6, views * values);
    std::vector<float> sums = random_values(5, 2 * values);
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

TEST_F(Exposure, BadArgumentsAreNamed) {
    const device_vector<float> some(48);
    const gs_exposed empty = {0, 4, some.data(), some.data()};
    EXPECT_EQ(gs_exposure(&empty, some.data(), NULL), GS_INVALID_ARGUMENT);
    EXPECT_NE(strstr(gs_last_error(), "width"), nullptr) << gs_last_error();
    const gs_exposed image = {4, 4, some.data(), some.data()}, without = {4, 4, NULL, some.data()};
    EXPECT_EQ(gs_exposure(NULL, some.data(), NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_exposure: image must be given");
    EXPECT_EQ(gs_exposure(&without, some.data(), NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_exposure: log_gain and color must be given");
    EXPECT_EQ(gs_exposure(&image, NULL, NULL), GS_INVALID_ARGUMENT);
    const device_vector<int32_t> of(4);
    const auto step = [&](gs_exposure_group group, float rate, float prior) {
        return gs_exposure_step(some.data(), &group, some.data(), rate, prior, NULL);
    };
    for (const float bad : {-1.0f, float(NAN)}) {
        EXPECT_EQ(step({of.data(), 1, 0}, bad, 1), GS_INVALID_ARGUMENT);
        EXPECT_EQ(step({of.data(), 1, 0}, 1, bad), GS_INVALID_ARGUMENT);
    }
    for (const int64_t view : {-1, 1}) EXPECT_EQ(step({of.data(), 1, view}, 1, 1), GS_INVALID_ARGUMENT);
    EXPECT_EQ(step({NULL, 1, 0}, 1, 1), GS_INVALID_ARGUMENT);
}

} // namespace
