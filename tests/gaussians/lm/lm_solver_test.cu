// SPDX-License-Identifier: MIT
// Conjugate gradients, and what else Levenberg and Marquardt's method does to vectors of parameters.
#include "kernel_frame.h"
#include "gs_lm.h"
#include "derivative.h"
#include <algorithm>
#include <cmath>

namespace {

// Converges in as many iterations as there are unknowns, and stays there.
TEST(LmSolver, ConvergesOnASmallSystemAndThenRests) {
    const int n = 6, iterations = 20;
    std::vector<double> a(n * n);
    const std::vector<double> factor = random_weights(n * n, 3), right = random_weights(n, 4);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                a[size_t(i * n + j)] += factor[size_t(i * n + k)] * factor[size_t(j * n + k)];
    for (int k = 0; k < n; k++) a[size_t(2 * n + k)] = a[size_t(k * n + 2)] = 0; // an unknown nobody sees
    std::vector<float> b, d;
    for (int i = 0; i < n; i++) {
        b.push_back(i == 2 ? 0 : float(right[size_t(i)]));
        d.push_back(float(a[size_t(i * n + i)]));
    }
    const float lambda = 0.5f;
    const device_vector<float> right_device(b), diagonal(d), x(size_t{n}), residual(size_t{n}),
        direction(size_t{n});
    const device_vector<double> scalars(size_t(2 * iterations + 1));
    const gs_lm_pcg pcg = {n, x.data(), residual.data(), direction.data(), scalars.data()};
    ASSERT_GS_OK(gs_lm_pcg_start(&pcg, right_device.data(), iterations, NULL));
    ASSERT_GS_OK(gs_lm_precondition_diagonal(diagonal.data(), residual.data(), n, direction.data(),
                                             scalars.data(), NULL));
    for (int k = 0; k < iterations; k++) {
        const std::vector<float> p = direction.read();
        std::vector<float> product(n);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) product[size_t(i)] += float(a[size_t(i * n + j)]) * p[size_t(j)];
        const device_vector<float> q(product);
        ASSERT_GS_OK(gs_lm_pcg_step(&pcg, diagonal.data(), lambda, k, q.data(), NULL));
        ASSERT_GS_OK(gs_lm_precondition_diagonal(diagonal.data(), residual.data(), n, q.data(),
                                                 scalars.data() + 2 * k + 2, NULL));
        ASSERT_GS_OK(gs_lm_pcg_update(&pcg, q.data(), k, NULL));
    }
    const std::vector<float> solution = x.read();
    EXPECT_EQ(solution[2], 0);
    for (int i = 0; i < n; i++) {
        double left = lambda * a[size_t(i * n + i)] * solution[size_t(i)];
        for (int j = 0; j < n; j++) left += a[size_t(i * n + j)] * solution[size_t(j)];
        EXPECT_NEAR(left, b[size_t(i)], 1e-4);
    }
}

// Where nothing is left to do, or nobody sees anything, quotients are 0 / 0.
TEST(LmSolver, RestsWhereThereIsNothingToDo) {
    const int n = 300, iterations = 2; // more than a block
    const device_vector<float> nothing(std::vector<float>(size_t{n})), x(std::vector<float>(size_t{n}, 5)),
        residual(size_t{n}), direction(size_t{n}), product(size_t{n});
    const device_vector<double> scalars(std::vector<double>(2 * iterations + 1, 5));
    const gs_lm_pcg pcg = {n, x.data(), residual.data(), direction.data(), scalars.data()};
    ASSERT_GS_OK(gs_lm_pcg_start(&pcg, nothing.data(), iterations, NULL));
    ASSERT_GS_OK(gs_lm_precondition_diagonal(nothing.data(), residual.data(), n, direction.data(),
                                             scalars.data(), NULL));
    for (int k = 0; k < iterations; k++) {
        ASSERT_EQ(direction.read(), std::vector<float>(size_t{n})) << k;
        const device_vector<float> q(std::vector<float>(size_t{n}));
        ASSERT_GS_OK(gs_lm_pcg_step(&pcg, nothing.data(), 1, k, q.data(), NULL));
        ASSERT_GS_OK(gs_lm_precondition_diagonal(nothing.data(), residual.data(), n, product.data(),
                                                 scalars.data() + 2 * k + 2, NULL));
        ASSERT_GS_OK(gs_lm_pcg_update(&pcg, product.data(), k, NULL));
    }
    EXPECT_EQ(x.read(), std::vector<float>(size_t{n}));
    EXPECT_EQ(direction.read(), std::vector<float>(size_t{n}));
    EXPECT_EQ(scalars.read(), std::vector<double>(2 * iterations + 1));
}

TEST(LmSolver, AddsAMultiple) {
    const device_vector<float> sum(std::vector<float>{5, 7, 0}), by(std::vector<float>{3, 5, 0}),
        weight(std::vector<float>{2, 0, 4});
    ASSERT_GS_OK(gs_lm_add(sum.data(), 0.5f, NULL, by.data(), 3, NULL));
    EXPECT_EQ(sum.read(), (std::vector<float>{6.5f, 9.5f, 0}));
    ASSERT_GS_OK(gs_lm_add(sum.data(), -0.5f, weight.data(), by.data(), 3, NULL));
    EXPECT_EQ(sum.read(), (std::vector<float>{3.5f, 9.5f, 0}));
}

// The mean of the updates of two sets of images, weighted with their diagonals: equation 7 of 3DGS-LM.
TEST(LmSolver, TheMeanOfUpdatesIsWeightedWithTheirDiagonals) {
    const device_vector<float> sum(std::vector<float>(3)), weights(std::vector<float>(3)), mean(size_t{3});
    const device_vector<float> d1(std::vector<float>{1, 0, 0}), x1(std::vector<float>{2, 0, 0});
    const device_vector<float> d2(std::vector<float>{3, 5, 0}), x2(std::vector<float>{6, 7, 0});
    const device_vector<double> dot(std::vector<double>{0});
    for (const auto &[d, x] : {std::pair(&d1, &x1), std::pair(&d2, &x2)}) {
        ASSERT_GS_OK(gs_lm_add(sum.data(), 1, d->data(), x->data(), 3, NULL));
        ASSERT_GS_OK(gs_lm_add(weights.data(), 1, NULL, d->data(), 3, NULL));
    }
    ASSERT_GS_OK(gs_lm_precondition_diagonal(weights.data(), sum.data(), 3, mean.data(), dot.data(), NULL));
    EXPECT_EQ(mean.read(), (std::vector<float>{5, 7, 0})); // (1 2 + 3 6) / 4, 5 7 / 5, none
}

TEST(LmSolver, UnitsAreAddedWhereSomethingIsSeen) {
    reference_gaussians values = reference_gaussians_create(2, 0), seen = reference_gaussians_create(2, 0);
    const double log_scale[6] = {-1, -2, -3, 0, 0, 0}, quaternion[8] = {0, 2, 0, 0, 1, 0, 0, 0};
    std::copy_n(log_scale, 6, values.log_scale);
    std::copy_n(quaternion, 8, values.quaternion);
    // Everything of the first Gaussian is seen but its opacity, nothing of the second.
    for (int k = 0; k < 3; k++) seen.mean[k] = seen.log_scale[k] = seen.sh[k] = 1;
    for (int k = 0; k < 4; k++) seen.quaternion[k] = 1;
    const device_gaussians gaussians(values), diagonal(seen);
    ASSERT_GS_OK(gs_lm_add_units(gaussians.get(), 4, diagonal.get(), NULL));
    reference_gaussians sum = diagonal.read();
    for (int k = 0; k < 3; k++) {
        EXPECT_NEAR(sum.mean[k], 1 + 4 * std::exp(4.0), 1e-3);
        EXPECT_EQ(sum.log_scale[k], 5);
        EXPECT_EQ(sum.sh[k], 5);
        EXPECT_EQ(sum.mean[3 + k] + sum.log_scale[3 + k] + sum.sh[3 + k], 0);
    }
    for (int k = 0; k < 4; k++) EXPECT_EQ(sum.quaternion[k], 2);
    EXPECT_EQ(sum.opacity_logit[0], 0);
    EXPECT_EQ(sum.opacity_logit[1], 0);
    for (reference_gaussians *all : {&values, &seen, &sum}) reference_gaussians_destroy(all);
}

// Five Gaussians of which each but the first goes too far in another way; the last has a needle's short axis
// to go along.
TEST(LmSolver, AnUpdateIsLimitedForEachGaussian) {
    const float radius = 0.3f;
    reference_gaussians values = reference_gaussians_create(5, 1), update = reference_gaussians_create(5, 1);
    for (int i = 0; i < 5; i++) {
        values.quaternion[4 * i + 1] = 2; // half a turn about x: y and z point the other way
        for (int k = 0; k < 3; k++) values.log_scale[3 * i + k] = -1 - k;
        for (int k = 0; k < 3; k++) update.mean[3 * i + k] = 0.01 * std::exp(-1.0 - k);
        for (int k = 0; k < 3; k++) update.log_scale[3 * i + k] = 0.1;
        update.quaternion[4 * i + 1] = 50; // along itself: turns nothing
        update.quaternion[4 * i + 2] = 0.02;
        update.opacity_logit[i] = -0.5;
        for (int k = 0; k < 12; k++) update.sh[12 * i + k] = 7;
    }
    double farther[5] = {1, 4, 3, 2, 6}; // times the radius
    update.log_scale[3 * 1 + 2] = -farther[1] * 0.3;
    update.quaternion[4 * 2 + 0] = std::sqrt(std::pow(farther[2] * 0.3, 2) - std::pow(0.02, 2)); // |q| is 2
    update.opacity_logit[3] = farther[3] * 0.6;
    values.log_scale[3 * 4 + 2] = -9;
    const double short_axis = std::exp(-1.0 - 2), rest = 2 * 0.01 * 0.01;
    update.mean[3 * 4 + 2] = short_axis * std::sqrt(std::pow(farther[4] * 0.3, 2) - rest);
    const device_gaussians gaussians(values), device(update);
    const reference_gaussians before = device.read();
    ASSERT_GS_OK(gs_lm_limit(gaussians.get(), radius, device.get(), NULL));
    reference_gaussians after = device.read();
    for (int i = 0; i < 5; i++) {
        const auto scaled = [&](const double *a, const double *b, int n) {
            for (int k = 0; k < n; k++)
                EXPECT_NEAR(a[n * i + k], b[n * i + k] / farther[i], 1e-5 * std::fabs(a[n * i + k])) << i;
        };
        scaled(after.mean, before.mean, 3);
        scaled(after.log_scale, before.log_scale, 3);
        scaled(after.quaternion, before.quaternion, 4);
        scaled(after.opacity_logit, before.opacity_logit, 1);
        for (int k = 0; k < 12; k++) EXPECT_EQ(after.sh[12 * i + k], 7);
    }
    for (int k = 0; k < 3; k++) EXPECT_EQ(after.mean[k], before.mean[k]); // near enough: to the last bit
    EXPECT_EQ(gs_lm_limit(gaussians.get(), 0, device.get(), NULL), GS_INVALID_ARGUMENT);
    reference_gaussians read = before;
    for (reference_gaussians *all : {&values, &update, &after, &read}) reference_gaussians_destroy(all);
}

// What a quadratic model says of a step: two sums over values.
TEST(LmSolver, DotProductsWithAWeightAndWithout) {
    const size_t values = 300000;
    const std::vector<float> weight = random_floats(1, values, 0, 1), a = random_floats(2, values, 0, 1),
                             b = random_floats(3, values, 0, 1);
    const device_vector<float> of_weight(weight), of_a(a), of_b(b);
    const device_vector<double> sums(std::vector<double>{1, 2});
    ASSERT_GS_OK(gs_lm_add_dot(NULL, of_a.data(), of_b.data(), int64_t(values), sums.data(), NULL));
    ASSERT_GS_OK(
        gs_lm_add_dot(of_weight.data(), of_a.data(), of_b.data(), int64_t(values), sums.data() + 1, NULL));
    double plain = 1, weighted = 2;
    for (size_t i = 0; i < values; i++) {
        plain += double(a[i]) * b[i];
        weighted += double(weight[i]) * a[i] * b[i];
    }
    EXPECT_NEAR(sums.read()[0], plain, 1e-9 * plain);
    EXPECT_NEAR(sums.read()[1], weighted, 1e-9 * weighted);
}

} // namespace
