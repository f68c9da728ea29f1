// SPDX-License-Identifier: MIT
// Sums in the warp are at least as accurate as plain atomics, whose order is random: root mean square error
// against a sum in double, over inputs that are hard on float sums.

#include "device_test.cuh"
#include <algorithm>
#include <cmath>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

using distwar::strategy;

namespace {

enum { BLOCKS = 48, THREADS = 512, VALUES = 4, MOST_KEYS = 4 };

// Each block adds to `keys` targets of its own; all lanes are active.
template <strategy S>
__global__ void sum_up(int keys, const float *values, float *targets) {
    const int thread = int(blockIdx.x * blockDim.x + threadIdx.x);
    float val[VALUES];
    for (int k = 0; k < VALUES; ++k) val[k] = values[thread * VALUES + k];
    distwar::reduce<S>(distwar::all_lanes, true, int(blockIdx.x) * MOST_KEYS + int(threadIdx.x) % keys, val,
                       distwar::record<float>{targets, VALUES});
}

template <strategy S>
double error_of(int keys, const std::vector<float> &values, const std::vector<double> &sums) {
    const device_array<float> device_values(values), targets(std::vector<float>(sums.size(), 0.0f));
    set_schedule(77); // lanes and warps in random order
    run(BLOCKS, THREADS, sum_up<S>, keys, device_values.get(), targets.get());
    const std::vector<float> found = targets.download();
    double squares = 0;
    for (size_t i = 0; i < sums.size(); ++i) squares += (found[i] - sums[i]) * (found[i] - sums[i]);
    return std::sqrt(squares);
}

// Adds the values that draw_value returns, in random order, and compares the strategies.
template <typename Draw>
void compare(Draw draw_value) {
    draw random(5);
    for (const int keys : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << keys << " keys");
        std::vector<float> values(BLOCKS * THREADS * VALUES);
        std::vector<double> sums(BLOCKS * MOST_KEYS * VALUES, 0.0);
        for (int block = 0; block < BLOCKS; ++block) {
            float *const first = &values[block * THREADS * VALUES];
            for (int i = 0; i < THREADS * VALUES; ++i) first[i] = draw_value(random, i);
            for (int i = THREADS * VALUES - 1; i > 0; --i) std::swap(first[i], first[random.below(i + 1)]);
            for (int i = 0; i < THREADS * VALUES; ++i)
                sums[(block * MOST_KEYS + i / VALUES % keys) * VALUES + i % VALUES] += first[i];
        }
        const double atomic = error_of<strategy::atomic>(keys, values, sums);
        EXPECT_GT(atomic, 0);
        EXPECT_LE(error_of<strategy::serial>(keys, values, sums), atomic) << "serial";
        if (keys == 1) { // with more keys it sends plain atomics
            EXPECT_LE(error_of<strategy::bfly>(keys, values, sums), atomic) << "bfly";
        }
        EXPECT_LE(error_of<strategy::tree>(keys, values, sums), atomic) << "tree";
    }
}

float uniform(draw &random) { // 0..1
    return float(random.bits() >> 8) / float(1 << 24);
}

TEST(Accuracy, IsThatOfAtomicsOrBetter) {
    const auto over_8_decades = [](draw &random) { return std::pow(10.0f, 8 * uniform(random)); };
    compare([&](draw &random, int) { return over_8_decades(random); });
    compare([&](draw &random, int) { return over_8_decades(random) * (random.below(2) ? 1.0f : -1.0f); });
    float last = 0; // every second value nearly cancels the one before
    compare([&](draw &random, int i) {
        last = i % 2 ? uniform(random) - last : 1e6f * uniform(random);
        return last;
    });
    compare(
        [](draw &random, int i) { return i == 0 ? 1e7f : uniform(random); }); // many small beside one large
}

} // namespace
