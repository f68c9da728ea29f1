// SPDX-License-Identifier: MIT
// The tuner's code on docs/kernel.md, compiled and run. The page shows the lines between [name] and [end].
#include "shared_array.h"
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

} // namespace
