// SPDX-License-Identifier: MIT
// What each call costs is what its header states: simt counts shuffles, votes and atomics. Built for simt only.

#include "calls.cuh"
#include <distwar/fixed.cuh>
#include <distwar/queue.cuh>

using distwar::add;
using distwar::all_lanes;
using distwar::strategy;
using distwar::uniform_key;

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

// ---- counting

struct cost {
    uint64_t shuffles, votes, matches, reductions, instructions, requests; // the last two of atomics
    cost(uint64_t shuffles, uint64_t votes, uint64_t matches, uint64_t reductions, uint64_t instructions,
         uint64_t requests)
        : shuffles(shuffles), votes(votes), matches(matches), reductions(reductions),
          instructions(instructions), requests(requests) {}
    explicit cost(const simt_counters &c) // which counts matches and reductions as votes too
        : cost(c.shuffles, c.votes - c.matches - c.reductions, c.matches, c.reductions, c.atomic_instructions,
               c.atomic_requests) {}
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

template <typename... Parameters, typename... Arguments>
cost count(void (*kernel)(Parameters...), Arguments... arguments) {
    simt_counters_reset();
    run(1, 32, kernel, static_cast<Parameters>(arguments)...);
    EXPECT_EQ(simt_counters_read().barriers, 0u);
    return cost(simt_counters_read());
}

unsigned lowest(int lanes) {
    return lanes == 32 ? all_lanes : (1u << lanes) - 1;
}
warp_call call_of(const std::vector<int> &keys, int threshold = 0, unsigned active = all_lanes,
                  unsigned lanes = all_lanes) {
    warp_call call = {lanes, active, threshold, {}};
    std::copy(keys.begin(), keys.end(), call.key);
    return call;
}
// Lane l holds the key l % count.
std::vector<int> keys_in_turn(int count) {
    std::vector<int> keys;
    for (int lane = 0; lane < 32; ++lane) keys.push_back(lane % count);
    return keys;
}
// The first sizes[0] lanes hold one key, the next sizes[1] lanes another, ...; each remaining lane holds a key of its own.
std::vector<int> groups_of(const std::vector<int> &sizes) {
    std::vector<int> keys;
    for (const int size : sizes) keys.insert(keys.end(), size_t(size), int(keys.size()));
    while (keys.size() < 32) keys.push_back(int(keys.size()));
    return keys;
}
const std::vector<int> one_key(32, 3);

// The cost of one call with K ones.
template <call_kind Call, int K, sink_kind Kind = RECORD, typename T = float, typename Key = int,
          typename Op = add, bool Shared = false>
cost cost_of(const warp_call &call) {
    const device_array<warp_call> calls({call});
    const device_array<T> values(std::vector<T>(32 * K, stored<T>(1))),
        targets(std::vector<T>(places_of(K), stored<T>(0)));
    const device_array<unsigned> changed({0u});
    const cost found = count(make_calls<Call, Kind, Op, K, T, T, Key, Shared, distwar::scope::device>,
                             calls.get(), values.get(), targets.get(), changed.get());
    const simt_counters c = simt_counters_read();
    if (Kind != ALIGNED) {
        EXPECT_EQ(c.atomic_bytes, c.atomic_requests * sizeof(T));
    }
    EXPECT_EQ(c.warp_syncs, Shared ? 2u : 0u);
    return found;
}
template <call_kind Call, int K>
cost cost_of(const std::vector<int> &keys, int threshold = 0, unsigned active = all_lanes,
             unsigned lanes = all_lanes) {
    return cost_of<Call, K>(call_of(keys, threshold, active, lanes));
}
template <call_kind Call, int K, sink_kind Kind = RECORD, typename T = float>
cost cost_of_uniform_key(unsigned active = all_lanes, unsigned lanes = all_lanes) {
    return cost_of<Call, K, Kind, T, uniform_key<int>>(call_of(one_key, 0, active, lanes));
}

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

TEST(Cost, OfTreeIsHalfOfTheValuesAtEachStep) {
    for (const unsigned active : {all_lanes, 0xffff0000u, 0x00100400u, 7u, 1u}) { // and 1 shuffle for the key
        EXPECT_EQ((cost_of<TREE, 1>(one_key, 0, active)), cost(1 + 5, 2, 0, 0, 1, 1));
        EXPECT_EQ((cost_of<TREE, 2>(one_key, 0, active)), cost(1 + 5, 2, 0, 0, 1, 2));
        EXPECT_EQ((cost_of<TREE, 3>(one_key, 0, active)), cost(1 + 6, 2, 0, 0, 1, 3));
        EXPECT_EQ((cost_of<TREE, 4>(one_key, 0, active)), cost(1 + 6, 2, 0, 0, 1, 4));
        EXPECT_EQ((cost_of<TREE, 5>(one_key, 0, active)), cost(1 + 8, 2, 0, 0, 1, 5));
        EXPECT_EQ((cost_of<TREE, 9>(one_key, 0, active)), cost(1 + 12, 2, 0, 0, 1, 9));
        EXPECT_EQ((cost_of<TREE, 16>(one_key, 0, active)), cost(1 + 16, 2, 0, 0, 1, 16));
        EXPECT_EQ((cost_of<TREE, 32>(one_key, 0, active)), cost(1 + 31, 2, 0, 0, 1, 32));
        EXPECT_EQ((cost_of<TREE, 33>(one_key, 0, active)), cost(1 + 17 + 9 + 5 + 3 + 2, 2, 0, 0, 2, 33));
        EXPECT_EQ((cost_of<TREE, 64>(one_key, 0, active)), cost(1 + 62, 2, 0, 0, 2, 64));
    }
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
    const device_array<float> targets(std::vector<float>(32 * 16, 0.0f));
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

// ---- fixed point and pairs

template <int K>
__global__ void reduce_fixed_once(const int *keys, int threshold, long long *targets) {
    float val[K];
    distwar::fixed_format<K> format = {};
    for (int k = 0; k < K; ++k) val[k] = format.scale[k] = 1;
    distwar::reduce_fixed(all_lanes, true, keys[threadIdx.x], val, distwar::record<long long>{targets, K},
                          format, threshold);
}
TEST(Cost, OfFixedIsThatOfTree) {
    for (const std::vector<int> &keys :
         {one_key, groups_of({16, 16}), groups_of({8, 8, 8, 8}), groups_of({})})
        for (const int threshold : {0, 12, 33}) {
            const device_array<int> device_keys(keys);
            const device_array<long long> targets(std::vector<long long>(32 * 9, 0));
            const cost found = count(reduce_fixed_once<9>, device_keys.get(), threshold, targets.get());
            const cost tree = cost_of<TREE, 9>(keys, threshold);
            EXPECT_EQ(found.shuffles, tree.shuffles);
            EXPECT_EQ(found.instructions, tree.instructions);
            EXPECT_EQ(found.requests, tree.requests);
        }
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
    const device_array<float> record(std::vector<float>(8, 0.0f));
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
    const device_array<T> target(std::vector<T>(1, memory));
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

// ---- chunks: keys are compared once for all, and each chunk is a tree

template <call_kind Call, int Chunk>
__global__ void add_ones(warp_call call, int count, float *to) {
    call_n_with<Call, Chunk>(
        call, true, call.key[threadIdx.x], count, [](int) { return 1.0f; }, floats{to, size_t(count)});
}
__global__ void add_some_ones(warp_call call, int count, float *to) {
    float val[40];
    for (float &each : val) each = 1;
    call_n_with<GROUP, 16>(call, true, call.key[threadIdx.x], count, val, floats{to, size_t(count)});
}
cost cost_of_chunks(void (*kernel)(warp_call, int, float *), int keys, int values, int threshold = 0) {
    const device_array<float> to(std::vector<float>(KEYS * values, 0.0f));
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
    // The chunks of an array that are in use, and of no values the search.
    EXPECT_EQ(cost_of_chunks(add_some_ones, 1, 16), cost(1 + 16, 2, 0, 0, 1, 16));
    EXPECT_EQ(cost_of_chunks(add_some_ones, 1, 17), cost(1 + 2 * 16, 2, 0, 0, 2, 17));
    EXPECT_EQ(cost_of_chunks(add_some_ones, 1, 40), cost(1 + 2 * 16 + 9, 2, 0, 0, 3, 40));
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
    const device_array<float> targets(std::vector<float>(17, 0.0f));
    EXPECT_EQ(count(reduce_17_values<false>, targets.get()).shuffles, 2u * 16);
    EXPECT_EQ(count(reduce_17_values<true>, targets.get()).shuffles, 2u * 16);
    EXPECT_EQ(targets.download(), std::vector<float>(17, 64.0f));
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

// ---- reduce without a strategy

TEST(OneCallCost, OfFewValues) {
    EXPECT_EQ((cost_of<ONE_CALL, 1>(keys_in_turn(32))),
              cost(1, 4, 1, 0, 1, 32)); // all differ, fours of neighbours
    EXPECT_EQ((cost_of<ONE_CALL, 1>(keys_in_turn(6))),
              cost(1 + 3 * 2, 4 + 3, 1, 0, 1, 6)); // 3 pairs, 5 or 6 times
    EXPECT_EQ((cost_of<ONE_CALL, 1>(keys_in_turn(1))), cost(1 + 1 + 5, 3, 1, 0, 1, 1)); // one key
    EXPECT_EQ((cost_of<ONE_CALL, 1>(keys_in_turn(16))),
              cost(1 + 2, 5, 1, 0, 1, 16)); // groups of two: one iteration
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
    const device_array<float> to(std::vector<float>(KEYS * K, 0.0f));
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
    const device_array<float> to(std::vector<float>(64, 0.0f));
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
    const device_array<T> counters(std::vector<T>(KEYS, 0));
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
