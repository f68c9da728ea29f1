// SPDX-License-Identifier: MIT
// Calls in chunks: arrays of more than 64 values, and counts known at run time. Minima show padding that is committed in
// place of values: it would become the minimum of a place behind them. costs.cu has what they cost.

#include "calls.cuh"
#include <distwar/fixed.cuh>
#include <distwar/hot_slots.cuh>

using distwar::add;
using distwar::all_lanes;
using distwar::minimum;

namespace {

enum { SCHEDULES = 4, MADE = 16 }; // calls

// ---- arrays of more than 64 values

// The lengths at which a last chunk has one value.
template <typename Call>
class Arrays : public testing::Test {};
using calls = tests_of<ATOMIC, SERIAL, BFLY, TREE, GROUP>;
TYPED_TEST_SUITE(Arrays, calls);
TYPED_TEST(Arrays, OfEveryCall) {
    constexpr call_kind Call = TypeParam::value;
    draw random(65);
    under_schedules(SCHEDULES, [&] {
        check<Call, RECORD, add, 65, float>(random, MADE);
        check<Call, RECORD, add, 129, float>(random, MADE);
        check<Call, RECORD, minimum, 65, float>(random, MADE);
        check<Call, ALIGNED, add, 99, float>(random, MADE);
        check<Call, FIELDS, add, 100, int>(random, MADE);
        check<Call, PAIRS, add, 75, __half, float>(random, MADE);
    });
}
TEST(ArraysOfTheTree, OfEveryLengthAndSink) {
    draw random(7);
    under_schedules(SCHEDULES, [&] {
        check<TREE, RECORD, add, 64, float>(random, MADE);
        check<TREE, RECORD, add, 96, float>(random, MADE);
        check<TREE, RECORD, add, 100, float>(random, MADE);
        check<TREE, RECORD, add, 128, float>(random, MADE);
        check<TREE, PLANES, add, 100, double>(random, MADE);
        check<TREE, FIELDS, add, 100, float>(random, MADE);
        check<TREE, OWN_BY_KEY, add, 67, float>(random, MADE);
        check<TREE, RECORD, add, 70, long long>(random, MADE);
        check<TREE, RECORD, add, 65, unsigned>(random, MADE);
        check<TREE, RECORD, add, 75, __half, float>(random, MADE);
    });
    check<TREE, RECORD, add, 513, float>(random, MADE);
    check<TREE, RECORD, minimum, 513, float>(random, MADE);
    check<TREE, ALIGNED, add, 513, float>(random, MADE);
    check<SERIAL, RECORD, add, 513, int>(random, MADE);
    check<BFLY, RECORD, add, 513, double>(random, MADE);
    check<GROUP, PLANES, add, 513, float>(random, MADE);
    check<GROUP, RECORD, add, 513, float>(random, MADE);
}

// ---- counts known at run time

// The values are a callable, or an array of Bound places of which those behind the count are garbage. wrong[0]: calls of the
// callable that are not the next one of an active lane. wrong[1]: calls that are missing.
template <call_kind Call, sink_kind Kind, typename Op, int Chunk, int Bound, typename T, typename V>
__global__ void make_counted_calls(const warp_call *calls, const V *values, int count, T *targets,
                                   int *wrong) {
    const warp_call &call = calls[blockIdx.x];
    const int lane = int(threadIdx.x), key = call.key[lane], values_each = count > 0 ? count : 0;
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    const V *const own = values + (int(blockIdx.x) * 32 + lane) * values_each;
    const auto sink = sink_of<Kind, 100, Op, distwar::scope::device>(
        targets + blockIdx.x * places_of(values_each), count, key, active);
    if constexpr (Bound > 0) {
        V val[Bound];
        for (int k = 0; k < Bound; ++k) val[k] = k < count ? own[k] : V(-1000);
        call_n_with<Call, Chunk>(call, active, key, count, val, sink);
    } else {
        int next = 0;
        const auto value_of = [&](int k) {
            if (!active || k != next++) atomicAdd(&wrong[0], 1);
            return own[k];
        };
        call_n_with<Call, Chunk>(call, active, key, count, value_of, sink);
        if (next != (active ? values_each : 0)) atomicAdd(&wrong[1], 1);
    }
}
template <call_kind Call, sink_kind Kind, typename Op, int Chunk, int Bound, typename T, typename V = T>
void check_counted(draw &random, int count) {
    const device_array<int> wrong(2, {});
    check_calls<Op, T, V>(random, draw_calls(random, MADE), Call, Kind, std::max(count, 0),
                          [&](const warp_call *calls, const V *values, T *targets) {
                              run(MADE, 32, make_counted_calls<Call, Kind, Op, Chunk, Bound, T, V>, calls,
                                  values, count, targets, wrong.get());
                          });
    EXPECT_EQ(wrong.download(), std::vector<int>(2, 0)) << "count " << count;
}

template <call_kind Call, int Chunk>
void check_counts() {
    draw random(Chunk);
    unsigned schedule = 0;
    for (const int count : {-1, 0, 1, Chunk - 1, Chunk, Chunk + 1, 3 * Chunk + 2, 99, 100}) {
        set_schedule(++schedule);
        check_counted<Call, RECORD, add, Chunk, 0, float>(random, count);
        check_counted<Call, RECORD, minimum, Chunk, 0, float>(random, count);
        if (count <= 100) check_counted<Call, RECORD, minimum, Chunk, 100, float>(random, count);
        if (testing::Test::HasFailure()) return;
    }
}
TEST(Counts, OfEveryCall) {
    check_counts<TREE, 4>();
    check_counts<TREE, 16>();
    check_counts<TREE, 64>();
    check_counts<SERIAL, 12>();
    check_counts<BFLY, 8>();
    check_counts<ATOMIC, 16>();
    check_counts<GROUP, 32>();
}
TEST(Counts, UpToTheLengthOfAnArray) {
    draw random(3);
    for (int count = 0; count <= 9; ++count)
        check_counted<TREE, RECORD, minimum, 16, 9, float>(random, count);
    check_counted<TREE, RECORD, minimum, 32, 0, float>(random, 513);
    check_counted<TREE, ALIGNED, add, 32, 0, float>(random, 513);
    check_counted<GROUP, PLANES, add, 16, 0, double>(random, 513);
}
TEST(Counts, IntoEverySink) {
    draw random(8);
    for (const int count : {1, 7, 15, 16, 34, 100}) {
        set_schedule(unsigned(count));
        check_counted<TREE, PLANES, add, 16, 0, int>(random, count);
        check_counted<TREE, ALIGNED, add, 16, 0, float>(random, count);
        check_counted<ATOMIC, ALIGNED, add, 8, 0, float>(random, count);
        check_counted<SERIAL, ALIGNED, add, 8, 0, float>(random, count);
        // The values of an array behind the count are not 0.
        check_counted<ATOMIC, ALIGNED, add, 16, 100, float>(random, count);
        check_counted<SERIAL, PAIRS, add, 16, 100, __half, float>(random, count);
        check_counted<TREE, OWN_BY_KEY, add, 16, 0, float>(random, count);
        check_counted<TREE, RECORD, add, 8, 0, unsigned long long>(random, count);
        check_counted<TREE, RECORD, add, 8, 0, __half, float>(random, count);
        check_counted<TREE, PAIRS, add, 16, 0, __half, float>(random, count);
        check_counted<ATOMIC, PAIRS, add, 4, 0, __half, float>(random, count);
        check_counted<TREE, ALIGNED, add, 4, 0, __half2>(random, count);
        check_counted<TREE, ALIGNED, add, 4, 0, __nv_bfloat162>(random, count);
        if (testing::Test::HasFailure()) return;
    }
    check_counted<TREE, FIELDS, add, 16, 0, float>(random, 100);
}

// ---- hot slots take both, and so does reduce_fixed

__global__ void add_to_slots(const warp_call *calls, const float *values, int count, float *targets) {
    __shared__ distwar::hot_slots<8, 40> slots;
    const warp_call &call = calls[blockIdx.x];
    const int lane = int(threadIdx.x);
    const distwar::record<float> table = {targets + blockIdx.x * places_of(count), stride_of(count)};
    const bool active = call.active >> lane & 1;
    const float *const own = values + (int(blockIdx.x) * 32 + lane) * count;
    slots.clear();
    for (int i = 0; i < 3; ++i) // the second and the third time the slots have owners
        distwar::reduce_n<16>(
            all_lanes, active, active ? call.key[lane] : 0, count, [&](int k) { return i < 2 ? 0 : own[k]; },
            slots.sink(table), call.threshold);
    slots.flush(table);
}
TEST(Counts, IntoHotSlots) {
    draw random(11);
    for (const int count : {5, 40})
        check_calls<add, float, float>(random, draw_calls(random, MADE), TREE, RECORD, count,
                                       [&](const warp_call *calls, const float *values, float *targets) {
                                           run(MADE, 32, add_to_slots, calls, values, count, targets);
                                       });
}

// Lane 7 holds a NaN in the last chunk.
__global__ void add_nan(unsigned active, long long *to, unsigned *flag) {
    distwar::fixed_format<70> format;
    float val[70];
    for (int k = 0; k < 70; ++k) format.scale[k] = val[k] = 1;
    if (threadIdx.x == 7) val[69] = __int_as_float(0x7fc00000);
    format.flag = flag;
    distwar::reduce_fixed(all_lanes, active >> threadIdx.x & 1, 0, val, distwar::record<long long>{to, 70},
                          format);
}
TEST(ArraysOfFixedPoint, AreExactAndTellOfNaN) {
    draw random(12);
    check<FIXED, RECORD, add, 70, long long, float>(random, MADE);
    check<FIXED, PLANES, add, 130, long long, float>(random, MADE);
    for (const unsigned active : {all_lanes, ~(1u << 7)}) {
        const device_array<long long> to(70, {});
        const device_array<unsigned> flag({0u});
        run(1, 32, add_nan, active, to.get(), flag.get());
        std::vector<long long> expected(70, active == all_lanes ? 32 : 31);
        expected[69] = 31;
        EXPECT_EQ(to.download(), expected);
        EXPECT_EQ(flag.download()[0], active == all_lanes ? unsigned(distwar::fixed_nan) : 0u);
    }
}

} // namespace
