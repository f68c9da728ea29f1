// SPDX-License-Identifier: MIT
// hot_slots: the sums are exact whatever the keys are, keys that come often stay out of memory, and others do
// not take their slots.

#include "device_test.cuh"
#include <algorithm>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <map>
#include <numeric>

using distwar::all_lanes;
using distwar::strategy;

namespace {

enum { BLOCKS = 3, THREADS = 96, TURNS = 20, ADDS = BLOCKS * THREADS * TURNS };

// Adds to the record of key % keys, and counts in commits[key % keys] how often a first value came there.
template <typename T>
struct counting_record {
    T *base;
    int stride, keys;
    unsigned *commits;

    template <typename Key, int K>
    __device__ void add(Key key, const T (&values)[K]) const {
        for (int k = 0; k < K; ++k) add_one(key, k, values[k]);
    }
    template <typename Key>
    __device__ void add_one(Key key, int k, T value) const {
        const auto row = static_cast<unsigned long long>(key) % keys;
        distwar::atomic_add(base + row * stride + k, value);
        if (k == 0) atomicAdd(commits + row, 1u);
    }
};

// Thread t adds in turn i the values of add i * threads + t; Flushes times, the last at the end.
template <strategy S, int N, int K, typename T, typename Key>
__global__ void add_by_slots(const Key *keys, const T *values, counting_record<T> table, unsigned skip,
                             int threshold, int flush_every) {
    __shared__ distwar::hot_slots<N, K, T, Key> hot;
    hot.clear();
    const int threads = int(gridDim.x * blockDim.x), thread = int(blockIdx.x * blockDim.x + threadIdx.x);
    for (int turn = 0; turn < TURNS; ++turn) {
        const int i = turn * threads + thread;
        const bool active = keys[i] % skip != 0;
        T val[K];
        for (int k = 0; k < K; ++k) val[k] = active ? values[i * K + k] : T(1 << 20);
        distwar::reduce<S>(all_lanes, active, keys[i], val, hot.sink(table), threshold);
        if (turn % flush_every == flush_every - 1) hot.flush(table);
    }
    hot.flush(table);
}

template <strategy S, int N, int K, typename T, typename Key>
std::vector<unsigned> check_sums(const std::vector<Key> &keys, int rows, unsigned skip, int threshold,
                                 int flush_every, draw &random) {
    std::vector<T> values(ADDS * K), expected(rows * K, T(0));
    for (T &value : values) value = T(1 + random.below(200)) - T(60); // sums that may be 0
    for (int i = 0; i < ADDS; ++i)
        for (int k = 0; k < K && keys[i] % skip != 0; ++k)
            expected[static_cast<unsigned long long>(keys[i]) % rows * K + k] += values[i * K + k];
    const device_array<Key> device_keys(keys);
    const device_array<T> device_values(values), table(rows * K, {});
    const device_array<unsigned> commits(rows, {});
    run(BLOCKS, THREADS, add_by_slots<S, N, K, T, Key>, device_keys.get(), device_values.get(),
        counting_record<T>{table.get(), K, rows, commits.get()}, skip, threshold, flush_every);
    EXPECT_EQ(table.download(), expected) << "strategy " << int(S) << ", N " << N << ", K " << K;
    return commits.download();
}

// Draws from 1000 keys: rank r comes with probability proportional to 1 / r.
template <typename Key>
std::vector<Key> zipf(draw &random) {
    std::vector<double> sum(1000);
    for (size_t r = 0; r < sum.size(); ++r) sum[r] = (r ? sum[r - 1] : 0) + 1.0 / double(r + 1);
    std::vector<Key> keys;
    for (int i = 0; i < ADDS; ++i) {
        const double drawn = sum.back() * random.below(1 << 24) / (1 << 24);
        keys.push_back(Key(std::upper_bound(sum.begin(), sum.end(), drawn) - sum.begin()));
    }
    return keys;
}

template <strategy S>
void check_strategy() {
    draw random(1 + unsigned(S));
    for (int schedule = 0; schedule < 4; ++schedule) {
        set_schedule(schedule);
        const int threshold = schedule % 2 * 3, flush_every = schedule < 2 ? 7 : TURNS + 1;
        check_sums<S, 64, 3, float>(zipf<int>(random), 1000, 5, threshold, flush_every, random);
        check_sums<S, 1, 1, float>(zipf<unsigned>(random), 1000, 2000, threshold, flush_every, random);
        check_sums<S, 16, 2, double>(zipf<long long>(random), 1000, 3, threshold, flush_every, random);
        check_sums<S, 256, 5, long long>(zipf<unsigned long long>(random), 1000, 5, threshold, flush_every,
                                         random);
        check_sums<S, 16, 1, unsigned>(zipf<int>(random), 1000, 2000, threshold, flush_every, random);
        std::vector<int> one_key(ADDS, 3), every_key;
        for (int i = 0; i < ADDS; ++i) every_key.push_back(i);
        check_sums<S, 8, 2, float>(one_key, 4, 5, threshold, flush_every, random);
        check_sums<S, 8, 2, float>(every_key, ADDS, 5, threshold, flush_every, random);
        if (testing::Test::HasFailure()) return;
    }
}
TEST(HotSlots, SumsAreExact) {
    check_strategy<strategy::atomic>();
    check_strategy<strategy::serial>();
    check_strategy<strategy::tree>();
}

// Keys at the ends of their types. What cannot own a slot goes to memory each time.
template <typename Key>
void check_limits(const std::vector<Key> &limits, size_t owners) {
    draw random(2);
    std::vector<Key> keys;
    for (int i = 0; i < ADDS; ++i) keys.push_back(limits[i % limits.size()]);
    enum { ROWS = 1009 }; // in which the limits are different keys
    set_schedule(1);
    const std::vector<unsigned> commits =
        check_sums<strategy::atomic, 1024, 2, float>(keys, ROWS, ROWS * 7, 0, TURNS + 1, random);
    for (size_t i = 0; i < limits.size(); ++i) {
        const unsigned found = commits[static_cast<unsigned long long>(limits[i]) % ROWS];
        if (i < owners)
            EXPECT_LE(found, unsigned(BLOCKS * (THREADS + 1))) << "key " << limits[i];
        else
            EXPECT_EQ(found, ADDS / limits.size()) << "key " << limits[i];
    }
}
TEST(HotSlots, TakeKeysUpToTheLimitsOfTheirTypes) {
    check_limits<int>({0x7ffffffe, 1, 0x7fffffff, -1, -0x7fffffff - 1}, 2);
    check_limits<unsigned>({0x7ffffffe, 1, 0x7fffffff, 0xffffffff, 0xfffffffe}, 2);
    check_limits<long long>({0x7ffffffffffffffe, 0x100000001, 0x7fffffffffffffff, -1, -2}, 2);
    check_limits<unsigned long long>({0x7ffffffffffffffe, 0x7fffffff, 0x7fffffffffffffff, ~0ull, ~1ull}, 2);
}

#ifdef __SIMT__
// A block of one warp, so that the order of arrivals is known: commits of each key by plain atomics.
std::map<int, unsigned> commits_of(const std::vector<int> &keys, int rows) {
    const device_array<int> device_keys(keys);
    const device_array<float> values(keys.size() * 2, 1.0f);
    const device_array<float> table(rows * 2, {});
    const device_array<unsigned> commits(rows, {});
    set_schedule(0);
    run(1, unsigned(keys.size() / TURNS), add_by_slots<strategy::atomic, 1, 2, float, int>, device_keys.get(),
        values.get(), counting_record<float>{table.get(), 2, rows, commits.get()}, unsigned(rows), 0,
        TURNS + 1);
    std::map<int, unsigned> result;
    const std::vector<unsigned> found = commits.download();
    for (int i = 0; i < rows; ++i)
        if (found[i]) result[i] = found[i];
    return result;
}

// 20 turns of one lane and one slot.
TEST(HotSlots, BelongToTheFirstKeyThatComesTwiceInARow) {
    std::vector<int> keys(TURNS, 7);
    EXPECT_EQ(commits_of(keys, 10), (std::map<int, unsigned>{{7, 2}})); // the first, and the flush
    keys[0] = 3;
    EXPECT_EQ(commits_of(keys, 10), (std::map<int, unsigned>{{3, 1}, {7, 2}}));
    for (int i = 0; i < TURNS; ++i) keys[i] = i % 2 ? 3 : 7; // nobody comes twice in a row
    EXPECT_EQ(commits_of(keys, 10), (std::map<int, unsigned>{{3, TURNS / 2}, {7, TURNS / 2}}));
    keys[2] = keys[3] = 5; // 7 3 5 5 7 3 ...: 5 owns the slot though it never comes again
    EXPECT_EQ(commits_of(keys, 10), (std::map<int, unsigned>{{3, 9}, {5, 2}, {7, 9}}));
}

TEST(HotSlots, KeepHotKeysOutOfMemory) {
    draw random(3);
    set_schedule(0);
    const std::vector<int> keys = zipf<int>(random);
    const std::vector<unsigned> commits =
        check_sums<strategy::atomic, 256, 1, float>(keys, 1000, 2000, 0, TURNS + 1, random);
    const auto came = [&](int key) { return unsigned(std::count(keys.begin(), keys.end(), key)); };
    for (int key = 1; key < 1000; ++key)
        EXPECT_LE(commits[key], came(key)) << "never more than without slots";
    EXPECT_LT(std::accumulate(commits.begin() + 1, commits.end(), 0u), (ADDS - came(0)) * 2 / 3);
    EXPECT_LT(commits[1], came(1) / 4);
    EXPECT_LT(commits[2], came(2) / 3);
}

// The atomics of one commit: K to memory, or K to shared memory, or one compare-and-swap more.
__global__ void commit_once(const int *keys, int turns, float *table) {
    __shared__ distwar::hot_slots<1, 9> hot;
    hot.clear();
    const float val[9] = {};
    for (int turn = 0; turn < turns; ++turn)
        distwar::reduce_tree(all_lanes, true, distwar::uniform_key{keys[turn]}, val,
                             hot.sink(distwar::record<float>{table, 9}));
    hot.flush(distwar::record<float>{table, 9});
}
uint64_t requests_of(const std::vector<int> &keys) {
    const device_array<int> device_keys(keys);
    const device_array<float> table(9 * 4, {}); // of keys -1 to 2
    set_schedule(0);
    simt_counters_reset();
    run(1, 32, commit_once, device_keys.get(), int(keys.size()), table.get() + 9);
    EXPECT_EQ(simt_counters_read().barriers, 1u + 3);
    EXPECT_EQ(simt_counters_read().shuffles, 12 * keys.size());
    return simt_counters_read().atomic_requests;
}
TEST(HotSlotsCost, IsOneCompareAndSwapWhileNobodyOwnsTheSlot) {
    EXPECT_EQ(requests_of({1}), 9u + 1);
    EXPECT_EQ(requests_of({1, 2}), 2u * (9 + 1));
    EXPECT_EQ(requests_of({1, 1}), 2u * (9 + 1));
    EXPECT_EQ(requests_of({1, 1, 1}), 2u * (9 + 1) + 9);
    EXPECT_EQ(requests_of({1, 1, 1, 2}), 2u * (9 + 1) + 9 + 9);
    EXPECT_EQ(requests_of({-1, -1}), 2u * 9);
}
#endif

} // namespace
