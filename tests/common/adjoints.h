// SPDX-License-Identifier: MIT
// What the tests of adjoints share, which sum_values adds up by every strategy.
#ifndef TESTS_ADJOINTS_H
#define TESTS_ADJOINTS_H

#include "derivative.h"
#include "device_vector.h"
#include "strategies/strategies.h"
#include <gtest/gtest.h>
#include <vector>
#ifdef DISTWAR_SIMT
#include "simt.h"
#endif

// The values as floats.
inline void write(float *device, const std::vector<double> &values) {
    const std::vector<float> rounded(values.begin(), values.end());
    device_upload(device, rounded.data(), rounded.size() * sizeof(float));
}

// Gradients of the size that l1_loss gives, between -1 and 1 over their number; floats.
inline std::vector<double> gradient_like_l1(size_t count) {
    std::vector<double> out = random_weights(count, 5);
    for (double &g : out) g = double(float(g / double(count)));
    return out;
}

inline void expect_color(const char *name, const std::vector<float> &color,
                         const std::vector<double> &expected, double worst) {
    GroupError error;
    for (size_t i = 0; i < color.size(); i++) {
        ASSERT_NEAR(color[i], expected[i], worst) << name; // not if it is NaN
        error.add(color[i], expected[i]);
    }
    EXPECT_LT(error.relative(), 1e-5) << name;
}

// Every strategy of sum_values, at each of the thresholds if it has one.
inline std::vector<distwar_policy> policies(const std::vector<int> &thresholds) {
    const candidate_list list =
        candidates_of(sum_strategies, DISTWAR_STRATEGY_COUNT, thresholds.data(), thresholds.size());
    return {list.rows, list.rows + list.count};
}

// sums(policy): what the adjoint leaves, a std::vector<float>. begins: of its groups, and the end.
template <typename Sums>
void expect_sums_of_every_strategy(const char *name, const Sums &sums, const std::vector<double> &expected,
                                   const std::vector<size_t> &begins) {
    for (const distwar_policy policy : policies({0, 6, 33})) {
        const std::vector<float> found = sums(policy);
        for (size_t group = 0; group + 1 < begins.size(); group++) {
            GroupError error;
            for (size_t v = begins[group]; v < begins[group + 1]; v++) error.add(found[v], expected[v]);
            EXPECT_LT(error.relative(), 1e-4) << name << ", " << distwar_strategy_name(policy.strategy)
                                              << " at " << policy.balance_threshold << ": group " << group;
        }
    }
}

// DISTWAR_FIXED gives the same bits in every run. The order of blocks and warps varies by itself on a GPU,
// and by the seed under simt.
// Under simt this also shows that plain atomics do differ.
template <typename Sums>
void expect_fixed_has_the_same_bits(const Sums &sums) {
    const std::vector<float> first = sums(distwar_policy{DISTWAR_FIXED, 0});
    for (unsigned run = 1; run <= 6; run++) {
#ifdef DISTWAR_SIMT
        simt_set_seed(run);
#endif
        EXPECT_EQ(sums(distwar_policy{DISTWAR_FIXED, run % 2 ? 0 : int(5 * run)}), first) << run;
    }
#ifdef DISTWAR_SIMT
    std::vector<std::vector<float>> others;
    for (unsigned run = 1; run <= 4; run++) {
        simt_set_seed(run);
        others.push_back(sums(distwar_policy{DISTWAR_ATOMIC, 0}));
    }
    simt_set_seed(0);
    EXPECT_FALSE(others[0] == others[1] && others[1] == others[2] && others[2] == others[3]);
#endif
}

// backward(policy) of a gradient that is NaN.
template <typename Backward>
void expect_nan_is_told(const sum_memory &sums, float *color_gradient, size_t count,
                        const Backward &backward) {
    const std::vector<double> bad(count, NAN);
    write(color_gradient, bad);
    backward(distwar_policy{DISTWAR_FIXED, 0});
    fault why;
    EXPECT_FALSE(sum_memory_is_exact(&sums, &why));
}

// Of the commits that count(lanes) counts: the active lanes of all. Each commit has a number of keys, no more than lanes
// and at least one where there is one.
template <typename Count>
unsigned long long counted_lanes(const Count &count) {
    const device_vector<lane_histogram> device(std::vector<lane_histogram>(1));
    count(device.data());
    const lane_histogram counts = device.read()[0];
    unsigned long long lanes = 0, commits = 0, keys = 0, with_keys = 0;
    for (unsigned n = 0; n <= 32; n++) {
        lanes += n * counts.active_lanes[n];
        commits += counts.active_lanes[n];
        keys += n * counts.distinct_keys[n];
        with_keys += counts.distinct_keys[n];
    }
    EXPECT_EQ(commits, with_keys);
    EXPECT_LE(keys, lanes);
    EXPECT_GE(keys, commits - counts.active_lanes[0]);
    return lanes;
}

#endif
