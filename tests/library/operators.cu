// SPDX-License-Identifier: MIT
// Minima, maxima, products and bitwise operators: every call, every sink, every type they are for.

#include "calls.cuh"

namespace {

enum { SCHEDULES = 4 };

template <typename Call>
class Operators : public testing::Test {};
using calls = tests_of<ATOMIC, SERIAL, BFLY, TREE, GROUP>;
TYPED_TEST_SUITE(Operators, calls);

TYPED_TEST(Operators, AreAppliedToEachLaneOnce) {
    using namespace distwar;
    constexpr call_kind Call = TypeParam::value;
    draw random(1 + Call);
    under_schedules(SCHEDULES, [&] {
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
    });
}

// Every type by every operator, by a tree and by plain atomics.
template <typename T>
class OperatorsOf : public testing::Test {};
using types =
    testing::Types<int, unsigned, long, unsigned long, long long, unsigned long long, float, double>;
TYPED_TEST_SUITE(OperatorsOf, types);
template <typename T, typename... Ops>
void check_both(draw &random) {
    (check<TREE, RECORD, Ops, 2, T>(random), ...);
    (check<ATOMIC, RECORD, Ops, 2, T>(random), ...);
}
TYPED_TEST(OperatorsOf, EveryType) {
    using namespace distwar;
    draw random(int(sizeof(TypeParam)));
    under_schedules(2, [&] {
        check_both<TypeParam, minimum, maximum, multiply>(random);
        if constexpr (std::is_integral_v<TypeParam>)
            check_both<TypeParam, add, bit_and, bit_or, bit_xor>(random);
    });
}

} // namespace
