// SPDX-License-Identifier: MIT
// What the reductions cost, as their headers promise: shuffles, votes and atomics counted by simt. Built for
// simt only.

#include "device_test.cuh"
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

using distwar::all_lanes;
using distwar::strategy;

namespace {

template <strategy S, int K>
__global__ void reduce_once(unsigned lanes, unsigned active, const int *keys, int threshold, float *targets) {
    const unsigned lane = threadIdx.x;
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    if (lanes >> lane & 1)
        distwar::reduce<S>(lanes, active >> lane & 1, keys[lane], val, distwar::record<float>{targets, K},
                           threshold);
}

struct cost {
    uint64_t shuffles, votes, matches, reductions, atomic_instructions, atomic_requests;
};

template <strategy S, int K>
cost cost_of(unsigned lanes, unsigned active, const std::vector<int> &keys, int threshold,
             unsigned schedule = 0) {
    const device_array<int> device_keys(keys);
    const device_array<float> targets(std::vector<float>(32 * K, 0.0f));
    set_schedule(schedule);
    simt_counters_reset();
    run(1, 32, reduce_once<S, K>, lanes, active, device_keys.get(), threshold, targets.get());
    const simt_counters counted = simt_counters_read();
    EXPECT_EQ(counted.atomic_bytes, counted.atomic_requests * sizeof(float));
    EXPECT_EQ(counted.barriers + counted.warp_syncs, 0u);
    // simt counts matches and reductions as votes too
    return {counted.shuffles,
            counted.votes - counted.matches - counted.reductions,
            counted.matches,
            counted.reductions,
            counted.atomic_instructions,
            counted.atomic_requests};
}

void expect_cost(cost found, uint64_t shuffles, uint64_t votes, uint64_t matches, uint64_t reductions,
                 uint64_t atomic_instructions, uint64_t atomic_requests) {
    EXPECT_EQ(found.shuffles, shuffles);
    EXPECT_EQ(found.votes, votes);
    EXPECT_EQ(found.matches, matches);
    EXPECT_EQ(found.reductions, reductions);
    EXPECT_EQ(found.atomic_instructions, atomic_instructions);
    EXPECT_EQ(found.atomic_requests, atomic_requests);
}

unsigned lowest(int count) {
    return count == 32 ? all_lanes : (1u << count) - 1;
}

// Runs BODY with a constant K of 1, 9 and 16.
template <typename Body>
void for_each_k(Body body) {
    body(std::integral_constant<int, 1>());
    body(std::integral_constant<int, 9>());
    body(std::integral_constant<int, 16>());
}

const std::vector<int> one_key(32, 3);

TEST(ReductionCost, OfNoActiveLaneIsAtMostOneVote) {
    for_each_k([](auto k) {
        for (const unsigned lanes : {all_lanes, 0x00ff0f01u, 1u}) {
            SCOPED_TRACE(lanes);
            expect_cost(cost_of<strategy::serial, k>(lanes, 0, one_key, 0), 0, 1, 0, 0, 0, 0);
            expect_cost(cost_of<strategy::atomic, k>(lanes, 0, one_key, 0), 0, 0, 0, 0, 0, 0);
            const uint64_t votes = lanes == all_lanes;
            expect_cost(cost_of<strategy::bfly, k>(lanes, 0, one_key, 0), 0, votes, 0, 0, 0, 0);
        }
    });
}

TEST(ReductionCost, OfAtomicIsKInstructionsAndARequestForEachLaneAndValue) {
    for_each_k([](auto k) {
        for (const int n : {1, 17, 32})
            expect_cost(cost_of<strategy::atomic, k>(all_lanes, lowest(n), one_key, 0), 0, 0, 0, 0, k, n * k);
    });
}

TEST(ReductionCost, OfBflyIs5KShufflesAndOneForTheKey) {
    for_each_k([](auto k) {
        for (const unsigned active : {all_lanes, 0xffff0000u, 0x00100400u}) {
            const cost found = cost_of<strategy::bfly, k>(all_lanes, active, one_key, 0);
            expect_cost(found, 5 * k + 1, 2, 0, 0, k, k);
        }
    });
}

TEST(ReductionCost, OfBflyWithoutOneKeyOrAWholeWarpIsThatOfAtomics) {
    std::vector<int> two_keys = one_key;
    two_keys[19] = 4;
    for_each_k([&](auto k) {
        expect_cost(cost_of<strategy::bfly, k>(all_lanes, all_lanes, two_keys, 0), 1, 2, 0, 0, k, 32 * k);
        // the other key in an inactive lane does not count
        expect_cost(cost_of<strategy::bfly, k>(all_lanes, ~(1u << 19), two_keys, 0), 5 * k + 1, 2, 0, 0, k,
                    k);
        expect_cost(cost_of<strategy::bfly, k>(0x7fffffff, 0x7fffffff, one_key, 0), 0, 0, 0, 0, k, 31 * k);
    });
}

TEST(ReductionCost, OfBflyChangesExactlyAtTheThreshold) {
    for (int n = 1; n <= 32; ++n)
        for (int threshold = 0; threshold <= 33; ++threshold) {
            SCOPED_TRACE(testing::Message() << n << " lanes, threshold " << threshold);
            const cost found = cost_of<strategy::bfly, 2>(all_lanes, lowest(n), one_key, threshold);
            if (n >= threshold)
                expect_cost(found, 11, 2, 0, 0, 2, 2);
            else
                expect_cost(found, 0, 1, 0, 0, 2, 2 * n);
        }
}

TEST(ReductionCost, OfSerialIsAShuffleForEachFurtherLaneAndValue) {
    for_each_k([](auto k) {
        for (int n = 1; n <= 32; ++n) {
            const cost found = cost_of<strategy::serial, k>(all_lanes, lowest(n), one_key, 0);
            expect_cost(found, k * (n - 1), 1, 1, 1, k, k);
        }
    });
}

TEST(ReductionCost, OfSerialIsThatOfItsLargestSummedGroup) {
    enum { K = 3 };
    const int sizes[4] = {17, 9, 5, 1}; // groups of lanes far apart: lane 7 i mod 32
    std::vector<int> keys(32);
    for (int group = 0, placed = 0; group < 4; ++group)
        for (int i = 0; i < sizes[group]; ++i) keys[7 * placed++ % 32] = group;
    for (int threshold = -1; threshold <= 40; ++threshold) {
        SCOPED_TRACE(threshold);
        uint64_t largest = 1, requests = 0;
        for (const int size : sizes) {
            requests += size >= threshold ? K : K * size;
            if (size >= threshold && uint64_t(size) > largest) largest = size;
        }
        const uint64_t looks = threshold <= 32; // or the threshold cannot be met
        for (const unsigned schedule : {0u, 1u, 2u}) {
            const cost found = cost_of<strategy::serial, K>(all_lanes, all_lanes, keys, threshold, schedule);
            expect_cost(found, K * (largest - 1), 1, looks, looks, K, requests);
        }
    }
}

// Atomics that atomic_update sends.
template <typename T, typename Op>
__global__ void update_once(T *target, T value) {
    distwar::atomic_update(target, value, Op{});
}
template <typename T, typename Op>
uint64_t requests_of(T memory, T value) {
    const device_array<T> target(std::vector<T>(1, memory));
    simt_counters_reset();
    run(1, 1, update_once<T, Op>, target.get(), value);
    return simt_counters_read().atomic_requests;
}

TEST(AtomicUpdateCost, IsNoRequestWhereNothingChanges) {
    EXPECT_EQ((requests_of<float, distwar::add>(5, 1)), 1u);
    EXPECT_EQ((requests_of<float, distwar::add>(5, 0.0f)), 0u);
    EXPECT_EQ((requests_of<float, distwar::add>(5, -0.0f)), 0u);
    EXPECT_EQ((requests_of<float, distwar::add>(-0.0f, 0.0f)), 0u);
    EXPECT_EQ((requests_of<double, distwar::add>(5, 0)), 0u);
    EXPECT_EQ((requests_of<int, distwar::add>(5, 0)), 0u);
    EXPECT_EQ((requests_of<float, distwar::add>(1e20f, 1)), 0u); // lost to rounding
    EXPECT_EQ((requests_of<float, distwar::minimum>(5, 4)), 1u);
    EXPECT_EQ((requests_of<float, distwar::minimum>(5, 5)), 0u);
    EXPECT_EQ((requests_of<double, distwar::maximum>(5, 6)), 1u);
    EXPECT_EQ((requests_of<double, distwar::maximum>(5, 4)), 0u);
}

} // namespace
