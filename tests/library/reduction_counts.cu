// SPDX-License-Identifier: MIT
// The cost of each reduction is the one its header states: simt counts shuffles, votes and atomics. Built for
// simt only.

#include "device_test.cuh"
#include <distwar/fixed.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

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
              distwar::detail::tree_shuffles(3) == 6);
static_assert(distwar::detail::tree_shuffles(31) == 31 && distwar::detail::tree_shuffles(32) == 31);
static_assert(distwar::detail::tree_shuffles(33) == 17 + 9 + 5 + 3 + 2 && distwar::detail::tree_shuffles(64) == 62);
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
            expect_cost(cost_of<strategy::tree, k>(lanes, 0, one_key, 0), 0, 1, 0, 0, 0, 0);
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
    const int sizes[4] = {17, 9, 5, 1}; // the lanes of a group are far apart: lane 7 i mod 32
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
        const uint64_t looks = threshold <= 32; // with 33 no group can be summed
        for (const unsigned schedule : {0u, 1u, 2u}) {
            const cost found = cost_of<strategy::serial, K>(all_lanes, all_lanes, keys, threshold, schedule);
            expect_cost(found, K * (largest - 1), 1, looks, looks, K, requests);
        }
    }
}

TEST(ReductionCost, OfTreeOf9ValuesIs12ShufflesAnd1AtomicInstruction) {
    static_assert(distwar::detail::tree_shuffles(9) == 12);
    for (const unsigned active : {all_lanes, 0xffff0000u, 0x00100400u, 1u}) {
        const cost found = cost_of<strategy::tree, 9>(all_lanes, active, one_key, 0);
        expect_cost(found, 1 + 12, 2, 0, 0, 1, 9); // 1 for the key
    }
}

TEST(ReductionCost, OfTreeIsHalfOfTheValuesAtEachStep) {
    const int shuffles[] = {5, 5, 6, 6, 8}; // of K = 1..5, by hand
    EXPECT_EQ((cost_of<strategy::tree, 1>(all_lanes, all_lanes, one_key, 0).shuffles), 1u + shuffles[0]);
    EXPECT_EQ((cost_of<strategy::tree, 2>(all_lanes, all_lanes, one_key, 0).shuffles), 1u + shuffles[1]);
    EXPECT_EQ((cost_of<strategy::tree, 3>(all_lanes, all_lanes, one_key, 0).shuffles), 1u + shuffles[2]);
    EXPECT_EQ((cost_of<strategy::tree, 4>(all_lanes, all_lanes, one_key, 0).shuffles), 1u + shuffles[3]);
    EXPECT_EQ((cost_of<strategy::tree, 5>(all_lanes, all_lanes, one_key, 0).shuffles), 1u + shuffles[4]);
    expect_cost(cost_of<strategy::tree, 32>(all_lanes, 7, one_key, 0), 1 + 31, 2, 0, 0, 1, 32);
    expect_cost(cost_of<strategy::tree, 33>(all_lanes, 7, one_key, 0), 1 + 17 + 9 + 5 + 3 + 2, 2, 0, 0, 2,
                33);
    expect_cost(cost_of<strategy::tree, 64>(all_lanes, 7, one_key, 0), 1 + 62, 2, 0, 0, 2, 64);
}

TEST(ReductionCost, OfTreeChangesExactlyAtTheThreshold) {
    for (int n = 1; n <= 32; ++n)
        for (int threshold = 0; threshold <= 33; ++threshold) {
            SCOPED_TRACE(testing::Message() << n << " lanes, threshold " << threshold);
            const cost found = cost_of<strategy::tree, 3>(all_lanes, lowest(n), one_key, threshold);
            if (n >= threshold)
                expect_cost(found, 1 + 6, 2, 0, 0, 1, 3);
            else
                expect_cost(found, 0, 1, 0, 0, 3, 3 * n);
        }
}

// From compute capability 8.0 on, which is what simt counts.
template <int K, typename T, typename Op>
__global__ void reduce_integers(T *targets) {
    T val[K];
    for (int k = 0; k < K; ++k) val[k] = T(k + 1);
    distwar::reduce_tree(all_lanes, true, distwar::uniform_key{0}, val, distwar::record<T, Op>{targets, K});
}
template <int K, typename T, typename Op = distwar::add>
std::pair<uint64_t, uint64_t> redux_and_shuffles() {
    const device_array<T> targets(std::vector<T>(K, T(1)));
    simt_counters_reset();
    run(1, 32, reduce_integers<K, T, Op>, targets.get());
    const simt_counters counted = simt_counters_read();
    if (std::is_same<Op, distwar::add>::value) {
        std::vector<T> sums;
        for (int k = 0; k < K; ++k) sums.push_back(T(1 + 32 * (k + 1)));
        EXPECT_EQ(targets.download(), sums);
    }
    return {counted.reductions, counted.shuffles};
}

TEST(ReductionCost, OfTreeOfUpToThreeIntegersIsAReduxEach) {
    using both = std::pair<uint64_t, uint64_t>;
    EXPECT_EQ((redux_and_shuffles<1, int>()), both(1, 0));
    EXPECT_EQ((redux_and_shuffles<3, int>()), both(3, 0));
    EXPECT_EQ((redux_and_shuffles<3, unsigned>()), both(3, 0));
    EXPECT_EQ((redux_and_shuffles<3, int, distwar::maximum>()), both(3, 0));
    EXPECT_EQ((redux_and_shuffles<3, unsigned, distwar::bit_xor>()), both(3, 0));
    EXPECT_EQ((redux_and_shuffles<4, int>()), both(0, 6));
    EXPECT_EQ((redux_and_shuffles<3, int, distwar::multiply>()), both(0, 6)); // redux has no product
    EXPECT_EQ((redux_and_shuffles<3, long long>()), both(0, 6));              // nor 8 bytes
    EXPECT_EQ((redux_and_shuffles<3, float>()), both(0, 6));
}

// Keys of 32 lanes: the first sizes[0] lanes hold key 0, the next sizes[1] lanes key 1, ...; each remaining
// lane holds a key of its own.
std::vector<int> groups_of(const std::vector<int> &sizes) {
    std::vector<int> keys;
    for (const int size : sizes) keys.insert(keys.end(), size_t(size), int(keys.size()));
    while (keys.size() < 32) keys.push_back(int(keys.size()));
    return keys;
}

template <typename... Parameters>
simt_counters count(void (*kernel)(Parameters...), Parameters... arguments) {
    simt_counters_reset();
    run(1, 32, kernel, arguments...);
    return simt_counters_read();
}

template <int K>
__global__ void reduce_fixed_once(const int *keys, int threshold, long long *targets) {
    float val[K];
    distwar::fixed_format<K> format = {};
    for (int k = 0; k < K; ++k) val[k] = format.scale[k] = 1;
    distwar::reduce_fixed(all_lanes, true, keys[threadIdx.x], val, distwar::record<long long>{targets, K},
                          format, threshold);
}

TEST(ReductionCost, OfFixedIsThatOfTree) {
    for (const std::vector<int> &keys :
         {one_key, groups_of({16, 16}), groups_of({8, 8, 8, 8}), groups_of({})})
        for (const int threshold : {0, 12, 33}) {
            const device_array<int> device_keys(keys);
            const device_array<long long> targets(std::vector<long long>(32 * 9, 0));
            const simt_counters found = count(
                reduce_fixed_once<9>, static_cast<const int *>(device_keys.get()), threshold, targets.get());
            const cost tree = cost_of<strategy::tree, 9>(all_lanes, all_lanes, keys, threshold);
            EXPECT_EQ(found.shuffles, tree.shuffles);
            EXPECT_EQ(found.atomic_instructions, tree.atomic_instructions);
            EXPECT_EQ(found.atomic_requests, tree.atomic_requests);
        }
}

struct several_keys {
    std::vector<int> sizes;
    int threshold;
    uint64_t shuffles, atomic_instructions, atomic_requests;
};
template <int K>
void expect_costs(const std::vector<several_keys> &cases) {
    enum { LOOKS = 1, VOTES = 3 }; // a shuffle for the first key; all, ballot twice
    for (const several_keys &c : cases) {
        SCOPED_TRACE(testing::Message() << "K " << K << ", sizes " << testing::PrintToString(c.sizes));
        const cost found = cost_of<strategy::tree, K>(all_lanes, all_lanes, groups_of(c.sizes), c.threshold);
        expect_cost(found, LOOKS + c.shuffles, VOTES, 1, 1, c.atomic_instructions, c.atomic_requests);
    }
}

TEST(ReductionCost, OfTreeWithSeveralKeysIsThatOfTheCheaperForm) {
    enum { K = 9, FIVE = 5, FOUR = 4 };
    expect_costs<K>({
        {{16, 16}, 0, 2 * 13, 2, 2 * K},       // a tree each
        {{30, 2}, 0, 2 * 13, 2, 2 * K},        //
        {{30, 2}, 3, 13, 1 + K, 3 * K},        // the small group by plain atomics
        {{31}, 0, 13, 1 + K, 2 * K},           // likewise a group of one lane
        {{8, 8, 8, 8}, 0, 4 * 13, 4, 4 * K},   // not 29 side by side, with 36 values to commit
        {{8, 8, 8, 8}, 8, 4 * 13, 4, 4 * K},   // each is as large as the threshold
        {{8, 8, 8, 8}, 9, 0, K, 32 * K},       // none is summed
        {{2, 2, 2}, 0, 3 * 13, 3 + K, 29 * K}, //
        {{}, 0, 0, K, 32 * K},                 // 32 keys
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
struct eights : distwar::record<float> {
    static constexpr int values_of_a_request = 8;
};
template <int K, typename Sink>
__global__ void reduce_keys_to(const int *keys, Sink sink) {
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    distwar::reduce_tree(all_lanes, true, keys[threadIdx.x], val, sink);
}
// The shuffles of groups of these sizes, without that of the first key.
template <int K, typename Sink>
uint64_t shuffles_of(const std::vector<int> &sizes) {
    const device_array<int> keys(groups_of(sizes));
    const device_array<float> targets(std::vector<float>(32 * 16, 0.0f));
    return count(reduce_keys_to<K, Sink>, static_cast<const int *>(keys.get()), Sink{targets.get(), 16})
               .shuffles -
           1;
}

// The costs of tree.cuh in tenths of a shuffle: K = 9, seven groups one after another 7 * (188 - 3 * 27) = 749, side by
// side in 5 iterations 5 * 10 * 15 = 750.
TEST(ReductionCost, OfTreeToVectorsIsThatOfTheCheaperForm) {
    using vectors = distwar::aligned_record<>;
    EXPECT_EQ((shuffles_of<9, vectors>({17, 2, 2, 2, 2, 2, 2})), 7u * 13);
    EXPECT_EQ((shuffles_of<9, vectors>({16, 2, 2, 2, 2, 2})), 4u * 10 - 1); // 600, not 642
    EXPECT_EQ((shuffles_of<8, vectors>({4, 2, 2})), 2u * 9 - 1);            // 270, not 273
    EXPECT_EQ((shuffles_of<8, vectors>({5, 2, 2})), 3u * 10);               // 273, not 405
    EXPECT_EQ((shuffles_of<15, eights>({16, 2, 2, 2, 2})), 5u * 17);        // 5 * 192, as 4 * 16 * 15
}

template <int K>
__global__ void reduce_groups(unsigned lanes, unsigned active, const int *keys, int threshold,
                              float *targets) {
    if (!(lanes >> threadIdx.x & 1)) return;
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    distwar::group_lanes(lanes, active >> threadIdx.x & 1, keys[threadIdx.x])
        .add(val, distwar::record<float>{targets, K}, threshold);
}

// The tree votes for all lanes with the largest group that it sums; group_lanes knows the largest of all.
TEST(ReductionCost, OfGroupsIsThatOfTheTree) {
    enum { K = 9 };
    const unsigned masks[][2] = {{all_lanes, all_lanes}, {all_lanes, 1u << 7}, {0x7ffffffe, 0x7ffefffe}};
    for (const auto &[lanes, active] : masks)
        for (const auto &sizes :
             std::vector<std::vector<int>>{{16, 16}, {30, 2}, {8, 8, 8, 8}, {2, 2, 2}, {3, 3, 2}, {}})
            for (const int threshold : {0, 1, 2, 3, 4, 8, 9, 32}) {
                SCOPED_TRACE(testing::Message() << testing::PrintToString(sizes) << ", threshold "
                                                << threshold << ", active " << active);
                const std::vector<int> keys = groups_of(sizes);
                const cost tree = cost_of<strategy::tree, K>(lanes, active, keys, threshold);
                const device_array<int> device_keys(keys);
                const device_array<float> targets(std::vector<float>(32 * K, 0.0f));
                const simt_counters group =
                    count(reduce_groups<K>, unsigned(lanes), unsigned(active),
                          static_cast<const int *>(device_keys.get()), threshold, targets.get());
                EXPECT_EQ(group.atomic_instructions, tree.atomic_instructions);
                EXPECT_EQ(group.atomic_requests, tree.atomic_requests);
                // In a whole warp group_lanes compares the keys before it knows the threshold.
                const bool unseen = lanes == all_lanes && tree.votes == 1;
                EXPECT_EQ(group.shuffles, tree.shuffles + unseen);
            }
}

// A sink of pointers costs K more shuffles per group, so groups are summed side by side.
template <int K>
__global__ void reduce_keys_to_pointers(int groups, float *targets) {
    const int key = int(threadIdx.x) % groups;
    float val[K];
    distwar::pointers<K, float> sink;
    for (int k = 0; k < K; ++k) val[k] = 1, sink.address[k] = targets + K * key + k;
    distwar::reduce_tree(all_lanes, true, key, val, sink);
}

TEST(ReductionCost, OfTreeToPointersWithSeveralKeysIsThatOfFewerShuffles) {
    enum { K = 9 };
    const device_array<float> targets(std::vector<float>(4 * K, 0.0f));
    EXPECT_EQ(count(reduce_keys_to_pointers<K>, 4, targets.get()).shuffles, 1u + 3 * K + 2);
    EXPECT_EQ(targets.download(), std::vector<float>(4 * K, 8.0f));
    const simt_counters found = count(reduce_keys_to_pointers<1>, 4, targets.get());
    EXPECT_EQ(found.shuffles, 1u + 3 + 2);
    EXPECT_EQ(found.atomic_requests, 4u);
    const device_array<float> most(std::vector<float>(64, 0.0f)); // as many values as a tree takes
    EXPECT_EQ(count(reduce_keys_to_pointers<64>, 1, most.get()).shuffles, 1u + 62 + 64);
    EXPECT_EQ(most.download(), std::vector<float>(64, 32.0f));
}

TEST(ReductionCost, OfTreeOnPartOfTheWarpIsLogarithmic) {
    const unsigned lanes = 0x7ffffffe;
    for_each_k([&](auto k) {
        uint64_t turns = 0;
        for (int n = 1; n <= 30; ++n) {
            if (n > 1 << turns) ++turns;
            const cost found = cost_of<strategy::tree, k>(lanes, lowest(n) << 1, one_key, 0);
            expect_cost(found, turns ? turns * (k + 1) - 1 : 0, 1, 1, 1, k, k);
        }
    });
}

// A uniform key, and a sink of pointers.
template <strategy S, int K>
__global__ void reduce_uniform(unsigned active, float *targets) {
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    distwar::reduce<S>(all_lanes, active >> threadIdx.x & 1, distwar::uniform_key{2}, val,
                       distwar::record<float>{targets, K});
}
__global__ void reduce_to_pointers(float *targets) {
    const float val[3] = {1, 2, 3};
    distwar::reduce_tree(all_lanes, true, 0, val, distwar::pointers{targets, targets + 1, targets + 2});
}
TEST(ReductionCost, OfAUniformKeyIsNothing) {
    const device_array<float> targets(std::vector<float>(32, 0.0f));
    for (const unsigned active : {all_lanes, 0x00f0ff00u}) {
        const simt_counters tree = count(reduce_uniform<strategy::tree, 9>, active, targets.get());
        EXPECT_EQ(tree.shuffles, 12u);
        EXPECT_EQ(tree.votes, 1u);
        EXPECT_EQ(tree.atomic_instructions, 1u);
        const simt_counters bfly = count(reduce_uniform<strategy::bfly, 9>, active, targets.get());
        EXPECT_EQ(bfly.shuffles, 45u);
        EXPECT_EQ(bfly.votes, 1u);
        EXPECT_EQ(count(reduce_uniform<strategy::serial, 9>, active, targets.get()).matches, 0u);
    }
}

// A uniform key on part of a warp, and the chunks of 16 that the caller does not choose.
__global__ void reduce_part(unsigned lanes, float *targets) {
    if (!(lanes >> threadIdx.x & 1)) return;
    const float val[1] = {1};
    distwar::reduce_tree(lanes, true, distwar::uniform_key{2}, val, distwar::record<float>{targets, 1});
}
template <bool Handle>
__global__ void reduce_17_values(float *targets) {
    const auto one = [](int) { return 1.0f; };
    const distwar::uniform_key key = {0};
    if constexpr (Handle)
        distwar::group_lanes(all_lanes, true, key).add_n(17, one, distwar::record<float>{targets, 17});
    else
        distwar::reduce_n(all_lanes, true, key, 17, one, distwar::record<float>{targets, 17});
}
TEST(ReductionCost, OfAUniformKeyOnPartOfTheWarpIsSideBySide) {
    const device_array<float> targets(std::vector<float>(3, 0.0f));
    EXPECT_EQ(count(reduce_part, 0x7ffffffeu, targets.get()).shuffles, 5u * 2 - 1);
    EXPECT_EQ(targets.download(), (std::vector<float>{0, 0, 30}));
}
TEST(ReductionCost, OfValuesInChunksIsATreeOf16Each) {
    const device_array<float> targets(std::vector<float>(17, 0.0f));
    EXPECT_EQ(count(reduce_17_values<false>, targets.get()).shuffles, 2u * 16);
    EXPECT_EQ(count(reduce_17_values<true>, targets.get()).shuffles, 2u * 16);
    EXPECT_EQ(targets.download(), std::vector<float>(17, 64.0f));
}

TEST(ReductionCost, OfTreeToPointersIsKMoreShufflesAndKAtomics) {
    const device_array<float> targets(std::vector<float>(3, 0.0f));
    const simt_counters found = count(reduce_to_pointers, targets.get());
    EXPECT_EQ(found.shuffles, 1u + 6 + 3);
    EXPECT_EQ(found.votes, 2u);
    EXPECT_EQ(found.atomic_instructions, 3u);
    EXPECT_EQ(found.atomic_requests, 3u);
    EXPECT_EQ(targets.download(), (std::vector<float>{32, 64, 96}));
}

} // namespace
