// SPDX-License-Identifier: MIT
// Schedules: they depend on the seed alone, and are fair.
#include "device_array.h"

#include <set>

namespace {

class Schedule : public Simt {};

__global__ void order(int *next, int *out) {
    __syncthreads();
    out[blockIdx.x * blockDim.x + unsigned(atomicAdd(&next[blockIdx.x], 1))] = int(threadIdx.x);
}

std::vector<int> orders(std::uint64_t seed, int threads) {
    simt_set_seed(seed);
    simt_set_threads(threads);
    Device_array<int> next(6), out(6 * 80);
    EXPECT_EQ(run(6, 80, order, next, out), cudaSuccess);
    return std::vector<int>(&out[0], &out[0] + 6 * 80);
}

TEST_F(Schedule, RepeatsForTheSameSeedOnAnyNumberOfThreads) {
    for (std::uint64_t seed = 0; seed < 5; seed++) {
        const std::vector<int> once = orders(seed, 1);
        EXPECT_EQ(once, orders(seed, 1));
        EXPECT_EQ(once, orders(seed, 4));
    }
}

TEST_F(Schedule, DiffersBySeedAndByBlock) {
    std::set<std::vector<int>> seen;
    for (std::uint64_t seed = 1; seed <= 20; seed++) {
        const std::vector<int> all = orders(seed, 1);
        for (auto block = all.begin(); block != all.end(); block += 80)
            EXPECT_TRUE(seen.insert({block, block + 80}).second);
    }
    EXPECT_EQ(seen.size(), 120u);
}

// A lost update: two lanes read before either writes.
__global__ void lossy(int *sum) {
    const int seen = atomicAdd(sum, 0);
    atomicExch(sum, seen + 1);
}

TEST_F(Schedule, FindsALostUpdate) {
    Device_array<int> sum(1, 0);
    ASSERT_EQ(run(1, 32, lossy, sum), cudaSuccess);
    EXPECT_EQ(sum[0], 32); // the fixed order loses no update
    for (std::uint64_t seed = 1; seed <= 10; seed++) {
        simt_set_seed(seed);
        sum[0] = 0;
        ASSERT_EQ(run(1, 32, lossy, sum), cudaSuccess);
        EXPECT_LT(sum[0], 32);
        EXPECT_GT(sum[0], 0);
    }
}

// Lane 0 spins until the last thread of the block has set the flag.
__global__ void flag(int *cell) {
    if (threadIdx.x + 1 == blockDim.x) {
        __threadfence();
        atomicExch(cell, 1);
    } else if (threadIdx.x == 0) {
        while (atomicAdd(cell, 0) == 0) __nanosleep(10);
    }
    __syncthreads();
}

__global__ void lock(int *cell, int *sum) {
    bool done = false;
    while (!done) {
        if (atomicCAS(cell, 0, 1) != 0) continue;
        const int seen = *static_cast<volatile int *>(sum);
        __threadfence();
        *static_cast<volatile int *>(sum) = seen + 1;
        __threadfence();
        atomicExch(cell, 0);
        done = true;
    }
}

TEST_F(Schedule, LanesThatSpinLetOthersRun) {
    under_seeds(10, [] {
        Device_array<int> cell(1), sum(1);
        ASSERT_EQ(run(1, 200, flag, cell), cudaSuccess);
        cell[0] = 0;
        ASSERT_EQ(run(8, 64, lock, cell, sum), cudaSuccess);
        EXPECT_EQ(sum[0], 512);
    });
}

} // namespace
