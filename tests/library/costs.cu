// SPDX-License-Identifier: MIT
// What each strategy costs is what its header states, and what its sinks and updates do. Built for simt only.

#include "costs.cuh"

using distwar::add;
using distwar::all_lanes;
using distwar::strategy;

namespace {

// The formulas at both sides of each limit.
static_assert(distwar::tree_owner(0) == 0 && distwar::tree_owner(31) == 31);
static_assert(distwar::tree_owner(32) == 0 && distwar::tree_owner(63) == 31);
static_assert(distwar::tree_place(0) == 0 && distwar::tree_place(31) == 0);
static_assert(distwar::tree_place(32) == 1 && distwar::tree_place(63) == 1);
static_assert(distwar::tree_places(1) == 1 && distwar::tree_places(32) == 1);
static_assert(distwar::tree_places(33) == 2 && distwar::tree_places(64) == 2);
static_assert(distwar::detail::tree_shuffles(1) == 5 && distwar::detail::tree_shuffles(2) == 5 &&
              distwar::detail::tree_shuffles(3) == 6 && distwar::detail::tree_shuffles(9) == 12);
static_assert(distwar::detail::tree_shuffles(4) == 6 && distwar::detail::tree_shuffles(5) == 8 &&
              distwar::detail::tree_shuffles(16) == 16);
static_assert(distwar::detail::tree_shuffles(31) == 31 && distwar::detail::tree_shuffles(32) == 31);
static_assert(distwar::detail::tree_shuffles(33) == 17 + 9 + 5 + 3 + 2 &&
              distwar::detail::tree_shuffles(64) == 62);
// A redux counts as two shuffles, and the key as one.
using floats = distwar::record<float>;
using float_pointers = distwar::pointers<3, float>;
static_assert(distwar::detail::group_shuffles<3, floats, int, float>() == 1 + 6);
static_assert(distwar::detail::group_shuffles<3, float_pointers, int, float>() == 1 + 6 + 3);
static_assert(distwar::detail::group_shuffles<3, distwar::record<int>, int, int>() == 1 + 2 * 3);
static_assert(distwar::detail::group_shuffles<4, distwar::record<int>, int, int>() == 1 + 6);
static_assert(distwar::detail::requests_of_a_lane<9, floats> == 9);
static_assert(distwar::detail::requests_of_a_lane<8, distwar::aligned_record<>> == 2);
static_assert(distwar::detail::requests_of_a_lane<9, distwar::aligned_record<>> == 3);
// Tenths of a shuffle: a tree costs 14.5 for each shuffle, the groups side by side 15.
static_assert(distwar::detail::tree_cost(2) == 29 && distwar::detail::tree_cost(12) == 174);
static_assert(distwar::detail::side_by_side_cost(1) == 15 && distwar::detail::side_by_side_cost(12) == 180);

// Runs BODY with a constant K of 1, 9 and 16.
template <typename Body>
void for_each_k(Body body) {
    body(std::integral_constant<int, 1>());
    body(std::integral_constant<int, 9>());
    body(std::integral_constant<int, 16>());
}

// ---- the strategies

TEST(Cost, OfNoActiveLaneIsAtMostOneVote) {
    for_each_k([](auto k) {
        for (const unsigned lanes : {all_lanes, 0x00ff0f01u, 1u}) {
            SCOPED_TRACE(lanes);
            EXPECT_EQ((cost_of<SERIAL, k>(one_key, 0, 0, lanes)), cost(0, 1, 0, 0, 0, 0));
            EXPECT_EQ((cost_of<TREE, k>(one_key, 0, 0, lanes)), cost(0, 1, 0, 0, 0, 0));
            EXPECT_EQ((cost_of<ATOMIC, k>(one_key, 0, 0, lanes)), cost(0, 0, 0, 0, 0, 0));
            EXPECT_EQ((cost_of<BFLY, k>(one_key, 0, 0, lanes)), cost(0, lanes == all_lanes, 0, 0, 0, 0));
        }
    });
}
TEST(Cost, OfAtomicIsKInstructionsAndARequestForEachLaneAndValue) {
    for_each_k([](auto k) {
        for (const int n : {1, 17, 32})
            EXPECT_EQ((cost_of<ATOMIC, k>(one_key, 0, lowest(n))), cost(0, 0, 0, 0, k, n * k));
    });
}
TEST(Cost, OfBflyIs5KShufflesAndOneForTheKey) {
    std::vector<int> two_keys = one_key;
    two_keys[19] = 4;
    for_each_k([&](auto k) {
        const cost of_butterfly(5 * k + 1, 2, 0, 0, k, k);
        for (const unsigned active : {all_lanes, 0xffff0000u, 0x00100400u})
            EXPECT_EQ((cost_of<BFLY, k>(one_key, 0, active)), of_butterfly);
        // Without one key or a whole warp it is that of atomics.
        EXPECT_EQ((cost_of<BFLY, k>(two_keys)), cost(1, 2, 0, 0, k, 32 * k));
        EXPECT_EQ((cost_of<BFLY, k>(two_keys, 0, ~(1u << 19))), of_butterfly); // the other key is inactive
        EXPECT_EQ((cost_of<BFLY, k>(one_key, 0, 0x7fffffff, 0x7fffffff)), cost(0, 0, 0, 0, k, 31 * k));
    });
}
template <call_kind Call, int K>
void check_threshold(const cost &of_a_sum) {
    for (int n = 1; n <= 32; ++n)
        for (int threshold = 0; threshold <= 33; ++threshold)
            EXPECT_EQ((cost_of<Call, K>(one_key, threshold, lowest(n))),
                      n >= threshold ? of_a_sum : cost(0, 1, 0, 0, K, K * n))
                << n << " lanes, threshold " << threshold;
}
TEST(Cost, ChangesExactlyAtTheThreshold) {
    check_threshold<BFLY, 2>({11, 2, 0, 0, 2, 2});
    check_threshold<TREE, 3>({1 + 6, 2, 0, 0, 1, 3});
}
TEST(Cost, OfSerialIsAShuffleForEachFurtherLaneAndValue) {
    for_each_k([](auto k) {
        for (int n = 1; n <= 32; ++n)
            EXPECT_EQ((cost_of<SERIAL, k>(one_key, 0, lowest(n))), cost(k * (n - 1), 1, 1, 1, k, k));
    });
}
TEST(Cost, OfSerialIsThatOfItsLargestSummedGroup) {
    enum { K = 3 };
    const int sizes[4] = {17, 9, 5, 1}; // the lanes of a group are far apart: lane 7 i mod 32
    std::vector<int> keys(32);
    for (int group = 0, placed = 0; group < 4; ++group)
        for (int i = 0; i < sizes[group]; ++i) keys[7 * placed++ % 32] = group;
    for (int threshold = -1; threshold <= 40; ++threshold) {
        uint64_t largest = 1, requests = 0;
        for (const int size : sizes) {
            requests += size >= threshold ? K : K * size;
            if (size >= threshold && uint64_t(size) > largest) largest = size;
        }
        const uint64_t looks = threshold <= 32; // with 33 no group can be summed
        under_schedules(3, [&] {
            EXPECT_EQ((cost_of<SERIAL, K>(keys, threshold)),
                      cost(K * (largest - 1), 1, looks, looks, K, requests))
                << threshold;
        });
    }
}

// ---- the tree

template <int... K>
void expect_trees(unsigned active) { // and 1 shuffle for the key
    const auto expect = [=](const cost &found, int k) {
        const auto shuffles = 1 + uint64_t(distwar::detail::tree_shuffles(k)),
                   instructions = uint64_t(k + 31) / 32;
        EXPECT_EQ(found, cost(shuffles, 2, 0, 0, instructions, uint64_t(k)))
            << k << " values, lanes " << active;
    };
    (expect(cost_of<TREE, K>(one_key, 0, active), K), ...);
}
TEST(Cost, OfTreeIsHalfOfTheValuesAtEachStep) {
    for (const unsigned active : {all_lanes, 0xffff0000u, 0x00100400u, 7u, 1u})
        expect_trees<1, 2, 3, 4, 5, 9, 16, 32, 33, 64>(active);
}

struct several_keys {
    std::vector<int> sizes;
    int threshold;
    uint64_t shuffles, instructions, requests;
};
template <int K>
void expect_costs(const std::vector<several_keys> &cases) {
    enum { LOOKS = 1, VOTES = 3 }; // a shuffle for the first key; all, ballot twice
    for (const several_keys &c : cases)
        EXPECT_EQ((cost_of<TREE, K>(groups_of(c.sizes), c.threshold)),
                  cost(LOOKS + c.shuffles, VOTES, 1, 1, c.instructions, c.requests))
            << "K " << K << ", sizes " << testing::PrintToString(c.sizes);
}
TEST(Cost, OfTreeWithSeveralKeysIsThatOfTheCheaperForm) {
    enum { K = 9, FIVE = 5, FOUR = 4 };
    expect_costs<K>({
        {{16, 16}, 0, 2 * 13, 2, 2 * K},                 // a tree each
        {{30, 2}, 0, 2 * 13, 2, 2 * K},                  //
        {{30, 2}, 3, 13, 1 + K, 3 * K},                  // the small group by plain atomics
        {{31}, 0, 13, 1 + K, 2 * K},                     // likewise a group of one lane
        {{8, 8, 8, 8}, 0, 4 * 13, 4, 4 * K},             // not 29 side by side, with 36 values to commit
        {{8, 8, 8, 8}, 8, 4 * 13, 4, 4 * K},             // each is as large as the threshold
        {{8, 8, 8, 8}, 9, 0, K, 32 * K},                 // none is summed
        {{4, 4, 4, 4, 4, 4, 4, 4}, 0, 8 * 13, 8, 8 * K}, //
        {{2, 2, 2}, 0, 3 * 13, 3 + K, 29 * K},           //
        {{}, 0, 0, K, 32 * K},                           // 32 keys
    });
    expect_costs<FIVE>({{{8, 8, 8, 8}, 0, 4 * 9, 4, 4 * FIVE}});
    expect_costs<FOUR>({
        {{16, 16}, 0, 2 * 7, 2, 2 * FOUR},               // not 19 side by side
        {{11, 11, 10}, 0, 4 * FOUR + 3, FOUR, 3 * FOUR}, // side by side, not 21
        {{8, 8, 8, 8}, 0, 3 * FOUR + 2, FOUR, 4 * FOUR}, //
        {{2, 2, 2}, 0, FOUR, FOUR, 29 * FOUR},           //
    });
    expect_costs<2>({{{16, 16}, 0, 2 * 6, 2, 2 * 2}}); // 12 against 4 * 3
    expect_costs<1>({{{16, 16}, 0, 4 + 3, 1, 2}});     // not 12
}

// A record whose atomics take 8 values of a lane.
struct eights : floats {
    static constexpr int values_of_a_request = 8;
};
template <int K, typename Sink>
__global__ void reduce_keys_to(const int *keys, Sink sink) {
    float val[K];
    for (float &each : val) each = 1;
    distwar::reduce_tree(all_lanes, true, keys[threadIdx.x], val, sink);
}
// The shuffles of groups of these sizes, without that of the first key.
template <int K, typename Sink>
uint64_t shuffles_of(const std::vector<int> &sizes) {
    const device_array<int> keys(groups_of(sizes));
    const device_array<float> targets(32 * 16, {});
    return count(reduce_keys_to<K, Sink>, keys.get(), Sink{targets.get(), 16}).shuffles - 1;
}
// The costs of tree.cuh in tenths of a shuffle: K = 9, seven groups one after another 7 * (188 - 3 * 27) = 749, side by
// side in 5 iterations 5 * 10 * 15 = 750.
TEST(Cost, OfTreeToVectorsIsThatOfTheCheaperForm) {
    using vectors = distwar::aligned_record<>;
    EXPECT_EQ((shuffles_of<9, vectors>({17, 2, 2, 2, 2, 2, 2})), 7u * 13);
    EXPECT_EQ((shuffles_of<9, vectors>({16, 2, 2, 2, 2, 2})), 4u * 10 - 1); // 600, not 642
    EXPECT_EQ((shuffles_of<8, vectors>({4, 2, 2})), 2u * 9 - 1);            // 270, not 273
    EXPECT_EQ((shuffles_of<8, vectors>({5, 2, 2})), 3u * 10);               // 273, not 405
    EXPECT_EQ((shuffles_of<15, eights>({16, 2, 2, 2, 2})), 5u * 17);        // 5 * 192, as 4 * 16 * 15
}
TEST(Cost, OfTreeToPointersIsKMoreShufflesAndKAtomics) {
    EXPECT_EQ((cost_of<TREE, 3, POINTERS>(call_of(one_key))), cost(1 + 6 + 3, 2, 0, 0, 3, 3));
    EXPECT_EQ((cost_of<TREE, 64, POINTERS>(call_of(one_key))).shuffles,
              1u + 62 + 64); // the most that a tree takes
    // K more shuffles for each group, so groups are summed side by side.
    EXPECT_EQ((cost_of<TREE, 9, POINTERS>(call_of(keys_in_turn(4)))), cost(1 + 3 * 9 + 2, 3, 1, 1, 9, 4 * 9));
    EXPECT_EQ((cost_of<TREE, 1, POINTERS>(call_of(keys_in_turn(4)))), cost(1 + 3 + 2, 3, 1, 1, 1, 4));
}
TEST(Cost, OfTreeOnPartOfTheWarpIsLogarithmic) {
    const unsigned lanes = 0x7ffffffe;
    for_each_k([&](auto k) {
        uint64_t turns = 0;
        for (int n = 1; n <= 30; ++n) {
            if (n > 1 << turns) ++turns;
            EXPECT_EQ((cost_of<TREE, k>(one_key, 0, lowest(n) << 1, lanes)),
                      cost(turns ? turns * (k + 1) - 1 : 0, 1, 1, 1, k, k));
        }
    });
    EXPECT_EQ((cost_of_uniform_key<TREE, 1>(lanes, lanes)).shuffles, 5u * 2 - 1);
}
TEST(Cost, OfAUniformKeyIsNothing) {
    for (const unsigned active : {all_lanes, 0x00f0ff00u}) {
        EXPECT_EQ((cost_of_uniform_key<TREE, 9>(active)), cost(12, 1, 0, 0, 1, 9));
        EXPECT_EQ((cost_of_uniform_key<TREE, 9, FIELDS>(active)), cost(12, 1, 0, 0, 1, 9));
        EXPECT_EQ((cost_of_uniform_key<BFLY, 9>(active)), cost(45, 1, 0, 0, 9, 9));
        EXPECT_EQ((cost_of_uniform_key<SERIAL, 9>(active)).matches, 0u);
    }
    EXPECT_EQ((cost_of_uniform_key<TREE, 40, FIELDS>()),
              cost(uint64_t(distwar::detail::tree_shuffles(40)), 1, 0, 0, 2, 40));
    EXPECT_EQ((cost_of_uniform_key<BFLY, 9, FIELDS>()).requests, 9u);
    EXPECT_EQ((cost_of_uniform_key<ATOMIC, 9, FIELDS>()).requests, 9u * 32);
}

// ---- integers, from compute capability 8.0 on, which is what simt counts

template <int K, typename T, typename Op = add>
cost cost_of_integers(int keys) {
    return cost_of<TREE, K, RECORD, T, int, Op>(call_of(keys_in_turn(keys)));
}
TEST(Cost, OfTreeOfUpToThreeIntegersIsAReduxEach) {
    EXPECT_EQ((cost_of_integers<1, int>(1)), cost(1, 2, 0, 1, 1, 1));
    EXPECT_EQ((cost_of_integers<3, int>(1)), cost(1, 2, 0, 3, 1, 3));
    EXPECT_EQ((cost_of_integers<3, unsigned>(1)), cost(1, 2, 0, 3, 1, 3));
    EXPECT_EQ((cost_of_integers<3, int, distwar::maximum>(1)), cost(1, 2, 0, 3, 1, 3));
    EXPECT_EQ((cost_of_integers<3, unsigned, distwar::bit_xor>(1)).reductions, 3u); // the xor of 32 ones is 0
    EXPECT_EQ((cost_of_integers<4, int>(1)), cost(1 + 6, 2, 0, 0, 1, 4));
    EXPECT_EQ((cost_of_integers<4, unsigned>(1)), cost(1 + 6, 2, 0, 0, 1, 4));
    EXPECT_EQ((cost_of_integers<3, int, distwar::multiply>(1)).shuffles, 1u + 6); // redux has no product
    EXPECT_EQ((cost_of_integers<3, int, distwar::multiply>(1)).reductions, 0u);
    EXPECT_EQ((cost_of_integers<3, long long>(1)), cost(1 + 6, 2, 0, 0, 1, 3)); // nor 8 bytes
    EXPECT_EQ((cost_of_integers<1, long long>(1)), cost(1 + 5, 2, 0, 0, 1, 1));
    // Group after group: 2 * 3, not 4 * 2 - 1 side by side; side by side: 3 * 2 - 1, not 4 * 3; 2 * 5, not 4 * 3 - 1.
    EXPECT_EQ((cost_of_integers<1, int>(2)), cost(1 + 2, 3, 1, 1 + 2, 2, 2));
    EXPECT_EQ((cost_of_integers<1, int>(4)), cost(1 + 5, 3, 1, 1, 1, 4));
    EXPECT_EQ((cost_of_integers<2, unsigned>(2)), cost(1 + 2, 3, 1, 1 + 4, 2, 4));
}

template <int First, int End, int K>
__global__ void sum_of_lanes_once() {
    float val[K];
    for (float &each : val) each = 1;
    distwar::tree_of_lanes<First, End>(val);
}
TEST(Cost, OfTreeOfLanesIsHalfOfTheValuesAtEachOfItsSteps) {
    EXPECT_EQ((count(sum_of_lanes_once<0, 5, 9>)).shuffles, 5u + 3 + 2 + 1 + 1);
    EXPECT_EQ((count(sum_of_lanes_once<3, 5, 6>)).shuffles, 3u + 2);
    EXPECT_EQ((count(sum_of_lanes_once<0, 3, 4>)).shuffles, 2u + 1 + 1);
    EXPECT_EQ((count(sum_of_lanes_once<4, 5, 64>)).shuffles, 32u);
}

// ---- the atomics of aligned records and of atomic_update

template <call_kind Call, int K>
cost cost_of_aligned(int keys) {
    return cost_of<Call, K, ALIGNED>(call_of(keys_in_turn(keys)));
}
__global__ void add_chunks_to_aligned(float *record) {
    distwar::reduce_n<strategy::atomic, 4>(
        all_lanes, true, 0, 8, [](int k) { return float(1 << k); }, distwar::aligned_record{record, 12});
}
TEST(Cost, OfAlignedRecordsIsAnAtomicForFourValues) {
    EXPECT_EQ((cost_of_aligned<BFLY, 11>(1)), cost(1 + 55, 2, 0, 0, 3, 3)); // 4 + 4 + 3 values, and a zero
    EXPECT_EQ(simt_counters_read().atomic_bytes, 48u);
    EXPECT_EQ((cost_of_aligned<TREE, 11>(1)).instructions, 1u);
    // The number of values has each remainder by 4.
    EXPECT_EQ((cost_of_aligned<SERIAL, 1>(2)).requests, 2u * 1);
    EXPECT_EQ((cost_of_aligned<SERIAL, 2>(2)).requests, 2u * 1);
    EXPECT_EQ((cost_of_aligned<SERIAL, 5>(2)).requests, 2u * 2);
    EXPECT_EQ((cost_of_aligned<SERIAL, 6>(2)).requests, 2u * 2);
    EXPECT_EQ((cost_of_aligned<SERIAL, 7>(2)).requests, 2u * 2);
    EXPECT_EQ((cost_of_aligned<SERIAL, 9>(2)).requests, 2u * 3);
    EXPECT_EQ((cost_of_aligned<TREE, 9>(2)).requests, 2u * 9);
    const device_array<float> record(8, {});
    EXPECT_EQ(count(add_chunks_to_aligned, record.get()).requests, 32u * 2);
    EXPECT_EQ(record.download(), (std::vector<float>{32, 64, 128, 256, 512, 1024, 2048, 4096}));
}
// aligned_record sends 4 pairs by one atomic, as a GPU from compute capability 9.0 on: here 4 + 2 + 1.
TEST(Cost, OfAlignedPairsIsAnAtomicForFourPairs) {
    const cost found = cost_of<SERIAL, 7, ALIGNED, __half2>(call_of(keys_in_turn(2)));
    EXPECT_EQ(found.instructions, 3u);
    EXPECT_EQ(found.requests, 2u * 3);
    EXPECT_EQ(simt_counters_read().atomic_bytes, 2u * 28);
}

template <typename T, typename Op>
__global__ void update_once(T *target, T value) {
    if (threadIdx.x == 0) distwar::atomic_update(target, value, Op{});
}
template <typename T, typename Op>
uint64_t requests_of(T memory, T value) {
    const device_array<T> target(1, memory);
    return count(update_once<T, Op>, target.get(), value).requests;
}
TEST(Cost, OfAnUpdateIsNoRequestWhereNothingChanges) {
    EXPECT_EQ((requests_of<float, add>(5, 1)), 1u);
    EXPECT_EQ((requests_of<float, add>(5, 0.0f)), 0u);
    EXPECT_EQ((requests_of<float, add>(5, -0.0f)), 0u);
    EXPECT_EQ((requests_of<float, add>(-0.0f, 0.0f)), 0u);
    EXPECT_EQ((requests_of<double, add>(5, 0)), 0u);
    EXPECT_EQ((requests_of<int, add>(5, 0)), 0u);
    EXPECT_EQ((requests_of<float, add>(1e20f, 1)), 0u); // rounds to the old value
    EXPECT_EQ((requests_of<float, distwar::minimum>(5, 4)), 1u);
    EXPECT_EQ((requests_of<float, distwar::minimum>(5, 5)), 0u);
    EXPECT_EQ((requests_of<double, distwar::maximum>(5, 6)), 1u);
    EXPECT_EQ((requests_of<double, distwar::maximum>(5, 4)), 0u);
}

} // namespace
