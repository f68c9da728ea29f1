// SPDX-License-Identifier: MIT
// Sums of int and unsigned, in every call and to every sink; minima and maxima of integers; what redux saves.

#include "every_call.cuh"
#include <algorithm>
#include <distwar/hot_slots.cuh>
#include <limits>
#include <type_traits>

using distwar::all_lanes;

namespace {

enum { CALLS = 50, SCHEDULES = 6 };

template <typename T>
struct rules {
    using type = T;
    static T value(draw &random) { // signed sums stay in range, unsigned ones wrap
        const T drawn = T(random.bits());
        return std::is_signed_v<T> ? drawn / 64 : drawn;
    }
    static T idle(draw &random) { return value(random); }
    static T start(draw &random) { return T(random.below(1 << 20)); }
    static T combined(T old, T given) {
        using bits = std::make_unsigned_t<T>;
        return T(bits(old) + bits(given));
    }
    static bool same(T a, T b) { return a == b; }
};
template <call_kind Call, sink_kind Kind, int K, typename T>
void check(draw &random) {
    check_case<rules<T>, Call, Kind, distwar::add, K>(random, CALLS);
}

template <call_kind Call>
void check_call() {
    draw random(1 + Call);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check<Call, sink_in_turn<Call, 0>, 1, int>(random);
        check<Call, sink_in_turn<Call, 1>, 2, unsigned>(random);
        check<Call, sink_in_turn<Call, 2>, 3, int>(random);
        check<Call, sink_in_turn<Call, 3>, 4, unsigned>(random); // the first by a tree
        check<Call, sink_in_turn<Call, 0>, 9, int>(random);
        check<Call, sink_in_turn<Call, 1>, 2, unsigned long long>(random);
        check<Call, sink_in_turn<Call, 2>, 5, long long>(random);
        check<Call, sink_in_turn<Call, 3>, 1, unsigned>(random);
        if (testing::Test::HasFailure()) return;
    }
}
TEST(Integers, SumsByAtomicsAreExact) {
    check_call<ATOMIC>();
}
TEST(Integers, SumsBySerialAreExact) {
    check_call<SERIAL>();
}
TEST(Integers, SumsByBflyAreExact) {
    check_call<BFLY>();
}
TEST(Integers, SumsByTreesAreExact) {
    check_call<TREE>();
}
TEST(Integers, SumsOfGroupsAreExact) {
    check_call<GROUP>();
}

// A histogram with hot slots.
__global__ void count_keys(const int *keys, int count, unsigned *histogram) {
    __shared__ distwar::hot_slots<16, 1, unsigned> hot;
    const distwar::record<unsigned> bins = {histogram, 1};
    hot.clear();
    for (int i = int(threadIdx.x); i < count; i += int(blockDim.x)) {
        const unsigned one[1] = {1};
        distwar::reduce_tree(all_lanes, true, keys[i], one, hot.sink(bins));
    }
    hot.flush(bins);
}
TEST(Integers, AHistogramOfHotKeysIsExact) {
    draw random(3);
    std::vector<int> keys;
    std::vector<unsigned> expected(100, 0);
    for (int i = 0; i < 64 * 50; ++i) {
        keys.push_back(int(random.below(2) ? random.below(3) : random.below(100)));
        ++expected[keys.back()];
    }
    const device_array<int> device_keys(keys);
    const device_array<unsigned> histogram(std::vector<unsigned>(100, 0));
    run(1, 64, count_keys, device_keys.get(), int(keys.size()), histogram.get());
    EXPECT_EQ(histogram.download(), expected);
}

// totals[lane] of one warp, for at most 32 values.
template <int K, typename T, typename Op>
__global__ void total_of(unsigned active, const T *values, T *totals) {
    T val[K], total[1];
    for (int k = 0; k < K; ++k) val[k] = values[threadIdx.x * K + k];
    distwar::tree_total(active >> threadIdx.x & 1, val, total, Op{});
    totals[threadIdx.x] = total[0];
}
template <int K, typename T, typename Op>
std::vector<T> totals_of(unsigned active, const std::vector<T> &values) {
    const device_array<T> device_values(values), totals(std::vector<T>(32, T(77)));
    run(1, 32, total_of<K, T, Op>, active, device_values.get(), totals.get());
    std::vector<T> found = totals.download();
    found.resize(K); // value k is in lane k
    return found;
}
template <int K, typename T>
void check_extremes() {
    SCOPED_TRACE(testing::Message() << "K " << K << ", " << sizeof(T) << " bytes");
    using limits = std::numeric_limits<T>;
    draw random(K);
    for (const unsigned active : {all_lanes, 0u, 0x00f0010fu, 0x80000000u}) {
        std::vector<T> values(32 * K), least(K, limits::max()), most(K, limits::min());
        for (int lane = 0; lane < 32; ++lane)
            for (int k = 0; k < K; ++k) {
                T &value = values[lane * K + k];
                value = T((unsigned long long)random.bits() << 32 | random.bits());
                if (random.below(20) == 0) value = random.below(2) ? limits::max() : limits::min();
                if (!(active >> lane & 1)) continue;
                least[k] = std::min(least[k], value);
                most[k] = std::max(most[k], value);
            }
        EXPECT_EQ((totals_of<K, T, distwar::minimum>(active, values)), least);
        EXPECT_EQ((totals_of<K, T, distwar::maximum>(active, values)), most);
    }
}
TEST(Integers, MinimaAndMaximaOfATree) {
    check_extremes<1, int>();
    check_extremes<3, unsigned>();
    check_extremes<2, int>();
    check_extremes<4, int>();
    check_extremes<9, unsigned>();
    check_extremes<3, long long>();
    check_extremes<5, unsigned long long>();
}

#ifdef __SIMT__
template <int K, typename T>
__global__ void reduce_once(unsigned active, int keys, T *to) {
    T val[K];
    for (int k = 0; k < K; ++k) val[k] = 1;
    distwar::reduce_tree(all_lanes, active >> threadIdx.x & 1, int(threadIdx.x) % keys, val,
                         distwar::record<T>{to, K});
}
template <int K, typename T>
void expect_cost(int keys, uint64_t shuffles, uint64_t reductions, uint64_t requests) {
    SCOPED_TRACE(testing::Message() << "K " << K << ", " << keys << " keys");
    const device_array<T> to(std::vector<T>(32 * K, 0));
    simt_counters_reset();
    run(1, 32, reduce_once<K, T>, all_lanes, keys, to.get());
    const simt_counters counted = simt_counters_read();
    EXPECT_EQ(counted.shuffles, shuffles);
    EXPECT_EQ(counted.reductions, reductions);
    EXPECT_EQ(counted.atomic_requests, requests);
}
TEST(IntegersCost, OfFewValuesAtOneKeyIsARedux) {
    expect_cost<1, int>(1, 1, 1, 1);
    expect_cost<3, unsigned>(1, 1, 3, 3);
    expect_cost<4, unsigned>(1, 1 + 6, 0, 4);
    expect_cost<1, long long>(1, 1 + 5, 0, 1);
    expect_cost<1, int>(2, 1 + 2, 1 + 2, 2);      // group after group: 2 * 3, not 4 * 2 - 1 side by side
    expect_cost<1, int>(4, 1 + 5, 1, 4);          // side by side: 3 * 2 - 1, not 4 * 3
    expect_cost<2, unsigned>(2, 1 + 2, 1 + 4, 4); // 2 * 5, not 4 * 3 - 1
}
#endif

} // namespace
