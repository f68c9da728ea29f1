// SPDX-License-Identifier: MIT
// Groups of coalesced threads, under several schedules. On a GPU too, but for counts and for how simt divides them.
#include "groups_test.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <set>

namespace cg = cooperative_groups;

namespace {

// Counts the even lanes and the odd lanes, with one atomic a group.
__global__ void count_by_groups(int *counts, unsigned *size) {
    const unsigned t = threadIdx.x;
    if (t % 2) {
        const cg::coalesced_group group = cg::coalesced_threads();
        if (group.thread_rank() == 0) atomicAdd(&counts[1], int(group.size()));
        size[t] = group.size();
    } else {
        const cg::coalesced_group group = cg::coalesced_threads();
        if (group.thread_rank() == 0) atomicAdd(&counts[0], int(group.size()));
        size[t] = group.size();
        group.sync();
    }
}

#ifdef __SIMT__
TEST_F(Groups, CoalescedThreadsAreThoseOfOneLine) {
    Device_array<int> counts(2, 0);
    Device_array<unsigned> size(70);
    ASSERT_EQ(run(1, 70, count_by_groups, counts, size), cudaSuccess);
    EXPECT_EQ(counts[0], 35);
    EXPECT_EQ(counts[1], 35);
    for (unsigned t = 0; t < 70; t++) EXPECT_EQ(size[t], t < 64 ? 16u : 3u);
    expect_counts(0, 6, 0, 0);
    EXPECT_EQ(simt_counters_read().atomic_instructions, 6u);
}

// Any division is legal, so other schedules divide; a kernel that needs all lanes together shows here.
TEST_F(Groups, CoalescedThreadsAreDividedAtRandom) {
    std::set<unsigned> sizes;
    for (std::uint64_t seed = 1; seed <= 50; seed++) {
        simt_set_seed(seed);
        Device_array<int> counts(2, 0);
        Device_array<unsigned> size(70);
        ASSERT_EQ(run(1, 70, count_by_groups, counts, size), cudaSuccess);
        EXPECT_EQ(counts[0], 35);
        EXPECT_EQ(counts[1], 35);
        for (unsigned t = 0; t < 70; t++) sizes.insert(size[t]);
    }
    EXPECT_EQ(sizes.count(1), 1u);
    EXPECT_EQ(sizes.count(16), 1u);
    EXPECT_GT(sizes.size(), 10u);
}

#endif
TEST_F(Groups, CoalescedThreadsCountEachLaneOnce) {
    under_schedules([] {
        Device_array<int> counts(2, 0);
        Device_array<unsigned> size(70);
        ASSERT_EQ(run(1, 70, count_by_groups, counts, size), cudaSuccess);
        EXPECT_EQ(counts[0], 35);
        EXPECT_EQ(counts[1], 35);
        for (unsigned t = 0; t < 70; t++) EXPECT_TRUE(size[t] >= 1 && size[t] <= 16) << size[t];
    });
}

// Groups in a loop that lanes leave at different times, while other lanes wait at a barrier.
__global__ void ragged(int *sum, int *calls) {
    const int rounds = int(threadIdx.x % 7);
    for (int i = 0; i < rounds; i++) {
        const cg::coalesced_group group = cg::coalesced_threads();
        const int total = cg::reduce(group, i + 1, cg::plus<int>());
        cg::invoke_one(group, [&] { atomicAdd(sum, total); });
        if (i == 2) {
            __threadfence();
            atomicAdd(calls, 1);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(calls, *sum * 1000);
}

TEST_F(Groups, CoalescedThreadsInALoop) {
    int total = 0, third = 0;
    for (int t = 0; t < 64; t++) {
        total += t % 7 * (t % 7 + 1) / 2;
        third += t % 7 > 2;
    }
    under_schedules([&] {
        Device_array<int> sum(1, 0), calls(1, 0);
        ASSERT_EQ(run(1, 64, ragged, sum, calls), cudaSuccess);
        EXPECT_EQ(sum[0], total);
        EXPECT_EQ(calls[0], third + 1000 * total);
    });
}

// Lane 0 spins for what a lane does after coalesced_threads: the lanes there do not wait for it forever.
__global__ void spin_for_a_group(int *flag, unsigned *size) {
    if (threadIdx.x == 0) {
        while (atomicAdd(flag, 0) == 0) {
        }
    } else {
        const cg::coalesced_group group = cg::coalesced_threads();
        *size = group.size();
        if (group.thread_rank() == 0) atomicExch(flag, 1);
    }
}

TEST_F(Groups, CoalescedThreadsDoNotWaitForALaneThatSpins) {
#ifdef __SIMT__
    simt_set_step_limit(1000000);
#endif
    under_schedules([] {
        Device_array<int> flag(1, 0);
        Device_array<unsigned> size(1);
        ASSERT_EQ(run(1, 32, spin_for_a_group, flag, size), cudaSuccess);
        EXPECT_EQ(flag[0], 1);
        EXPECT_GE(size[0], 1u);
    });
}

#ifdef __SIMT__
// A lane that fences on its way still joins.
__global__ void late(unsigned *size) {
    if (threadIdx.x % 4 == 1)
        for (int i = 0; i < 20; i++) __threadfence();
    size[threadIdx.x] = cg::coalesced_threads().size();
}

TEST_F(Groups, CoalescedThreadsWaitForLateLanes) {
    Device_array<unsigned> size(32);
    ASSERT_EQ(run(1, 32, late, size), cudaSuccess);
    for (int t = 0; t < 32; t++) EXPECT_EQ(size[t], 32u);
}
#endif

} // namespace
