// SPDX-License-Identifier: MIT
// The correction of colours against its formula in double precision, and its adjoint against finite
// differences of that.
#include "device_vector.h"
#include "gs.h"
#include <gtest/gtest.h>
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

struct exposure : testing::Test {
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

TEST_F(exposure, corrects_every_pixel) {
    const device_vector<float> m(matrix), c(color), corrected(3 * plane);
    EXPECT_GS_OK(gs_exposure(m.data(), c.data(), width, height, corrected.data(), NULL));
    const std::vector<float> got = corrected.read();
    for (size_t r = 0; r < 3; r++)
        for (size_t i = 0; i < plane; i++) {
            double wanted = matrix[4 * r + 3];
            for (size_t k = 0; k < 3; k++) wanted += double(matrix[4 * r + k]) * color[k * plane + i];
            ASSERT_NEAR(got[r * plane + i], wanted, 1e-6) << r << " " << i;
        }
}

TEST_F(exposure, adjoint_matches_finite_differences) {
    const device_vector<float> m(matrix), c(color), gradient(by_corrected), by_matrix(GS_EXPOSURE_VALUES);
    size_t bytes = 0;
    EXPECT_GS_OK(gs_exposure_workspace(width, height, &bytes));
    const device_vector<char> workspace(bytes);
    EXPECT_GS_OK(gs_exposure_backward(m.data(), c.data(), width, height, workspace.data(), bytes,
                                      gradient.data(), by_matrix.data(), NULL));
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

TEST_F(exposure, adam_steps_a_matrix_as_it_does_parameters) {
    const std::vector<float> gradient = random_values(5, GS_EXPOSURE_VALUES);
    const std::vector<float> zeros(GS_EXPOSURE_VALUES);
    const device_vector<float> m(matrix), g(gradient), first(zeros), second(zeros);
    EXPECT_GS_OK(gs_exposure_adam(m.data(), g.data(), first.data(), second.data(), 1e-3f, 1, NULL));
    const std::vector<float> stepped = m.read();
    for (size_t k = 0; k < GS_EXPOSURE_VALUES; k++) // the first step has the length of the rate
        EXPECT_NEAR(stepped[k], matrix[k] - std::copysign(1e-3f, gradient[k]), 1e-6) << k;
}

TEST_F(exposure, bad_arguments_are_named) {
    size_t bytes = 0;
    EXPECT_EQ(gs_exposure_workspace(0, 4, &bytes), GS_INVALID_ARGUMENT);
    EXPECT_NE(strstr(gs_last_error(), "width"), nullptr) << gs_last_error();
    EXPECT_EQ(gs_exposure(NULL, NULL, 4, 4, NULL, NULL), GS_INVALID_ARGUMENT);
    const device_vector<float> some(48);
    EXPECT_EQ(
        gs_exposure_backward(some.data(), some.data(), 4, 4, some.data(), 1, some.data(), some.data(), NULL),
        GS_INVALID_ARGUMENT);
    EXPECT_NE(strstr(gs_last_error(), "workspace"), nullptr) << gs_last_error();
    for (const float rate : {-1.0f, float(NAN)})
        EXPECT_EQ(gs_exposure_adam(some.data(), some.data(), some.data(), some.data(), rate, 1, NULL),
                  GS_INVALID_ARGUMENT);
}

} // namespace
