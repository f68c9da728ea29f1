// SPDX-License-Identifier: MIT
// Every strategy adds the values of every active lane once, for every number of values and under every schedule.
// sinks.cu has other types and sinks, product.cu all combinations of lanes, keys and thresholds.

#include "calls.cuh"
#include <utility>

using distwar::add;
using distwar::strategy;

namespace {

#ifdef DISTWAR_SANITIZE
enum { SCHEDULES = 4 }; // of 2 s each
#else
enum { SCHEDULES = 20 };
#endif

// A tree's sum depends on K, so each K meets each sink. The other strategies treat values one by one: there each K meets
// one sink.
template <call_kind Call, int... Index>
void check_counts_of_values(draw &random, std::integer_sequence<int, Index...>) {
    (check<Call, sink_kind(Index % SINKS), add, Index + 1, float, float,
           std::conditional_t<Index % 2, int, unsigned long long>>(random),
     ...);
    if constexpr (Call == TREE) {
        (check<Call, sink_kind((Index + 1) % SINKS), add, Index + 1, float>(random), ...);
        (check<Call, sink_kind((Index + 2) % SINKS), add, Index + 1, float>(random), ...);
        (check<Call, sink_kind((Index + 3) % SINKS), add, Index + 1, float>(random), ...);
    }
}
template <typename Call>
class Reduction : public testing::Test {};
using calls = tests_of<ATOMIC, SERIAL, BFLY, TREE>;
TYPED_TEST_SUITE(Reduction, calls);

TYPED_TEST(Reduction, AddsEachLaneOnce) {
    draw random(1 + TypeParam::value);
    under_schedules(SCHEDULES, [&] {
        check_counts_of_values<TypeParam::value>(random, std::make_integer_sequence<int, 16>());
    });
}
// Trees of 17 values and more: with K below 32 some lanes own no value, with K above 32 some own two.
TEST(ReductionByTree, OfManyValuesAddsEachLaneOnce) {
    draw random(9);
    under_schedules(2, [&] {
        check<TREE, POINTERS, add, 17, float, float, unsigned>(random);
        check<TREE, PLANES, add, 17, float>(random);
        check<TREE, RECORD, add, 31, float, float, long long>(random);
        check<TREE, FIELDS, add, 31, float>(random);
        check<TREE, POINTERS, add, 32, float>(random);
        check<TREE, PLANES, add, 32, float>(random);
        check<TREE, POINTERS, add, 33, float, float, unsigned long long>(random);
        check<TREE, RECORD, add, 33, float>(random);
        check<TREE, POINTERS, add, 64, double>(random);
        check<TREE, RECORD, add, 64, double>(random);
    });
}

// Two branches of one warp make different numbers of calls.
enum { SLOTS = 5, VALUES = 3 };
__host__ __device__ float value_of(int lane, int k) {
    return k < 2 ? float(lane + (k ? 100 : 1)) : float(1000 * lane);
}
template <strategy Then, strategy Else>
__global__ void reduce_in_branches(unsigned lanes, float *targets) {
    const int lane = int(threadIdx.x);
    const distwar::record<float> sink{targets, VALUES};
    const float val[VALUES] = {value_of(lane, 0), value_of(lane, 1), value_of(lane, 2)};
    if (lanes >> lane & 1) {
        for (int turn = 0; turn < 3; ++turn)
            distwar::reduce<Then>(lanes, lane % 3 != 0, lane % SLOTS, val, sink, 2);
    } else {
        for (int turn = 0; turn < 5; ++turn) distwar::reduce<Else>(~lanes, true, turn, val, sink);
    }
}
TEST(ReductionInBranches, CallsSeparately) {
    void (*const kernels[])(unsigned, float *) = {reduce_in_branches<strategy::serial, strategy::serial>,
                                                  reduce_in_branches<strategy::serial, strategy::bfly>,
                                                  reduce_in_branches<strategy::bfly, strategy::serial>,
                                                  reduce_in_branches<strategy::bfly, strategy::bfly>,
                                                  reduce_in_branches<strategy::atomic, strategy::serial>,
                                                  reduce_in_branches<strategy::tree, strategy::tree>,
                                                  reduce_in_branches<strategy::tree, strategy::bfly>,
                                                  reduce_in_branches<strategy::serial, strategy::tree>};
    for (const auto kernel : kernels)
        for (const unsigned lanes : {0x0000ffffu, 0x55555555u, 0x80000001u, 0x13579bdfu, 0x7fffffffu}) {
            std::vector<float> expected(SLOTS * VALUES, 7.0f);
            const std::vector<float> start = expected;
            for (int lane = 0; lane < 32; ++lane) {
                const bool then = lanes >> lane & 1;
                for (int turn = 0; turn < (then ? lane % 3 ? 3 : 0 : 5); ++turn)
                    for (int k = 0; k < VALUES; ++k)
                        expected[(then ? lane % SLOTS : turn) * VALUES + k] += value_of(lane, k);
            }
            under_schedules(5, [&] {
                const device_array<float> targets(start);
                run(1, 32, kernel, lanes, targets.get());
                EXPECT_EQ(targets.download(), expected) << std::hex << "lanes " << lanes;
            });
        }
}

// Within a group reduce_serial adds in the order of the lanes.
__global__ void reduce_in_order(const float *values, float *target) {
    const float val[1] = {values[threadIdx.x]};
    distwar::reduce_serial(distwar::all_lanes, threadIdx.x % 8 != 0, 0, val,
                           distwar::record<float>{target, 1});
}
TEST(ReductionBySerial, AddsInTheOrderOfLanes) {
    draw random(7);
    under_schedules(SCHEDULES, [&] {
        std::vector<float> values;
        float expected = 0;
        for (int lane = 0; lane < 32; ++lane) {
            values.push_back(float(random.bits()) / float(1 + random.below(1000)));
            if (lane % 8 != 0) expected += values.back();
        }
        const device_array<float> device_values(values), target(1, {});
        run(1, 32, reduce_in_order, device_values.get(), target.get());
        EXPECT_EQ(target.download()[0], expected);
    });
}

} // namespace
