// SPDX-License-Identifier: MIT
// What calls in chunks and steps of a tree cost, counted by simt: keys are compared once for all chunks, and each chunk
// is a tree.

#include "chunk_calls.cuh"
#include <gtest/gtest.h>

using distwar::all_lanes;
using distwar::strategy;

namespace {

struct cost {
    uint64_t shuffles, votes, matches, reductions, instructions, requests;
    bool operator==(const cost &other) const {
        return shuffles == other.shuffles && votes == other.votes && matches == other.matches &&
               reductions == other.reductions && instructions == other.instructions &&
               requests == other.requests;
    }
};
std::ostream &operator<<(std::ostream &out, const cost &c) {
    return out << c.shuffles << " shuffles, " << c.votes << " votes, " << c.matches << " matches, "
               << c.reductions << " reductions, " << c.instructions << " atomic instructions, " << c.requests
               << " requests";
}
template <typename Call, int Chunk>
__global__ void add_ones(warp_call call, int keys, int count, float *to) {
    const int lane = int(threadIdx.x);
    if (!(call.lanes >> lane & 1)) return;
    Call::template add_n<Chunk>(
        call, call.active >> lane & 1, lane % keys, count, [](int) { return 1.0f; },
        distwar::record<float>{to, size_t(count)});
}
template <typename Call, int K>
__global__ void add_array_of_ones(warp_call call, int keys, int, float *to) {
    const int lane = int(threadIdx.x);
    if (!(call.lanes >> lane & 1)) return;
    float val[K];
    for (float &each : val) each = 1;
    Call::add(call, call.active >> lane & 1, lane % keys, val, distwar::record<float>{to, K});
}
__global__ void add_some_ones(warp_call call, int keys, int count, float *to) {
    const int lane = int(threadIdx.x);
    float val[40];
    for (float &each : val) each = 1;
    by_group::add_n<16>(call, true, lane % keys, count, val, distwar::record<float>{to, size_t(count)});
}
cost cost_of(void (*kernel)(warp_call, int, int, float *), int keys, int count, int threshold = 0,
             unsigned lanes = all_lanes) {
    const device_array<float> to(std::vector<float>(KEYS * count, 0.0f));
    warp_call call = {};
    call.lanes = call.active = lanes;
    call.threshold = threshold;
    simt_counters_reset();
    run(1, 32, kernel, call, keys, count, to.get());
    const simt_counters c = simt_counters_read();
    return {
        c.shuffles,       c.votes - c.matches - c.reductions, c.matches, c.reductions, c.atomic_instructions,
        c.atomic_requests};
}

TEST(ChunkCost, OfOneKeyIsTheTreesOfTheChunks) {
    using tree = by_strategy<strategy::tree>;
    EXPECT_EQ(cost_of(add_ones<tree, 16>, 1, 100), (cost{1 + 7 * 16, 2, 0, 0, 7, 100}));
    EXPECT_EQ(cost_of(add_ones<tree, 32>, 1, 513), (cost{1 + 17 * 31, 2, 0, 0, 17, 513}));
    EXPECT_EQ(cost_of(add_ones<tree, 64>, 1, 64), (cost{1 + 62, 2, 0, 0, 2, 64}));
    EXPECT_EQ(cost_of(add_ones<by_group, 16>, 1, 100), (cost{1 + 7 * 16, 2, 0, 0, 7, 100}));
    EXPECT_EQ(cost_of(add_ones<by_strategy<strategy::bfly>, 8>, 1, 12), (cost{1 + 2 * 40, 2, 0, 0, 12, 12}));
    EXPECT_EQ(cost_of(add_array_of_ones<tree, 100>, 1, 100), (cost{1 + 3 * 31 + 6, 2, 0, 0, 4, 100}));
    EXPECT_EQ(cost_of(add_array_of_ones<tree, 65>, 1, 65), (cost{1 + 2 * 31 + 5, 2, 0, 0, 3, 65}));
    EXPECT_EQ(cost_of(add_array_of_ones<by_group, 128>, 1, 128), (cost{1 + 4 * 31, 2, 0, 0, 4, 128}));
}
TEST(ChunkCost, OfSeveralKeysHasOneMatch) {
    using tree = by_strategy<strategy::tree>;
    EXPECT_EQ(cost_of(add_ones<tree, 16>, 8, 100), (cost{1 + 7 * 8 * (1 + 16), 3, 1, 1, 7 * 8, 800}));
    EXPECT_EQ(cost_of(add_ones<by_group, 16>, 8, 100), (cost{1 + 7 * 8 * (1 + 16), 3, 1, 1, 7 * 8, 800}));
    EXPECT_EQ(cost_of(add_ones<by_group, 16>, 8, 100, 4), (cost{1 + 7 * 8 * (1 + 16), 4, 1, 1, 7 * 8, 800}));
    EXPECT_EQ(cost_of(add_ones<by_strategy<strategy::serial>, 8>, 8, 12),
              (cost{2 * 8 * 3, 1, 1, 1, 12, 12 * 8}));
    EXPECT_EQ(cost_of(add_array_of_ones<tree, 100>, 8, 100).matches, 1u);
    EXPECT_EQ(cost_of(add_array_of_ones<tree, 100>, 8, 100).votes, 3u);
}
TEST(ChunkCost, OfSmallGroupsIsPlainAtomics) {
    using tree = by_strategy<strategy::tree>;
    EXPECT_EQ(cost_of(add_ones<tree, 16>, 8, 100, 5).requests, 3200u);
    EXPECT_EQ(cost_of(add_ones<tree, 16>, 1, 100, 33), (cost{0, 1, 0, 0, 100, 3200}));
    EXPECT_EQ(cost_of(add_ones<by_strategy<strategy::atomic>, 16>, 8, 100), (cost{0, 0, 0, 0, 100, 3200}));
}
TEST(ChunkCost, OfAnArrayIsThatOfTheChunksInUse) {
    EXPECT_EQ(cost_of(add_some_ones, 1, 16), (cost{1 + 16, 2, 0, 0, 1, 16}));
    EXPECT_EQ(cost_of(add_some_ones, 1, 17), (cost{1 + 2 * 16, 2, 0, 0, 2, 17}));
    EXPECT_EQ(cost_of(add_some_ones, 1, 40), (cost{1 + 2 * 16 + 9, 2, 0, 0, 3, 40}));
}
TEST(ChunkCost, OfNoValuesIsTheSearch) {
    EXPECT_EQ(cost_of(add_ones<by_group, 16>, 1, 0), (cost{1, 2, 0, 0, 0, 0}));
}

template <int First, int End, int K>
__global__ void sum_of_lanes_once() {
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    distwar::tree_of_lanes<First, End>(val);
}
template <int First, int End, int K>
uint64_t shuffles_of_lanes() {
    simt_counters_reset();
    run(1, 32, sum_of_lanes_once<First, End, K>);
    return simt_counters_read().shuffles;
}

TEST(TreeOfLanes, CostsHalfOfTheValuesAtEachOfItsSteps) {
    EXPECT_EQ((shuffles_of_lanes<0, 5, 9>()), 5u + 3 + 2 + 1 + 1);
    EXPECT_EQ((shuffles_of_lanes<3, 5, 6>()), 3u + 2);
    EXPECT_EQ((shuffles_of_lanes<0, 3, 4>()), 2u + 1 + 1);
    EXPECT_EQ((shuffles_of_lanes<4, 5, 64>()), 32u);
}

} // namespace
