// SPDX-License-Identifier: MIT
// The lane functions that the reductions call.

#include "device_test.cuh"
#include <distwar/warp.cuh>
#include <gtest/gtest.h>

namespace {

__global__ void record_lanes(unsigned *lane) {
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    lane[thread] = distwar::lane_id();
}

TEST(Lanes, AreCountedThroughBlocksOfThreeDimensions) {
    for (const dim3 block : {dim3(70, 1, 1), dim3(8, 8, 1), dim3(5, 3, 7)}) {
        const unsigned threads = block.x * block.y * block.z;
        const device_array<unsigned> lane(threads, 99);
        run(1, block, record_lanes, lane.get());
        const std::vector<unsigned> found = lane.download();
        for (unsigned thread = 0; thread < threads; ++thread) EXPECT_EQ(found[thread], thread % 32);
    }
}

struct answers {
    unsigned with_key, share, shared, largest, largest_by_votes;
};

__global__ void ask(unsigned lanes, unsigned active, const unsigned *keys, const unsigned *values,
                    answers *found) {
    const unsigned lane = threadIdx.x;
    if (!(lanes >> lane & 1)) return;
    answers mine;
    mine.with_key = distwar::lanes_with_key(lanes, keys[lane]);
    mine.share = distwar::detail::share_one_key(lanes, active, active >> lane & 1, keys[lane], mine.shared);
    mine.largest = distwar::detail::largest(lanes, values[lane]);
    mine.largest_by_votes = distwar::detail::largest_by_votes(lanes, values[lane]);
    found[lane] = mine;
}

TEST(Lanes, FindEqualKeysAndTheLargestValue) {
    draw random(11);
    int shared = 0;
    for (int round = 0; round < 300; ++round) {
        const unsigned lanes = round % 3 ? random.bits_or_one() : distwar::all_lanes;
        unsigned active = lanes & random.bits();
        if (round % 2) active &= random.bits() & random.bits() & random.bits();
        if (active == 0) active = lanes;
        const unsigned key_count = 1 + random.below(5), value_count = 1 + random.below(64);
        std::vector<unsigned> keys(32), values(32);
        for (int lane = 0; lane < 32; ++lane) {
            keys[lane] = random.below(key_count);
            values[lane] = random.below(value_count);
        }
        const device_array<unsigned> device_keys(keys), device_values(values);
        const device_array<answers> answer(32, answers{});
        set_schedule(round);
        run(1, 32, ask, lanes, active, device_keys.get(), device_values.get(), answer.get());

        unsigned largest = 0, keys_seen = 0;
        for (int lane = 0; lane < 32; ++lane) {
            if (lanes >> lane & 1 && values[lane] > largest) largest = values[lane];
            if (active >> lane & 1) keys_seen |= 1u << keys[lane];
        }
        const bool one_key = (keys_seen & (keys_seen - 1)) == 0;
        shared += one_key;
        const std::vector<answers> found = answer.download();
        for (int lane = 0; lane < 32; ++lane) {
            if (!(lanes >> lane & 1)) continue;
            unsigned with_key = 0;
            for (int other = 0; other < 32; ++other)
                if (lanes >> other & 1 && keys[other] == keys[lane]) with_key |= 1u << other;
            EXPECT_EQ(found[lane].with_key, with_key);
            EXPECT_EQ(found[lane].share, unsigned(one_key));
            EXPECT_EQ(found[lane].shared, keys[__builtin_ctz(active)]);
            EXPECT_EQ(found[lane].largest, largest);
            EXPECT_EQ(found[lane].largest_by_votes, largest);
        }
    }
    EXPECT_GT(shared, 50);
    EXPECT_LT(shared, 250);
}

} // namespace
