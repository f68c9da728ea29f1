// SPDX-License-Identifier: MIT
//
// The reference's Adam against its moments written out as sums over all steps.
#include "finite_difference.h"

#include <gtest/gtest.h>

namespace {

TEST(Adam, FollowsTheWeightedMeansOfAllGradients) {
    constexpr int64_t count = 3, steps = 40;
    constexpr int degree = 1;
    reference_gaussians values = reference_gaussians_create(count, degree);
    reference_gaussians gradients = reference_gaussians_create(count, degree);
    reference_gaussians first = reference_gaussians_create(count, degree);
    reference_gaussians second = reference_gaussians_create(count, degree);
    const gs_adam_rates rates = {0.5f, 0.25f, 0.125f, 2, 4, 8, 0};
    const int64_t n = reference_gaussians_values(&values);
    std::vector<double> expected(static_cast<size_t>(n)), rate(static_cast<size_t>(n));
    for (int64_t i = 0; i < count; i++)
        for (int group = 0; group < GROUPS; group++) {
            const GroupRange range = group_of(values, i, group);
            const double of_group[GROUPS] = {0.5, 0.25, 0.125, 2, 8};
            for (int64_t k = 0; k < range.size; k++)
                rate[static_cast<size_t>(range.begin + k)] = group == SH && k < 3 ? 4 : of_group[group];
        }
    std::vector<std::vector<double>> history;
    for (int64_t step = 1; step <= steps; step++) {
        history.push_back(random_weights(static_cast<size_t>(n), static_cast<unsigned>(step)));
        std::copy(history.back().begin(), history.back().end(), gradients.mean);
        reference_adam(&values, &gradients, &first, &second, &rates, step);
        for (size_t k = 0; k < static_cast<size_t>(n); k++) {
            // Means with weights beta^age, which the bias correction normalises.
            double mean = 0, mean_weight = 0, square = 0, square_weight = 0;
            for (size_t s = 0; s < history.size(); s++) {
                const double age = static_cast<double>(history.size() - 1 - s), g = history[s][k];
                mean += std::pow(0.9, age) * g;
                mean_weight += std::pow(0.9, age);
                square += std::pow(0.999, age) * g * g;
                square_weight += std::pow(0.999, age);
            }
            expected[k] -= rate[k] * (mean / mean_weight) / std::sqrt(square / square_weight);
            ASSERT_NEAR(values.mean[k], expected[k], 1e-10 * rate[k]) << "step " << step << ", value " << k;
        }
    }
    for (reference_gaussians *each : {&values, &gradients, &first, &second})
        reference_gaussians_destroy(each);
}

} // namespace
