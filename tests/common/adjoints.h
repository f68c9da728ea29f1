// SPDX-License-Identifier: MIT
// What the tests of adjoints share, which sum_values adds up by every strategy.
#ifndef TESTS_ADJOINTS_H
#define TESTS_ADJOINTS_H

#include "derivative.h"
#include "device_vector.h"
#include "strategies/strategies.h"
#include <gtest/gtest.h>
#include <set>
#include <vector>
#ifdef DISTWAR_SIMT
#include "simt.h"
#endif

// The values as floats.
inline void write(float *device, const std::vector<double> &values) {
    const std::vector<float> rounded(values.begin(), values.end());
    device_upload(device, rounded.data(), rounded.size() * sizeof(float));
}

// A schedule of its own for a run. The order of blocks and warps varies by itself on a GPU, and by the seed under simt.
inline void set_run(unsigned run) {
#ifdef DISTWAR_SIMT
    simt_set_seed(run);
#endif
    (void)run;
}

// Gradients of the size that l1_loss gives, between -1 and 1 over their number; floats.
inline std::vector<double> gradient_like_l1(size_t count) {
    std::vector<double> out = random_weights(count, 5);
    for (double &g : out) g = double(float(g / double(count)));
    return out;
}

// A frame of a program, drawn.
struct drawn_frame {
    const char *name = "";
    size_t colors = 0;
    float *color = nullptr, *color_gradient = nullptr;
    const sum_memory *sums = nullptr;

    virtual ~drawn_frame() = default;
    virtual void add(distwar_policy policy, lane_histogram *lanes) = 0; // from color_gradient to sums
    virtual std::vector<float> gradient() = 0;                          // that follows from the sums
    std::vector<float> backward(distwar_policy policy) {
        write(color_gradient, gradient_like_l1(colors));
        add(policy, nullptr);
        return gradient();
    }
};

// Every strategy of sum_values, at each of the thresholds if it has one.
inline std::vector<distwar_policy> policies(const std::vector<int> &thresholds) {
    const candidate_list list =
        candidates_of(sum_strategies, DISTWAR_STRATEGY_COUNT, thresholds.data(), thresholds.size());
    return {list.rows, list.rows + list.count};
}

// What is drawn, to `worst`, and backward() by every strategy. begins: of the gradient's groups, and the end.
inline void expect_as(drawn_frame &d, const std::vector<double> &color, double worst,
                      const std::vector<double> &gradient, const std::vector<size_t> &begins) {
    const std::vector<float> shown = downloaded(d.color, d.colors);
    GroupError of_color;
    for (size_t i = 0; i < d.colors; i++) {
        ASSERT_NEAR(shown[i], color[i], worst) << d.name; // not if it is NaN
        of_color.add(shown[i], color[i]);
    }
    EXPECT_LT(of_color.relative(), 1e-5) << d.name;
    for (const distwar_policy policy : policies({0, 6, 33})) {
        const std::vector<float> found = d.backward(policy);
        for (size_t group = 0; group + 1 < begins.size(); group++) {
            GroupError error;
            for (size_t v = begins[group]; v < begins[group + 1]; v++) error.add(found[v], gradient[v]);
            EXPECT_LT(error.relative(), 1e-4) << d.name << ", " << distwar_strategy_name(policy.strategy)
                                              << " at " << policy.balance_threshold << ": group " << group;
        }
    }
    fault why;
    EXPECT_TRUE(sum_memory_is_exact(d.sums, &why)) << why.text;
}

// DISTWAR_FIXED gives the same bits in every run, and tells of a gradient that is NaN. Under simt this also shows that plain
// atomics do differ.
inline void expect_fixed_is_exact(drawn_frame &d) {
    const std::vector<float> first = d.backward({DISTWAR_FIXED, 0});
    for (unsigned run = 1; run <= 6; run++) {
        set_run(run);
        EXPECT_EQ(d.backward({DISTWAR_FIXED, run % 2 ? 0 : int(5 * run)}), first) << run;
    }
#ifdef DISTWAR_SIMT
    std::set<std::vector<float>> others;
    for (unsigned run = 1; run <= 4; run++) {
        set_run(run);
        others.insert(d.backward({DISTWAR_ATOMIC, 0}));
    }
    EXPECT_GT(others.size(), 1u);
#endif
    set_run(0);
    fault why;
    EXPECT_TRUE(sum_memory_is_exact(d.sums, &why)) << why.text;
    write(d.color_gradient, std::vector<double>(d.colors, NAN));
    d.add({DISTWAR_FIXED, 0}, nullptr);
    EXPECT_FALSE(sum_memory_is_exact(d.sums, &why));
}

// Of the commits of an adjoint: the active lanes of all. Each commit has a number of keys, no more than lanes and at least
// one where there is one.
inline unsigned long long counted_lanes(drawn_frame &d) {
    const device_vector<lane_histogram> device(std::vector<lane_histogram>(1));
    d.add({DISTWAR_TREE, 0}, device.data());
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
