// SPDX-License-Identifier: MIT
// The tree without a commit: the lane that holds each total, of every operator and type, and the trees over some bits of
// the lane.

#include "calls.cuh"
#include <utility>

using distwar::add;
using distwar::all_lanes;
using distwar::maximum;
using distwar::minimum;

namespace {

template <typename Op, typename T>
T identity() {
    using limits = std::numeric_limits<T>;
    const bool lowest = std::is_same_v<Op, maximum>;
    if constexpr (!is_extreme<Op>)
        return stored<T>(std::is_same_v<Op, distwar::multiply>);
    else if constexpr (std::is_integral_v<T>)
        return lowest ? limits::min() : limits::max();
    else
        return stored<T>(lowest ? -HUGE_VAL : HUGE_VAL);
}

// totals[lane][place] of one warp.
template <int K, typename T, typename Op>
__global__ void total_of(unsigned active, const T *values, T *totals) {
    const unsigned lane = threadIdx.x;
    enum { PLACES = distwar::tree_places(K) };
    T val[K], total[PLACES];
    for (int k = 0; k < K; ++k) val[k] = values[lane * K + k];
    distwar::tree_total(active >> lane & 1, val, total, Op{});
    for (int place = 0; place < PLACES; ++place) totals[lane * PLACES + place] = total[place];
}
// Launches total_of<K, T, Op> and gathers the K totals from the lanes that own them.
template <typename T>
std::vector<T> totals_of(int K, void (*kernel)(unsigned, const T *, T *), unsigned active,
                         const std::vector<T> &values) {
    const int places = distwar::tree_places(K);
    const device_array<T> device_values(values), totals(32 * places, stored<T>(77));
    run(1, 32, kernel, active, device_values.get(), totals.get());
    std::vector<T> found, all = totals.download();
    for (int k = 0; k < K; ++k)
        found.push_back(all[distwar::tree_owner(k) * places + distwar::tree_place(k)]);
    return found;
}
template <typename Op, typename T>
void check_totals(draw &random, int K, void (*kernel)(unsigned, const T *, T *)) {
    unsigned round = 0;
    for (const unsigned active : {all_lanes, 0u, 0x80000000u, 0x00f0010fu, random.bits(), random.bits()}) {
        std::vector<T> values, expected(K, identity<Op, T>());
        for (int i = 0; i < 32 * K; ++i) {
            const bool counts = active >> i / K & 1;
            values.push_back(counts ? draw_value<Op, T, T>(random) : draw_idle<Op, T, T>(random));
            if (counts) expected[i % K] = combined<Op>(expected[i % K], values.back());
        }
        set_schedule(round++);
        const std::vector<T> found = totals_of(K, kernel, active, values);
        for (int k = 0; k < K; ++k)
            EXPECT_TRUE(same_number(found[k], expected[k]))
                << "value " << k << " of " << K << ", " << sizeof(T)
                << " bytes: " << testing::PrintToString(found[k]) << ", not "
                << testing::PrintToString(expected[k]);
    }
}
template <typename Op, typename T, int... K>
void check_totals(draw &random) {
    (check_totals<Op, T>(random, K, total_of<K, T, Op>), ...);
}
// Minima and maxima for every third K: the shuffles are those of sums.
template <int... K>
void check_all_totals(draw &random, std::integer_sequence<int, K...>) {
    check_totals<add, float, K + 1 ...>(random);
    check_totals<minimum, float, (K / 3 * 3 + 1)...>(random);
    check_totals<maximum, float, (K / 3 * 3 + 1)...>(random);
}
TEST(Tree, TotalsAreInTheLanesThatOwnThem) {
    draw random(3);
    check_all_totals(random, std::make_integer_sequence<int, 64>());
    check_totals<add, double, 9, 64>(random);
    check_totals<add, long long, 1>(random);
    check_totals<add, __half2, 1, 5>(random);
    check_totals<add, __nv_bfloat162, 1, 5>(random);
}
template <typename Op>
void check_other_types() {
    draw random(4);
    check_totals<Op, int, 1, 2, 4>(random);
    check_totals<Op, unsigned, 3, 9>(random);
    check_totals<Op, long long, 3>(random);
    check_totals<Op, unsigned long long, 5>(random);
    check_totals<Op, __half2, 1, 5>(random);
    check_totals<Op, __nv_bfloat162, 1, 5>(random);
}
TEST(Tree, MinimaAndMaximaOfOtherTypes) {
    check_other_types<minimum>();
    check_other_types<maximum>();
    draw random(5);
    check_totals<distwar::multiply, __half2, 1>(random);
    check_totals<distwar::multiply, __nv_bfloat162, 1>(random);
}

TEST(Tree, MinimaAndMaximaIgnoreNaNAndSumsKeepIt) {
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> values(32, std::nanf(""));
    values[5] = 3;
    values[20] = -infinity;
    EXPECT_EQ((totals_of(1, total_of<1, float, minimum>, all_lanes, values)[0]), -infinity);
    EXPECT_EQ((totals_of(1, total_of<1, float, maximum>, all_lanes, values)[0]), 3);
    EXPECT_EQ((totals_of(1, total_of<1, float, maximum>, 1u << 4, values)[0]), -infinity);
    EXPECT_TRUE(std::isnan(totals_of(1, total_of<1, float, add>, all_lanes, values)[0]));
    EXPECT_EQ((totals_of(1, total_of<1, float, add>, 1u << 5, values)[0]), 3);
}
// A NaN or an overflow of one value of a pair leaves the other alone.
template <typename Pair>
void check_parts() {
    std::vector<Pair> values;
    for (int lane = 0; lane < 32; ++lane)
        values.push_back(pair_of<Pair>(float(lane), lane == 9 ? NAN : float(lane % 5) - 2));
    const auto sum = [&](unsigned active) { return totals_of(1, total_of<1, Pair, add>, active, values)[0]; };
    EXPECT_TRUE(same_number(sum(0xff), pair_of<Pair>(28, -3)));
    EXPECT_TRUE(same_number(sum(0x3ff), pair_of<Pair>(45, NAN)));
    values[3] = values[4] = pair_of<Pair>(3.3e38f, -1);
    EXPECT_EQ(number(sum(all_lanes & ~(1u << 9)).x), HUGE_VAL);
    EXPECT_TRUE(std::isfinite(number(sum(all_lanes & ~(1u << 9)).y)));
}
TEST(Tree, ThePartsOfAPairAreSummedApart) {
    check_parts<__half2>();
    check_parts<__nv_bfloat162>();
}

// val[lane][k] after tree_of_lanes.
template <int First, int End, int K, typename T>
__global__ void sums_of_lanes(const T *values, T *sums) {
    T val[K];
    for (int k = 0; k < K; ++k) val[k] = values[threadIdx.x * K + k];
    distwar::tree_of_lanes<First, End>(val);
    for (int k = 0; k < K; ++k) sums[threadIdx.x * K + k] = val[k];
}
template <int First, int End, typename T, int K>
void check_lanes(draw &random) {
    SCOPED_TRACE(testing::Message() << First << " to " << End << ", " << K << " values");
    std::vector<T> values(32 * K);
    for (T &value : values) value = T(random.below(1 << 16)) - 30000;
    const device_array<T> device_values(values), device_sums(32 * K, T(77));
    run(1, 32, sums_of_lanes<First, End, K, T>, device_values.get(), device_sums.get());
    const std::vector<T> found = device_sums.download();
    const int n = 1 << (End - First);
    for (int lane = 0; lane < 32; ++lane) {
        const int number = lane >> First & (n - 1);
        for (int i = 0; n * i + number < K; ++i) {
            T sum = 0;
            for (int other = 0; other < n; ++other)
                sum += values[(lane + ((other - number) << First)) * K + n * i + number];
            EXPECT_EQ(found[lane * K + i], sum) << "lane " << lane << ", place " << i;
        }
    }
}
template <int... K>
void check_all_lanes(std::integer_sequence<int, K...>) {
    draw random(4);
    (check_lanes<0, 5, float, K + 1>(random), ...);
    (check_lanes<3, 5, float, K + 1>(random), ...);
    (check_lanes<0, 3, double, K + 1>(random), ...);
    (check_lanes<2, 3, unsigned, K + 1>(random), ...);
    (check_lanes<1, 4, long long, K + 1>(random), ...);
    check_lanes<1, 5, float, 64>(random);
}
TEST(TreeOfLanes, SumsOverTheBitsOfTheLane) {
    check_all_lanes(std::make_integer_sequence<int, 9>());
}

} // namespace
