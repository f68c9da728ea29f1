// SPDX-License-Identifier: MIT
// The scope of a sink changes the atomics, and neither their number nor the sums. tests/codegen looks for the
// scope in the instructions.

#include "device_test.cuh"
#include "numbers.cuh"
#ifdef __SIMT__
// simt runs all scopes alike, so the functions that the headers call are counted by name.
#include <atomic>
std::atomic<int> calls_at_scope[3]; // by distwar::scope
#define COUNTED(scope, function) ((void)++calls_at_scope[scope], function)
#define atomicAdd(...) COUNTED(1, atomicAdd(__VA_ARGS__))
#define atomicAdd_block(...) COUNTED(0, atomicAdd_block(__VA_ARGS__))
#define atomicAdd_system(...) COUNTED(2, atomicAdd_system(__VA_ARGS__))
#define atomicMin(...) COUNTED(1, atomicMin(__VA_ARGS__))
#define atomicMin_block(...) COUNTED(0, atomicMin_block(__VA_ARGS__))
#define atomicMin_system(...) COUNTED(2, atomicMin_system(__VA_ARGS__))
#define atomicCAS(...) COUNTED(1, atomicCAS(__VA_ARGS__))
#define atomicCAS_block(...) COUNTED(0, atomicCAS_block(__VA_ARGS__))
#define atomicCAS_system(...) COUNTED(2, atomicCAS_system(__VA_ARGS__))
#endif
#include "calls.cuh"

using distwar::add;
using distwar::scope;

namespace {

enum { K = 6, SCHEDULES = 4 };

// What a call costs under simt, at scope S; the harness compares its sums.
template <scope S, call_kind Call, sink_kind Kind, typename Op, typename T, typename V>
std::vector<uint64_t> cost_at(unsigned seed) {
#ifdef __SIMT__
    simt_counters_reset();
    for (std::atomic<int> &each : calls_at_scope) each = 0;
#endif
    draw random(seed);
    check<Call, Kind, Op, K, T, V, int, false, S>(random, 12);
#ifdef __SIMT__
    const simt_counters c = simt_counters_read();
    for (int other = 0; other < 3 && !has_16_bits<T>; ++other) // 16-bit values have one scope here
        EXPECT_EQ(calls_at_scope[other] != 0, other == int(S)) << other;
    return {c.shuffles, c.votes, c.atomic_instructions, c.atomic_requests, c.atomic_bytes};
#else
    return {};
#endif
}
template <call_kind Call, sink_kind Kind, typename Op, typename T, typename V>
void check_scopes() {
    under_schedules(SCHEDULES, [] {
        const std::vector<uint64_t> at_device = cost_at<scope::device, Call, Kind, Op, T, V>(5);
        EXPECT_EQ((cost_at<scope::block, Call, Kind, Op, T, V>(5)), at_device) << "call " << Call;
        // At system scope 16-bit values are added by compare-and-swap, a pair as two values.
        const std::vector<uint64_t> at_system = cost_at<scope::system, Call, Kind, Op, T, V>(5);
        if (!has_16_bits<T>) {
            EXPECT_EQ(at_system, at_device) << "call " << Call;
        }
    });
}
template <sink_kind Kind, typename T, typename Op = add, typename V = T>
void check_calls_into() {
    check_scopes<ATOMIC, Kind, Op, T, V>();
    check_scopes<SERIAL, Kind, Op, T, V>();
    check_scopes<BFLY, Kind, Op, T, V>();
    check_scopes<TREE, Kind, Op, T, V>();
}

TEST(Scopes, OfSinks) {
    check_calls_into<RECORD, float>();
    check_calls_into<RECORD, unsigned long long>();
    check_calls_into<PLANES, double>();
    check_calls_into<PLANES, int>();
    check_calls_into<POINTERS, float>();
    check_calls_into<POINTERS, long long>();
    check_calls_into<FIELDS, float>();
    check_calls_into<ALIGNED, float>();
}
TEST(Scopes, OfOperators) {
    check_calls_into<RECORD, float, distwar::minimum>();
    check_calls_into<RECORD, unsigned, distwar::minimum>();
    check_calls_into<RECORD, double, distwar::multiply>(); // by compare-and-swap
}
TEST(Scopes, OfHalvesAndPairs) {
    check_calls_into<RECORD, __half, add, float>();
    check_calls_into<PLANES, __nv_bfloat16, add, float>();
    check_calls_into<PAIRS, __half, add, float>();
    check_calls_into<PAIRS, __nv_bfloat16, add, float>();
    check_calls_into<ALIGNED, __half2>();
}

} // namespace
