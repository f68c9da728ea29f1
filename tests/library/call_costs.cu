// SPDX-License-Identifier: MIT
// What fixed point, pairs, chunks, the one call, groups and counters cost is what their headers state. Built for simt only.

#include "costs.cuh"
#include <distwar/fixed.cuh>
#include <distwar/queue.cuh>

using distwar::add;
using distwar::all_lanes;
using distwar::uniform_key;

namespace {

using floats = distwar::record<float>;

// ---- fixed point and pairs

TEST(Cost, OfFixedIsThatOfTree) {
    for (const std::vector<int> &keys :
         {one_key, groups_of({16, 16}), groups_of({8, 8, 8, 8}), groups_of({})})
        for (const int threshold : {0, 12, 33})
            EXPECT_EQ(
                (cost_of<FIXED, 9, RECORD, long long, int, add, false, float>(call_of(keys, threshold))),
                (cost_of<TREE, 9>(keys, threshold)));
}

// A pair costs what a float costs: half the shuffles and atomics of its two values.
template <call_kind Call, int K>
void expect_cost_of_pairs(int keys, uint64_t shuffles, uint64_t requests) {
    std::vector<int> key_of;
    for (int lane = 0; lane < 32; ++lane) key_of.push_back(lane * keys / 32);
    const cost of_floats = cost_of<Call, K>(key_of);
    EXPECT_EQ(of_floats.shuffles, shuffles) << K;
    EXPECT_EQ(of_floats.requests, requests) << K;
    EXPECT_EQ((cost_of<Call, K, RECORD, __half2>(call_of(key_of))), of_floats);
    EXPECT_EQ((cost_of<Call, K, RECORD, __nv_bfloat162>(call_of(key_of))), of_floats);
}
TEST(Cost, OfAPairIsThatOfAFloat) {
    expect_cost_of_pairs<TREE, 5>(1, 1 + 3 + 2 + 1 + 1 + 1, 5); // ten floats: 5 + 3 + 2 + 1 + 1
    expect_cost_of_pairs<TREE, 9>(1, 1 + 12, 9);
    expect_cost_of_pairs<TREE, 9>(2, 1 + 2 * (1 + 12), 18);
    expect_cost_of_pairs<TREE, 2>(16, 1 + 2, 32); // side by side
    expect_cost_of_pairs<SERIAL, 5>(1, 5 * 31, 5);
    expect_cost_of_pairs<BFLY, 5>(1, 1 + 5 * 5, 5);
    expect_cost_of_pairs<GROUP, 5>(1, 1 + 8, 5);
    expect_cost_of_pairs<ATOMIC, 5>(1, 0, 5 * 32);
}

// ---- chunks: keys are compared once for all, and each chunk is a tree

template <call_kind Call, int Chunk>
__global__ void add_ones(warp_call call, int count, float *to) {
    call_n_with<Call, Chunk>(
        call, true, call.key[threadIdx.x], count, [](int) { return 1.0f; }, floats{to, size_t(count)});
}
cost cost_of_chunks(void (*kernel)(warp_call, int, float *), int keys, int values, int threshold = 0) {
    const device_array<float> to(KEYS * values, {});
    return count(kernel, call_of(keys_in_turn(keys), threshold), values, to.get());
}
TEST(Cost, OfChunksIsTheTreesOfTheChunks) {
    EXPECT_EQ(cost_of_chunks(add_ones<TREE, 16>, 1, 100), cost(1 + 7 * 16, 2, 0, 0, 7, 100));
    EXPECT_EQ(cost_of_chunks(add_ones<TREE, 32>, 1, 513), cost(1 + 17 * 31, 2, 0, 0, 17, 513));
    EXPECT_EQ(cost_of_chunks(add_ones<TREE, 64>, 1, 64), cost(1 + 62, 2, 0, 0, 2, 64));
    EXPECT_EQ(cost_of_chunks(add_ones<GROUP, 16>, 1, 100), cost(1 + 7 * 16, 2, 0, 0, 7, 100));
    EXPECT_EQ(cost_of_chunks(add_ones<BFLY, 8>, 1, 12), cost(1 + 2 * 40, 2, 0, 0, 12, 12));
    EXPECT_EQ((cost_of<TREE, 100>(one_key)), cost(1 + 3 * 31 + 6, 2, 0, 0, 4, 100));
    EXPECT_EQ((cost_of<TREE, 65>(one_key)), cost(1 + 2 * 31 + 5, 2, 0, 0, 3, 65));
    EXPECT_EQ((cost_of<GROUP, 128>(one_key)), cost(1 + 4 * 31, 2, 0, 0, 4, 128));
    // Several keys: one match.
    EXPECT_EQ(cost_of_chunks(add_ones<TREE, 16>, 8, 100), cost(1 + 7 * 8 * (1 + 16), 3, 1, 1, 7 * 8, 800));
    EXPECT_EQ(cost_of_chunks(add_ones<GROUP, 16>, 8, 100), cost(1 + 7 * 8 * (1 + 16), 3, 1, 1, 7 * 8, 800));
    EXPECT_EQ(cost_of_chunks(add_ones<GROUP, 16>, 8, 100, 4),
              cost(1 + 7 * 8 * (1 + 16), 4, 1, 1, 7 * 8, 800));
    EXPECT_EQ(cost_of_chunks(add_ones<SERIAL, 8>, 8, 12), cost(2 * 8 * 3, 1, 1, 1, 12, 12 * 8));
    EXPECT_EQ((cost_of<TREE, 100>(keys_in_turn(8))).matches, 1u);
    EXPECT_EQ((cost_of<TREE, 100>(keys_in_turn(8))).votes, 3u);
    // Small groups: plain atomics.
    EXPECT_EQ(cost_of_chunks(add_ones<TREE, 16>, 8, 100, 5).requests, 3200u);
    EXPECT_EQ(cost_of_chunks(add_ones<TREE, 16>, 1, 100, 33), cost(0, 1, 0, 0, 100, 3200));
    EXPECT_EQ(cost_of_chunks(add_ones<ATOMIC, 16>, 8, 100), cost(0, 0, 0, 0, 100, 3200));
    // Of no values the search.
    EXPECT_EQ(cost_of_chunks(add_ones<GROUP, 16>, 1, 0), cost(1, 2, 0, 0, 0, 0));
}
// The chunks of 16 that the caller does not choose.
template <bool Handle>
__global__ void reduce_17_values(float *targets) {
    const auto one = [](int) { return 1.0f; };
    const uniform_key<int> key = {0};
    if constexpr (Handle)
        distwar::group_lanes(all_lanes, true, key).add_n(17, one, floats{targets, 17});
    else
        distwar::reduce_n(all_lanes, true, key, 17, one, floats{targets, 17});
}
TEST(Cost, OfValuesInChunksIsATreeOf16Each) {
    const device_array<float> targets(17, {});
    EXPECT_EQ(count(reduce_17_values<false>, targets.get()).shuffles, 2u * 16);
    EXPECT_EQ(count(reduce_17_values<true>, targets.get()).shuffles, 2u * 16);
    EXPECT_EQ(targets.download(), std::vector<float>(17, 64.0f));
}

// ---- reduce without a strategy

TEST(OneCallCost, OfFewValues) {
    // 1 shuffle to the neighbour. Votes: for keys that rise, for the active lanes, for equal neighbours, for the leaders.
    EXPECT_EQ((cost_of<ONE_CALL, 1>(keys_in_turn(32))), cost(1, 1, 0, 0, 1, 32)); // all rise
    EXPECT_EQ((cost_of<ONE_CALL, 1>(keys_in_turn(8))),
              cost(1 + 2 * 2, 3 + 2, 1, 0, 1, 8)); // fours rise: 2 places of 4 groups, twice
    EXPECT_EQ((cost_of<ONE_CALL, 1>(keys_in_turn(6))),
              cost(1 + 3 * 2, 3 + 3, 1, 0, 1, 6)); // 3 pairs, 5 or 6 times
    EXPECT_EQ((cost_of<ONE_CALL, 1>(keys_in_turn(1))), cost(1 + 1 + 5, 4, 1, 0, 1, 1)); // one key
    EXPECT_EQ((cost_of<ONE_CALL, 1>(one_key, 0, 1u << 7)), cost(1, 2, 0, 0, 1, 1));     // one lane
    EXPECT_EQ((cost_of<ONE_CALL, 1>(one_key, 0, 0)), cost(1, 1, 0, 0, 0, 0));           // none
    EXPECT_EQ((cost_of<ONE_CALL, 1, RECORD, __half2>(call_of(keys_in_turn(32)))),
              cost(1, 4, 1, 0, 1, 32)); // by fours
    // Equal keys are found 5 distances at a time; not found, they are not there.
    std::vector<int> keys(32);
    for (int lane = 0; lane < 32; ++lane) keys[lane] = 3 * lane % KEYS;
    EXPECT_EQ((cost_of<ONE_CALL, 1>(keys)), cost(1 + 15, 3 + 3, 0, 0, 1, 32));
    for (int first = 0; first < 32; ++first)
        for (int distance = 1; distance <= 16; ++distance) {
            std::vector<int> two = keys;
            two[(first + distance) % 32] = two[first];
            const uint64_t looks = uint64_t(distance + 3) / 5;
            EXPECT_EQ((cost_of<ONE_CALL, 1>(two)), cost(1 + 5 * looks + 2, 3 + looks + 1 + 1, 1, 0, 1, 31))
                << first << ", " << distance;
        }
    EXPECT_EQ((cost_of<ONE_CALL, 4>(keys_in_turn(4))),
              cost(3 * 5, 2 + 3, 1, 0, 4, 4 * 4));                                   // of 8: three iterations
    EXPECT_EQ((cost_of<ONE_CALL, 9>(keys_in_turn(1))), cost(1 + 12, 2, 0, 0, 1, 9)); // reduce_tree
}
TEST(OneCallCost, InSharedMemoryIsThatOfThePlainAtomics) {
    EXPECT_EQ((cost_of<ONE_CALL, 4, SAID, float, int, add, true>(call_of(keys_in_turn(4)))),
              cost(0, 0, 0, 0, 4, 4 * 32));
}

// ---- groups

// The tree votes for all lanes with the largest group that it sums; group_lanes knows the largest of all.
TEST(GroupCost, IsThatOfTheTree) {
    const unsigned masks[][2] = {{all_lanes, all_lanes}, {all_lanes, 1u << 7}, {0x7ffffffe, 0x7ffefffe}};
    for (const auto &[lanes, active] : masks)
        for (const auto &sizes :
             std::vector<std::vector<int>>{{16, 16}, {30, 2}, {8, 8, 8, 8}, {2, 2, 2}, {3, 3, 2}, {}})
            for (const int threshold : {0, 1, 2, 3, 4, 8, 9, 32}) {
                SCOPED_TRACE(testing::Message() << testing::PrintToString(sizes) << ", threshold "
                                                << threshold << ", active " << active);
                const std::vector<int> keys = groups_of(sizes);
                const cost tree = cost_of<TREE, 9>(keys, threshold, active, lanes),
                           group = cost_of<GROUP, 9>(keys, threshold, active, lanes);
                EXPECT_EQ(group.instructions, tree.instructions);
                EXPECT_EQ(group.requests, tree.requests);
                // In a whole warp group_lanes compares the keys before it knows the threshold.
                const bool unseen = lanes == all_lanes && tree.votes == 1;
                EXPECT_EQ(group.shuffles, tree.shuffles + unseen);
            }
}

template <int K>
__global__ void add_times(warp_call call, int times, float *to) {
    const unsigned lane = threadIdx.x;
    if (!(call.lanes >> lane & 1)) return;
    float val[K];
    for (float &each : val) each = 1;
    const auto groups = distwar::group_lanes(call.lanes, call.active >> lane & 1, call.key[lane]);
    for (int i = 0; i < times; ++i) groups.add(val, floats{to, K}, call.threshold);
}
// Checks the cost of the handle alone and of each add: the third costs as much as the second.
template <int K>
void expect_cost(const cost &handle, const cost &add, unsigned lanes, unsigned active, int keys,
                 int threshold = 0) {
    SCOPED_TRACE(testing::Message() << "K " << K << ", " << keys << " keys, threshold " << threshold);
    const device_array<float> to(KEYS * K, {});
    for (const unsigned times : {0u, 1u, 3u}) {
        const cost found =
            count(add_times<K>, call_of(keys_in_turn(keys), threshold, active, lanes), int(times), to.get());
        EXPECT_EQ(found.shuffles, handle.shuffles + times * add.shuffles);
        EXPECT_EQ(found.votes, handle.votes + times * add.votes);
        EXPECT_EQ(found.matches, handle.matches);
        EXPECT_EQ(found.reductions, handle.reductions);
        EXPECT_EQ(found.requests, times * add.requests);
    }
}
TEST(GroupCost, OfFurtherSumsHasNoMatchAndNoVote) {
    const cost none(0, 1, 0, 0, 0, 0), one(1, 2, 0, 0, 0, 0), several(1, 3, 1, 1, 0, 0),
        of_part(0, 1, 1, 1, 0, 0);
    expect_cost<9>(none, {0, 0, 0, 0, 0, 0}, all_lanes, 0, 4);
    expect_cost<9>(one, {12, 0, 0, 0, 1, 9}, all_lanes, all_lanes, 1);
    expect_cost<9>(one, {12, 0, 0, 0, 1, 9}, all_lanes, 0x00010010, 1);
    expect_cost<9>(several, {4 * 13, 0, 0, 0, 4, 36}, all_lanes, all_lanes, 4);
    expect_cost<9>(several, {0, 0, 0, 0, 9, 9 * 32}, all_lanes, all_lanes, 32);
    expect_cost<4>(several, {3 * 4 + 2, 0, 0, 0, 4, 16}, all_lanes, all_lanes, 4); // side by side
    expect_cost<4>(several, {3 * 4 + 2, 0, 0, 0, 4, 16}, all_lanes, all_lanes, 4, 2);
    expect_cost<3>(of_part, {2 * 4 - 1, 0, 0, 0, 3, 3 * 6}, 0x00ffffff, 0x00ffffff, 6);
    // A threshold is a vote in a whole warp.
    expect_cost<9>(several, {4 * 13, 1, 0, 0, 4, 36}, all_lanes, all_lanes, 4, 8);
    expect_cost<9>(several, {0, 1, 0, 0, 9, 9 * 32}, all_lanes, all_lanes, 4, 9);
    expect_cost<9>(several, {0, 1, 0, 0, 9, 9 * 32}, all_lanes, all_lanes, 16, 3);
    expect_cost<4>(several, {0, 1, 0, 0, 4, 4 * 32}, all_lanes, all_lanes, 4, 9);
    expect_cost<3>(of_part, {0, 0, 0, 0, 3, 3 * 24}, 0x00ffffff, 0x00ffffff, 6, 5);
    expect_cost<9>(one, {0, 0, 0, 0, 9, 9 * 8}, all_lanes, 0xff, 1, 9); // too few are active
}
// The groups are found once for all keys.
__global__ void add_nodes(float *to) {
    const int cell = int(threadIdx.x) / 8;
    const auto cells = distwar::group_lanes(all_lanes, true, cell);
    for (int node = 0; node < 27; ++node)
        cells.add(distwar::values(1.0f, 2.0f), floats{to, 2}, distwar::at_key{cell + node});
}
TEST(GroupCost, OfOtherKeysIsOneMatch) {
    const device_array<float> to(64, {});
    const cost found = count(add_nodes, to.get());
    EXPECT_EQ(found.matches, 1u);
    EXPECT_EQ(found.shuffles, 1u + 27 * (3 * 3 - 1));
    EXPECT_EQ(found.requests, 27u * 4 * 2);
}

// ---- counters that return

enum fetch_form { VALUES, ONES, VALUES_AT_ONE, ONES_AT_ONE, SLOTS };
template <fetch_form Form, typename T>
__global__ void fetch_once(unsigned lanes, unsigned active, int keys, T *counters) {
    if (!(lanes >> threadIdx.x & 1)) return;
    const bool adds = active >> threadIdx.x & 1;
    const int key = int(threadIdx.x) % keys;
    if constexpr (Form == VALUES) distwar::fetch_add(lanes, adds, key, T(3), counters);
    if constexpr (Form == ONES) distwar::fetch_add(lanes, adds, key, counters);
    if constexpr (Form == VALUES_AT_ONE) distwar::fetch_add(lanes, adds, uniform_key{1}, T(3), counters);
    if constexpr (Form == ONES_AT_ONE) distwar::fetch_add(lanes, adds, uniform_key{1}, counters);
    if constexpr (Form == SLOTS) distwar::append(lanes, adds, counters);
}
template <fetch_form Form, typename T = unsigned>
cost cost_of_fetch(unsigned lanes, unsigned active, int keys) {
    const device_array<T> counters(KEYS, {});
    return count(fetch_once<Form, T>, lanes, active, keys, counters.get());
}
TEST(FetchCost, OfNoActiveLaneIsAVote) {
    for (const unsigned lanes : {all_lanes, 0x00ff0f01u}) {
        const cost a_vote(0, 1, 0, 0, 0, 0);
        EXPECT_EQ(cost_of_fetch<VALUES>(lanes, 0, 4), a_vote);
        EXPECT_EQ(cost_of_fetch<ONES>(lanes, 0, 4), a_vote);
        EXPECT_EQ(cost_of_fetch<VALUES_AT_ONE>(lanes, 0, 4), a_vote);
        EXPECT_EQ(cost_of_fetch<SLOTS>(lanes, 0, 4), a_vote);
    }
}
TEST(FetchCost, OfOneQueueIsAVoteAnAtomicAndAShuffle) {
    for (const unsigned active : {all_lanes, 0x80000000u, 0x00f0ff01u}) {
        const cost all(1, 1, 0, 0, 1, 1);
        EXPECT_EQ(cost_of_fetch<SLOTS>(all_lanes, active, 4), all);
        EXPECT_EQ(cost_of_fetch<ONES_AT_ONE>(all_lanes, active, 4), all);
        EXPECT_EQ((cost_of_fetch<ONES_AT_ONE, unsigned long long>(active, active, 4)), all);
    }
}
TEST(FetchCost, OfSeveralKeysIsAMatchAndAnAtomicEach) {
    for (const int keys : {1, 2, 7, 32}) {
        EXPECT_EQ(cost_of_fetch<ONES>(all_lanes, all_lanes, keys), cost(1, 1, 1, 0, 1, keys));
        int turns = 0;
        while ((1 << turns) * keys < 32) ++turns;
        EXPECT_EQ(cost_of_fetch<VALUES>(all_lanes, all_lanes, keys),
                  cost(1 + (turns ? 2 * turns - 1 : 0), 1, 1, 1, 1, keys));
    }
}
TEST(FetchCost, OfValuesAtOneKeyIs5Shuffles) {
    EXPECT_EQ(cost_of_fetch<VALUES_AT_ONE>(all_lanes, 0x7ffffff0, 1), cost(5 + 1, 1, 0, 0, 1, 1));
    EXPECT_EQ(cost_of_fetch<VALUES_AT_ONE>(0x00ffffff, 0x00000ff0, 1),
              cost(2 * 3 - 1 + 1, 1, 0, 0, 1, 1)); // 8 lanes
    EXPECT_EQ(cost_of_fetch<VALUES_AT_ONE>(0x00ffffff, 0x00000010, 1), cost(1, 1, 0, 0, 1, 1));
}

} // namespace
