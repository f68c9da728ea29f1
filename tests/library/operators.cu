// SPDX-License-Identifier: MIT
// Minima, maxima, products and bitwise operators: every call, every sink, every type they are for.

#include "every_call.cuh"
#include <cmath>
#include <limits>
#include <type_traits>

using distwar::all_lanes;

namespace {

enum { CALLS = 40, SCHEDULES = 4 };

// A value for the operator: of floats some are infinite or a NaN; products stay exact.
template <typename Op, typename T>
T draw_value(draw &random) {
    if constexpr (std::is_floating_point_v<T>) {
        if (std::is_same_v<Op, distwar::multiply>)
            return random.below(8) ? T(1) : random.below(2) ? T(-2) : T(0.5);
        switch (random.below(24)) {
        case 0:
            return std::numeric_limits<T>::infinity();
        case 1:
            return -std::numeric_limits<T>::infinity();
        case 2:
            return std::numeric_limits<T>::quiet_NaN();
        case 3:
            return -std::numeric_limits<T>::quiet_NaN();
        case 4:
            return std::numeric_limits<T>::denorm_min();
        default:
            return T((int(random.bits()) >> random.below(28)) + 0.25);
        }
    } else {
        const auto bits = (unsigned long long)random.bits() << 32 | random.bits();
        return random.below(16)  ? T(bits)
               : random.below(2) ? std::numeric_limits<T>::max()
                                 : std::numeric_limits<T>::min();
    }
}

template <typename T, typename Op>
T apply(T old, T value, Op op) {
    if constexpr (std::is_integral_v<T>) {
        using bits = std::make_unsigned_t<T>;
        if (std::is_same_v<Op, distwar::multiply>) return T(bits(old) * bits(value));
        if (std::is_same_v<Op, distwar::add>) return T(bits(old) + bits(value));
    }
    return op(old, value);
}

template <typename Op, typename T>
struct rules {
    using type = T;
    static T value(draw &random) { return draw_value<Op, T>(random); }
    static T idle(draw &random) { return value(random); }
    static T start(draw &random) {
        T drawn = value(random);
        while (drawn != drawn) drawn = value(random);
        return drawn;
    }
    static T combined(T old, T given) { return apply(old, given, Op{}); }
    static bool same(T a, T b) { return a == b; }
};
template <call_kind Call, sink_kind Kind, typename Op, int K, typename T>
void check(draw &random) {
    check_case<rules<Op, T>, Call, Kind, Op, K>(random, CALLS);
}

template <call_kind Call>
void check_call() {
    using namespace distwar;
    draw random(1 + Call);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        check<Call, sink_in_turn<Call, 0>, minimum, 1, float>(random);
        check<Call, sink_in_turn<Call, 1>, maximum, 4, float>(random);
        check<Call, sink_in_turn<Call, 2>, minimum, 9, double>(random);
        check<Call, sink_in_turn<Call, 3>, maximum, 1, double>(random);
        check<Call, sink_in_turn<Call, 0>, minimum, 2, int>(random);
        check<Call, sink_in_turn<Call, 1>, maximum, 5, int>(random);
        check<Call, sink_in_turn<Call, 2>, maximum, 1, unsigned>(random);
        check<Call, sink_in_turn<Call, 3>, minimum, 3, unsigned long long>(random);
        check<Call, sink_in_turn<Call, 0>, maximum, 4, long long>(random);
        check<Call, sink_in_turn<Call, 1>, bit_and, 1, unsigned>(random);
        check<Call, sink_in_turn<Call, 2>, bit_or, 5, int>(random);
        check<Call, sink_in_turn<Call, 3>, bit_or, 3, int>(random);
        check<Call, sink_in_turn<Call, 0>, bit_xor, 2, unsigned>(random);
        check<Call, sink_in_turn<Call, 1>, bit_and, 4, long long>(random);
        check<Call, sink_in_turn<Call, 2>, bit_xor, 1, unsigned long long>(random);
        check<Call, sink_in_turn<Call, 3>, multiply, 3, unsigned>(random);
        check<Call, sink_in_turn<Call, 0>, multiply, 2, float>(random);
        if (testing::Test::HasFailure()) return;
    }
}
TEST(Operators, ByAtomics) {
    check_call<ATOMIC>();
}
TEST(Operators, BySerial) {
    check_call<SERIAL>();
}
TEST(Operators, ByBfly) {
    check_call<BFLY>();
}
TEST(Operators, ByTrees) {
    check_call<TREE>();
}
TEST(Operators, OfGroups) {
    check_call<GROUP>();
}

// Every type by every operator, by a tree and by plain atomics.
template <typename T, typename Op>
void check_both(draw &random) {
    for (int schedule = 0; schedule < 2; ++schedule) {
        set_schedule(schedule);
        check<TREE, RECORD, Op, 2, T>(random);
        check<ATOMIC, RECORD, Op, 2, T>(random);
    }
}
template <typename T>
void check_type() {
    draw random(int(sizeof(T)));
    check_both<T, distwar::minimum>(random);
    check_both<T, distwar::maximum>(random);
    check_both<T, distwar::multiply>(random);
    if constexpr (std::is_integral_v<T>) {
        check_both<T, distwar::add>(random);
        check_both<T, distwar::bit_and>(random);
        check_both<T, distwar::bit_or>(random);
        check_both<T, distwar::bit_xor>(random);
    }
}
TEST(Operators, EveryTypeByEveryOperator) {
    check_type<int>();
    check_type<unsigned>();
    check_type<long long>();
    check_type<unsigned long long>();
    check_type<float>();
    check_type<double>();
}

// Many warps at few targets.
__global__ void update_in_crowd(float *least, unsigned *set, unsigned *odd) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    const float value[1] = {1000.0f - float(thread * 7919 % 4001)};
    const unsigned bit[1] = {1u << thread % 32};
    distwar::reduce_tree(all_lanes, true, thread % 3, value,
                         distwar::record<float, distwar::minimum>{least, 1});
    distwar::reduce_tree(all_lanes, thread % 5 != 0, 0, bit,
                         distwar::record<unsigned, distwar::bit_or>{set, 1});
    distwar::reduce_tree(all_lanes, thread % 5 != 0, 0, bit,
                         distwar::record<unsigned, distwar::bit_xor>{odd, 1});
}
TEST(Operators, OfManyWarps) {
    enum { THREADS = 96 * 9 };
    std::vector<float> expected(3, 5000.0f);
    unsigned expected_set = 0, expected_odd = 0;
    for (unsigned thread = 0; thread < THREADS; ++thread) {
        expected[thread % 3] = std::fmin(expected[thread % 3], 1000.0f - float(thread * 7919 % 4001));
        if (thread % 5 != 0) expected_set |= 1u << thread % 32, expected_odd ^= 1u << thread % 32;
    }
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        const device_array<float> least(std::vector<float>(3, 5000.0f));
        const device_array<unsigned> set(std::vector<unsigned>(1, 0)), odd(std::vector<unsigned>(1, 0));
        set_schedule(schedule);
        run(9, 96, update_in_crowd, least.get(), set.get(), odd.get());
        EXPECT_EQ(least.download(), expected);
        EXPECT_EQ(set.download()[0], expected_set);
        EXPECT_EQ(odd.download()[0], expected_odd);
    }
}

} // namespace
