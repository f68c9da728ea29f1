// SPDX-License-Identifier: MIT
// Conjugate gradients, and what else Levenberg and Marquardt's method does to vectors of parameters.
#include "lm_frame.h"

namespace lm_tests {

// In as many iterations as there are unknowns, and it stays there.
TEST(LmSolver, ConvergesOnASmallSystemAndThenRests) {
    const int n = 6;
    const float lambda = 0.5f;
    std::vector<double> a(n * n), right = random_weights(n, 4), diagonal;
    const std::vector<double> factor = random_weights(n * n, 3);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                a[size_t(i * n + j)] += factor[size_t(i * n + k)] * factor[size_t(j * n + k)];
    for (int k = 0; k < n; k++) a[size_t(2 * n + k)] = a[size_t(k * n + 2)] = 0; // an unknown nobody sees
    right[2] = 0;
    for (int i = 0; i < n; i++) diagonal.push_back(a[size_t(i * n + i)]);
    const auto times = [&](const std::vector<float> &p) {
        std::vector<double> product(n);
        for (int i = 0; i < n * n; i++) product[size_t(i / n)] += a[size_t(i)] * p[size_t(i % n)];
        return product;
    };
    const std::vector<float> x = solved(floats(right), floats(diagonal), lambda, 20, times).x;
    EXPECT_EQ(x[2], 0);
    for (size_t i = 0; i < n; i++) EXPECT_NEAR(times(x)[i] + lambda * diagonal[i] * x[i], right[i], 1e-4);
}

// Where nothing is left to do, or nobody sees anything, quotients are 0 / 0.
TEST(LmSolver, RestsWhereThereIsNothingToDo) {
    const std::vector<float> nothing(300); // more than a block
    const solved found(nothing, nothing, 1, 2, [&](const std::vector<float> &p) {
        EXPECT_EQ(p, nothing);
        return doubles(p);
    });
    EXPECT_EQ(found.x, nothing);
    EXPECT_EQ(found.direction, nothing);
    EXPECT_EQ(found.scalars, std::vector<double>(5));
}

TEST(LmSolver, AddsAMultiple) {
    const device_vector<float> sum(std::vector<float>{5, 7, 0}), by(std::vector<float>{3, 5, 0}),
        weight(std::vector<float>{2, 0, 4});
    ASSERT_GS_OK(gs_lm_add(sum.data(), 0.5f, NULL, by.data(), 3));
    EXPECT_EQ(sum.read(), (std::vector<float>{6.5f, 9.5f, 0}));
    ASSERT_GS_OK(gs_lm_add(sum.data(), -0.5f, weight.data(), by.data(), 3));
    EXPECT_EQ(sum.read(), (std::vector<float>{3.5f, 9.5f, 0}));
}

// The mean of the updates of two sets of images, weighted with their diagonals: equation 7 of 3DGS-LM.
TEST(LmSolver, TheMeanOfUpdatesIsWeightedWithTheirDiagonals) {
    const device_vector<float> sum(std::vector<float>(3)), weights(std::vector<float>(3)), mean(size_t{3});
    const device_vector<float> d1(std::vector<float>{1, 0, 0}), x1(std::vector<float>{2, 0, 0});
    const device_vector<float> d2(std::vector<float>{3, 5, 0}), x2(std::vector<float>{6, 7, 0});
    const device_vector<double> dot(std::vector<double>{0});
    for (const auto &[d, x] : {std::pair(&d1, &x1), std::pair(&d2, &x2)}) {
        ASSERT_GS_OK(gs_lm_add(sum.data(), 1, d->data(), x->data(), 3));
        ASSERT_GS_OK(gs_lm_add(weights.data(), 1, NULL, d->data(), 3));
    }
    ASSERT_GS_OK(gs_lm_precondition_diagonal(weights.data(), sum.data(), 3, mean.data(), dot.data()));
    EXPECT_EQ(mean.read(), (std::vector<float>{5, 7, 0})); // (1 2 + 3 6) / 4, 5 7 / 5, none
}

TEST(LmSolver, UnitsAreAddedWhereSomethingIsSeen) {
    parameters values(2, 0), seen(2, 0);
    const double log_scale[6] = {-1, -2, -3, 0, 0, 0}, quaternion[8] = {0, 2, 0, 0, 1, 0, 0, 0};
    std::copy_n(log_scale, 6, values.log_scale);
    std::copy_n(quaternion, 8, values.quaternion);
    // Everything of the first Gaussian is seen but its opacity, nothing of the second.
    for (int k = 0; k < 3; k++) seen.mean[k] = seen.log_scale[k] = seen.sh[k] = 1;
    for (int k = 0; k < 4; k++) seen.quaternion[k] = 1;
    const device_gaussians gaussians(values), diagonal(seen);
    ASSERT_GS_OK(gs_lm_add_units(gaussians.get(), 4, diagonal.get()));
    const parameters sum(diagonal);
    for (int k = 0; k < 3; k++) {
        EXPECT_NEAR(sum.mean[k], 1 + 4 * std::exp(4.0), 1e-3);
        EXPECT_EQ(sum.log_scale[k], 5);
        EXPECT_EQ(sum.sh[k], 5);
        EXPECT_EQ(sum.mean[3 + k] + sum.log_scale[3 + k] + sum.sh[3 + k], 0);
    }
    for (int k = 0; k < 4; k++) EXPECT_EQ(sum.quaternion[k], 2);
    EXPECT_EQ(sum.opacity_logit[0], 0);
    EXPECT_EQ(sum.opacity_logit[1], 0);
}

// Five Gaussians of which each but the first goes too far in another way; the last has a needle's short axis
// to go along.
TEST(LmSolver, AnUpdateIsLimitedForEachGaussian) {
    const float radius = 0.3f;
    parameters values(5, 1), update(5, 1);
    for (int i = 0; i < 5; i++) {
        values.quaternion[4 * i + 1] = 2; // half a turn about x: y and z point the other way
        for (int k = 0; k < 3; k++) {
            values.log_scale[3 * i + k] = -1 - k;
            update.mean[3 * i + k] = 0.01 * std::exp(-1.0 - k);
            update.log_scale[3 * i + k] = 0.1;
        }
        update.quaternion[4 * i + 1] = 50; // along itself: turns nothing
        update.quaternion[4 * i + 2] = 0.02;
        update.opacity_logit[i] = -0.5;
        std::fill_n(update.sh + 12 * i, 12, 7.0);
    }
    double farther[5] = {1, 4, 3, 2, 6}; // times the radius
    update.log_scale[3 * 1 + 2] = -farther[1] * 0.3;
    update.quaternion[4 * 2 + 0] = std::sqrt(std::pow(farther[2] * 0.3, 2) - std::pow(0.02, 2)); // |q| is 2
    update.opacity_logit[3] = farther[3] * 0.6;
    values.log_scale[3 * 4 + 2] = -9;
    const double short_axis = std::exp(-1.0 - 2), rest = 2 * 0.01 * 0.01;
    update.mean[3 * 4 + 2] = short_axis * std::sqrt(std::pow(farther[4] * 0.3, 2) - rest);
    const device_gaussians gaussians(values), device(update);
    const parameters before(device);
    ASSERT_GS_OK(gs_lm_limit(gaussians.get(), radius, device.get()));
    const parameters after(device);
    for (int i = 0; i < 5; i++)
        for (int group = 0; group < GROUPS; group++) {
            const GroupRange range = group_of(before, i, group);
            for (int64_t k = range.begin; k < range.begin + range.size; k++) {
                const double wanted = group == SH ? 7 : before.mean[k] / farther[i];
                EXPECT_NEAR(after.mean[k], wanted, group == SH ? 0 : 1e-5 * std::fabs(after.mean[k])) << i;
            }
        }
    for (int k = 0; k < 3; k++) EXPECT_EQ(after.mean[k], before.mean[k]); // near enough: to the last bit
}

// What a quadratic model says of a step: two sums over values.
TEST(LmSolver, DotProductsWithAWeightAndWithout) {
    const size_t values = 300000;
    const std::vector<float> weight = random_floats(1, values, 0, 1), a = random_floats(2, values, 0, 1),
                             b = random_floats(3, values, 0, 1);
    const device_vector<float> of_weight(weight), of_a(a), of_b(b);
    const device_vector<double> sums(std::vector<double>{1, 2});
    ASSERT_GS_OK(gs_lm_add_dot(NULL, of_a.data(), of_b.data(), int64_t(values), sums.data()));
    ASSERT_GS_OK(gs_lm_add_dot(of_weight.data(), of_a.data(), of_b.data(), int64_t(values), sums.data() + 1));
    double plain = 1, weighted = 2;
    for (size_t i = 0; i < values; i++) {
        plain += double(a[i]) * b[i];
        weighted += double(weight[i]) * a[i] * b[i];
    }
    EXPECT_NEAR(sums.read()[0], plain, 1e-9 * plain);
    EXPECT_NEAR(sums.read()[1], weighted, 1e-9 * weighted);
}

} // namespace lm_tests
