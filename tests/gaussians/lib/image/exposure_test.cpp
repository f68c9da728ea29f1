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
    std::vector<float> matrix = random_values(1, GS_EXPOSURE_VALUES), color = random_values(2, 3 * plane),
                       by_corrected = random_values(3, 3 * plane);

    // sum of by_corrected times the corrected colours: linear in the matrix, and in the colours.
    double objective(const std::vector<double> &m, const std::vector<double> &c) const {
        double sum = 0;
        for (size_t r = 0; r < 3; r++)
            for (size_t i = 0; i < plane; i++)
                sum += double(by_corrected[r * plane + i]) * (m[4 * r] * c[i] + m[4 * r + 1] * c[plane + i] +
                                                              m[4 * r + 2] * c[2 * plane + i] + m[4 * r + 3]);
        return sum;
    }
};

TEST_F(Exposure, CorrectsEveryPixel) {
    const device_vector<float> m(matrix), c(color), corrected(3 * plane);
    const gs_exposed image = {width, height, m.data(), c.data()};
    EXPECT_GS_OK(gs_exposure(&image, corrected.data(), NULL));
    const std::vector<float> got = corrected.read();
    for (size_t r = 0; r < 3; r++)
        for (size_t i = 0; i < plane; i++) {
            double wanted = matrix[4 * r + 3];
            for (size_t k = 0; k < 3; k++) wanted += double(matrix[4 * r + k]) * color[k * plane + i];
            ASSERT_NEAR(got[r * plane + i], wanted, 1e-6) << r << " " << i;
        }
}

TEST_F(Exposure, AdjointMatchesFiniteDifferences) {
    const device_vector<float> m(matrix), c(color), gradient(by_corrected), by_matrix(GS_EXPOSURE_VALUES);
    size_t bytes = 0;
    EXPECT_GS_OK(gs_exposure_bytes(width, height, &bytes));
    const device_vector<char> workspace(bytes);
    const gs_exposed image = {width, height, m.data(), c.data()};
    EXPECT_GS_OK(
        gs_exposure_backward(&image, workspace.data(), bytes, gradient.data(), by_matrix.data(), NULL));
    const std::vector<double> base_m(matrix.begin(), matrix.end()), base_c(color.begin(), color.end());
    // The objective is linear, so a step of 1 has no error but rounding.
    const std::vector<float> got_matrix = by_matrix.read(), got_color = gradient.read();
    for (size_t k = 0; k < GS_EXPOSURE_VALUES; k++) {
        std::vector<double> moved = base_m;
        moved[k] += 1;
        const double expected = objective(moved, base_c) - objective(base_m, base_c);
        EXPECT_NEAR(got_matrix[k], expected, 1e-4 * std::sqrt(double(plane))) << k;
    }
    std::mt19937 random(4);
    for (int n = 0; n < 40; n++) {
        const size_t k = random() % (3 * plane);
        std::vector<double> moved = base_c;
        moved[k] += 1;
        EXPECT_NEAR(got_color[k], objective(base_m, moved) - objective(base_m, base_c), 1e-5) << k;
    }
}

TEST_F(Exposure, AdamStepsOneMatrixAndKeepsTheMean) {
    constexpr size_t views = 40, view = 17, record = 3 * GS_EXPOSURE_VALUES;
    std::vector<float> before = random_values(6, views * record);
    for (size_t v = 0; v < views; v++) // the moments of the first step
        std::fill_n(before.begin() + ptrdiff_t(v * record + GS_EXPOSURE_VALUES), 2 * GS_EXPOSURE_VALUES,
                    0.0f);
    const std::vector<float> gradient = random_values(5, GS_EXPOSURE_VALUES);
    const device_vector<float> exposures(before), g(gradient);
    const float rate = 0.1f;
    EXPECT_GS_OK(gs_exposure_adam(exposures.data(), views, view, g.data(), rate, 1, NULL));
    const std::vector<float> after = exposures.read();
    for (size_t k = 0; k < GS_EXPOSURE_VALUES; k++) {
        double sum = 0;
        for (size_t v = 0; v < views; v++) {
            const double moved = double(after[v * record + k]) - before[v * record + k];
            // The first step has the length of the rate.
            const double own = v == view ? -std::copysign(rate, gradient[k]) : 0;
            EXPECT_NEAR(moved, own + std::copysign(rate, gradient[k]) / double(views), 1e-6) << v << " " << k;
            sum += moved;
        }
        EXPECT_NEAR(sum, 0, 1e-5) << k;
        EXPECT_NEAR(after[view * record + GS_EXPOSURE_VALUES + k], 0.1 * gradient[k], 1e-7);
        EXPECT_NEAR(after[view * record + 2 * GS_EXPOSURE_VALUES + k], 0.001 * gradient[k] * gradient[k],
                    1e-8);
        EXPECT_EQ(after[GS_EXPOSURE_VALUES + k], 0) << "the moments of another view";
    }
}

TEST_F(Exposure, BadArgumentsAreNamed) {
    size_t bytes = 0;
    EXPECT_EQ(gs_exposure_bytes(0, 4, &bytes), GS_INVALID_ARGUMENT);
    EXPECT_NE(strstr(gs_last_error(), "width"), nullptr) << gs_last_error();
    const device_vector<float> some(48);
    const gs_exposed image = {4, 4, some.data(), some.data()}, without = {4, 4, NULL, some.data()};
    EXPECT_EQ(gs_exposure(NULL, some.data(), NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_exposure: image must be given");
    EXPECT_EQ(gs_exposure(&without, some.data(), NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_exposure: matrix and color must be given");
    EXPECT_EQ(gs_exposure(&image, NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_exposure_backward(&image, some.data(), 1, some.data(), some.data(), NULL),
              GS_INVALID_ARGUMENT);
    EXPECT_NE(strstr(gs_last_error(), "workspace"), nullptr) << gs_last_error();
    for (const float rate : {-1.0f, float(NAN)})
        EXPECT_EQ(gs_exposure_adam(some.data(), 1, 0, some.data(), rate, 1, NULL), GS_INVALID_ARGUMENT);
    for (const int64_t view : {-1, 1})
        EXPECT_EQ(gs_exposure_adam(some.data(), 1, view, some.data(), 1, 1, NULL), GS_INVALID_ARGUMENT);
}

} // namespace
