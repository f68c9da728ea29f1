// SPDX-License-Identifier: MIT
// The tuner's code on docs/kernel.md, compiled and run. The page shows the lines between [name] and [end].
#include "shared_array.h"
#include <distwar/block.cuh>
#include <distwar/reduce.cuh>
#include <distwar/tune.h>
#include <gtest/gtest.h>
#include <vector>

namespace {

template <distwar::strategy Strategy>
__global__ void scatter_add(const int *row_of, const float *gradient, int adds, float *table, int threshold) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < adds;
    const float value[1] = {active ? gradient[i] : 0};
    distwar::reduce<Strategy>(distwar::all_lanes, active, active ? row_of[i] : 0, value,
                              distwar::record<float>{table, 1}, threshold);
}

// [shared]
// Gradient and hessian of each row to its bin; the bins of a block lie in shared memory. strategy::atomic is what
// reduce does with in_shared, strategy::tree sums in the warp first.
template <distwar::strategy Strategy>
__global__ void histogram(const int *bin_of, const float2 *value_of, int rows, int threshold, float *sums) {
    __shared__ distwar::accumulator<2, 256> bins;
    bins.clear();
    const int step = int(gridDim.x * blockDim.x);
    for (int first = int(blockIdx.x * blockDim.x); first < rows; first += step) {
        const int row = first + int(threadIdx.x);
        const bool active = row < rows;
        const float2 both = active ? value_of[row] : float2{0, 0};
        distwar::reduce<Strategy>(distwar::all_lanes, active, active ? bin_of[row] : 0,
                                  distwar::values(both).of, bins.sink(), threshold);
    }
    bins.flush_consecutive(0, 256, distwar::record<float>{sums, 2});
}
// [end]

TEST(Choosing, ATunerChoosesWhileTheProgramRuns) {
    const shared_array<int> rows({0, 1, 1, 2, 1, 0, 1});
    const shared_array<float> gradients({1, 2, 3, 4, 5, 6, 7}), sums(std::vector<float>(3));
    const int *const row_of = rows.get();
    const float *const gradient = gradients.get();
    float *const table = sums.get();
    const cudaStream_t stream = nullptr;
    const int adds = 7, blocks = 1, threads = 32, steps = 40;
    // [tune]
    const tune_candidate candidates[] = {{DISTWAR_TREE, 0}, // the first is used until more is known
                                         {DISTWAR_TREE, 8},
                                         {DISTWAR_TREE, 16},
                                         {DISTWAR_SERIAL, 16},
                                         {DISTWAR_ATOMIC, 33}};
    tuner choice;
    tune_events timer;
    tune_init(&choice, candidates, 5);
    tune_events_open(&timer);
    for (int step = 0; step < steps; ++step) {
        tune_launch next;
        tune_events_begin(&timer, &choice, stream, &next);
        distwar::with_strategy(distwar::strategy(next.strategy), [&](auto strategy) {
            launch(stream, blocks, threads, scatter_add<strategy>, row_of, gradient, adds, table,
                   next.threshold);
        });
        tune_events_end(&timer, &choice, stream, adds); // the time is about proportional to `adds`
    }
    tune_events_close(&timer);
    // [end]
    EXPECT_EQ(choice.launches, steps);
    EXPECT_GT(choice.measured, 0);
    EXPECT_EQ(sums.content(), (std::vector<float>{7 * steps, 17 * steps, 4 * steps}));
}

TEST(Choosing, ATunerChoosesInSharedMemory) {
    enum { BINS = 256, STEPS = 30 };
    std::vector<int> bins;
    std::vector<float2> values;
    std::vector<float> expected(2 * BINS);
    const int rows = 1000;
    for (int i = 0; i < rows; ++i) {
        bins.push_back(i % 3 ? i * 7 % BINS : 0), values.push_back({float(i % 5), 1});
        expected[size_t(2 * bins[i])] += STEPS * values[i].x, expected[size_t(2 * bins[i] + 1)] += STEPS;
    }
    const shared_array<int> bin_array(bins);
    const shared_array<float2> value_array(values);
    const shared_array<float> sum_array(std::vector<float>(2 * BINS));
    const int *const bin_of = bin_array.get();
    const float2 *const value_of = value_array.get();
    float *const sums = sum_array.get();
    const cudaStream_t stream = nullptr;
    const int blocks = 2, threads = 64;
    tuner choice;
    tune_events timer;
    // [tune shared]
    const tune_candidate either[] = {{DISTWAR_ATOMIC, 33}, {DISTWAR_TREE, 0}};
    tune_init(&choice, either, 2);
    // [end]
    tune_events_open(&timer);
    for (int step = 0; step < STEPS; ++step) {
        tune_launch next;
        tune_events_begin(&timer, &choice, stream, &next);
        distwar::with_strategy<distwar::strategy::atomic, distwar::strategy::tree>(
            distwar::strategy(next.strategy), [&](auto strategy) {
                launch(stream, blocks, threads, histogram<strategy>, bin_of, value_of, rows, next.threshold,
                       sums);
            });
        tune_events_end(&timer, &choice, stream, rows);
    }
    tune_events_close(&timer);
    EXPECT_EQ(choice.launches, STEPS);
    EXPECT_EQ(sum_array.content(), expected);
}

} // namespace
