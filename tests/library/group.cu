// SPDX-License-Identifier: MIT
// group_lanes: one handle, many sums; each is that of reduce_tree, and costs no second look at the keys.

#include "warp_calls.cuh"
#include <distwar/group.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <limits>

using distwar::all_lanes;

namespace {

enum { KEYS = 32, CALLS = 80, SCHEDULES = 10, VALUES = 9 };

// Warp w makes calls[w] on its own targets: sums of 9, 1, 3 and 40 values, in several types, to all kinds of
// sinks.
struct targets {
    float *nine;        // a record of each key
    double *one;        // planes
    float *three;       // pointers
    long long *integer; // a record
    float *forty;       // a record
};
template <typename Key>
__global__ void add_often(const warp_call *calls, const float *values, targets to, int thresholds_differ) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    const Key key = Key(call.key[lane]);
    const size_t first = blockIdx.x * KEYS;
    const float *const own = values + (blockIdx.x * 32 + lane) * VALUES;
    float nine[9], three[3], forty[40];
    for (int k = 0; k < 9; ++k) nine[k] = own[k];
    for (int k = 0; k < 3; ++k) three[k] = own[k + 1];
    for (int k = 0; k < 40; ++k) forty[k] = own[k % 9];
    const double one[1] = {double(own[4])};
    const long long integer[2] = {active ? (long long)(own[5]) << 33 : -1, active ? (long long)(own[6]) : -1};
    distwar::pointers<3, float> sink;
    for (int k = 0; k < 3; ++k) sink.address[k] = active ? to.three + (first + key) * 3 + k : nullptr;

    const auto groups = distwar::group_lanes(call.lanes, active, key);
    const auto copy = groups;
    const int threshold = call.threshold, other = thresholds_differ ? 34 - threshold : threshold;
    groups.add(nine, distwar::record<float>{to.nine + first * 9, 9}, threshold);
    copy.add(one, distwar::planes<double>{to.one + first, KEYS}, other);
    groups.add(three, sink, threshold);
    groups.add(integer, distwar::record<long long>{to.integer + first * 2, 2}, other);
    copy.add(forty, distwar::record<float>{to.forty + first * 40, 40}, 2);
}

template <typename T>
void expect_equal(const device_array<T> &found, const std::vector<T> &expected, int each,
                  const std::vector<warp_call> &calls) {
    const std::vector<T> downloaded = found.download();
    for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(downloaded[i], expected[i])
            << "target " << i % (KEYS * each) << ": " << calls[i / (KEYS * each)];
}

template <typename Key>
void check_groups(draw &random, int thresholds_differ) {
    std::vector<warp_call> calls;
    for (int i = 0; i < CALLS; ++i) calls.push_back(draw_warp_call(random));
    std::vector<float> values(CALLS * 32 * VALUES, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> nine(CALLS * KEYS * 9), three(CALLS * KEYS * 3), forty(CALLS * KEYS * 40);
    std::vector<double> one(CALLS * KEYS);
    std::vector<long long> integer(CALLS * KEYS * 2);
    const device_array<float> to_nine(nine), to_three(three), to_forty(forty);
    const device_array<double> to_one(one);
    const device_array<long long> to_integer(integer);
    for (int i = 0; i < CALLS; ++i)
        for (int lane = 0; lane < 32; ++lane) {
            if (!(calls[i].active >> lane & 1)) continue;
            float *const own = &values[(i * 32 + lane) * VALUES];
            for (int k = 0; k < VALUES; ++k) own[k] = float(1 + random.below((1 << 19) - 64));
            const int at = i * KEYS + calls[i].key[lane];
            for (int k = 0; k < 9; ++k) nine[at * 9 + k] += own[k];
            for (int k = 0; k < 3; ++k) three[at * 3 + k] += own[k + 1];
            for (int k = 0; k < 40; ++k) forty[at * 40 + k] += own[k % 9];
            one[at] += double(own[4]);
            integer[at * 2] += (long long)(own[5]) << 33;
            integer[at * 2 + 1] += (long long)(own[6]);
        }
    const device_array<warp_call> device_calls(calls);
    const device_array<float> device_values(values);
    run(CALLS, 32, add_often<Key>, device_calls.get(), device_values.get(),
        targets{to_nine.get(), to_one.get(), to_three.get(), to_integer.get(), to_forty.get()},
        thresholds_differ);
    expect_equal(to_nine, nine, 9, calls);
    expect_equal(to_one, one, 1, calls);
    expect_equal(to_three, three, 3, calls);
    expect_equal(to_integer, integer, 2, calls);
    expect_equal(to_forty, forty, 40, calls);
}

TEST(GroupLanes, EverySumAddsEachLaneOnce) {
    draw random(1);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check_groups<int>(random, schedule % 2);
        check_groups<unsigned long long>(random, schedule % 2);
        if (testing::Test::HasFailure()) return;
    }
}

// Values that round: the same bits as reduce_tree.
template <bool ByGroup, int K>
__global__ void add_or_reduce(const warp_call *calls, const float *values, float *to) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = values[(blockIdx.x * 32 + lane) * K + k];
    const distwar::record<float> sink = {to + blockIdx.x * KEYS * K, K};
    const int threshold = call.threshold > 1 ? 0 : call.threshold; // no two commits to one place
    if constexpr (ByGroup)
        distwar::group_lanes(call.lanes, active, call.key[lane]).add(val, sink, threshold);
    else
        distwar::reduce_tree(call.lanes, active, call.key[lane], val, sink, threshold);
}
template <int K>
void check_bits() {
    draw random(2);
    std::vector<warp_call> calls;
    for (int i = 0; i < CALLS; ++i) calls.push_back(draw_warp_call(random));
    std::vector<float> values;
    for (int i = 0; i < CALLS * 32 * K; ++i)
        values.push_back(float(random.bits()) / float(1 + random.below(1000)));
    const device_array<warp_call> device_calls(calls);
    const device_array<float> device_values(values);
    const std::vector<float> zeros(CALLS * KEYS * K, 0.0f);
    const device_array<float> by_group(zeros), by_tree(zeros);
    run(CALLS, 32, add_or_reduce<true, K>, device_calls.get(), device_values.get(), by_group.get());
    run(CALLS, 32, add_or_reduce<false, K>, device_calls.get(), device_values.get(), by_tree.get());
    EXPECT_EQ(by_group.download(), by_tree.download());
}
TEST(GroupLanes, AddsInTheOrderOfReduceTree) {
    check_bits<1>();
    check_bits<4>();
    check_bits<9>();
}

__global__ void add_uniform(unsigned lanes, float *to) {
    const unsigned lane = threadIdx.x;
    if (!(lanes >> lane & 1)) return;
    const float val[2] = {float(1 + lane), 1};
    const auto groups = distwar::group_lanes(lanes, lane % 4 != 0, distwar::uniform_key{1ll});
    groups.add(val, distwar::record<float>{to, 2});
    groups.add(val, distwar::record<float>{to, 2}, 33);
}
TEST(GroupLanes, TakesAUniformKey) {
    for (const unsigned lanes : {all_lanes, 0x0ff0f00fu}) {
        std::vector<float> expected(4, 0.0f);
        for (int lane = 0; lane < 32; ++lane)
            if ((lanes >> lane & 1) && lane % 4 != 0) expected[2] += 2 * float(1 + lane), expected[3] += 2;
        const device_array<float> to(std::vector<float>(4, 0.0f));
        run(1, 32, add_uniform, lanes, to.get());
        EXPECT_EQ(to.download(), expected);
    }
}

#ifdef __SIMT__
template <int K>
__global__ void add_times(unsigned lanes, unsigned active, const int *keys, int threshold, int times,
                          float *to) {
    const unsigned lane = threadIdx.x;
    if (!(lanes >> lane & 1)) return;
    float val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    const auto groups = distwar::group_lanes(lanes, active >> lane & 1, keys[lane]);
    for (int i = 0; i < times; ++i) groups.add(val, distwar::record<float>{to, K}, threshold);
}
struct cost {
    int64_t shuffles, votes, matches, reductions, atomic_requests;
};
template <int K>
cost cost_of(int times, unsigned lanes, unsigned active, int keys, int threshold) {
    std::vector<int> key_of;
    for (int lane = 0; lane < 32; ++lane) key_of.push_back(lane % keys);
    const device_array<int> device_keys(key_of);
    const device_array<float> to(std::vector<float>(KEYS * K, 0.0f));
    simt_counters_reset();
    run(1, 32, add_times<K>, lanes, active, device_keys.get(), threshold, times, to.get());
    const simt_counters c = simt_counters_read();
    return {int64_t(c.shuffles), int64_t(c.votes - c.matches - c.reductions), int64_t(c.matches),
            int64_t(c.reductions), int64_t(c.atomic_requests)};
}
// Checks the cost of the handle alone and of each add: the third costs as much as the second.
template <int K>
void expect_cost(cost handle, cost add, unsigned lanes, unsigned active, int keys, int threshold = 0) {
    SCOPED_TRACE(testing::Message() << "K " << K << ", " << keys << " keys, threshold " << threshold);
    for (const int times : {0, 1, 3}) {
        const cost found = cost_of<K>(times, lanes, active, keys, threshold);
        EXPECT_EQ(found.shuffles, handle.shuffles + times * add.shuffles);
        EXPECT_EQ(found.votes, handle.votes + times * add.votes);
        EXPECT_EQ(found.matches, handle.matches + times * add.matches);
        EXPECT_EQ(found.reductions, handle.reductions + times * add.reductions);
        EXPECT_EQ(found.atomic_requests, times * add.atomic_requests);
    }
}

TEST(GroupCost, OfFurtherSumsHasNoMatchAndNoVote) {
    expect_cost<9>({0, 1, 0, 0, 0}, {0, 0, 0, 0, 0}, all_lanes, 0, 4);
    expect_cost<9>({1, 2, 0, 0, 0}, {12, 0, 0, 0, 9}, all_lanes, all_lanes, 1);
    expect_cost<9>({1, 2, 0, 0, 0}, {12, 0, 0, 0, 9}, all_lanes, 0x00010010, 1);
    expect_cost<9>({1, 3, 1, 1, 0}, {4 * 13, 0, 0, 0, 36}, all_lanes, all_lanes, 4);
    expect_cost<9>({1, 3, 1, 1, 0}, {0, 0, 0, 0, 9 * 32}, all_lanes, all_lanes, 32);
    expect_cost<4>({1, 3, 1, 1, 0}, {3 * 4 + 2, 0, 0, 0, 16}, all_lanes, all_lanes, 4); // side by side
    expect_cost<4>({1, 3, 1, 1, 0}, {3 * 4 + 2, 0, 0, 0, 16}, all_lanes, all_lanes, 4, 2);
    expect_cost<3>({0, 1, 1, 1, 0}, {2 * 4 - 1, 0, 0, 0, 3 * 6}, 0x00ffffff, 0x00ffffff, 6);
}
TEST(GroupCost, OfAThresholdIsAVoteInAWholeWarp) {
    expect_cost<9>({1, 3, 1, 1, 0}, {4 * 13, 1, 0, 0, 36}, all_lanes, all_lanes, 4, 8);
    expect_cost<9>({1, 3, 1, 1, 0}, {0, 1, 0, 0, 9 * 32}, all_lanes, all_lanes, 4, 9);
    expect_cost<9>({1, 3, 1, 1, 0}, {0, 1, 0, 0, 9 * 32}, all_lanes, all_lanes, 16, 3);
    expect_cost<4>({1, 3, 1, 1, 0}, {0, 1, 0, 0, 4 * 32}, all_lanes, all_lanes, 4, 9);
    expect_cost<3>({0, 1, 1, 1, 0}, {0, 0, 0, 0, 3 * 24}, 0x00ffffff, 0x00ffffff, 6, 5);
    expect_cost<9>({1, 2, 0, 0, 0}, {0, 0, 0, 0, 9 * 8}, all_lanes, 0xff, 1, 9); // too few are active
}
#endif

} // namespace
