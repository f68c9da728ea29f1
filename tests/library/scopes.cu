// SPDX-License-Identifier: MIT
// The scope of a sink changes the atomics, and neither their number nor the sums. tests/codegen looks for the
// scope in the instructions.

#include "warp_calls.cuh"
#ifdef __SIMT__
// simt runs all scopes alike, so the functions that the headers call are counted by name.
#include <atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
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
#include <distwar/sink.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

using distwar::scope;
using distwar::strategy;

namespace {

enum { K = 6, KEYS = 32, STRIDE = 8, CALLS = 12, SCHEDULES = 4 };

template <scope S, typename T>
struct record_sink {
    using type = distwar::record<T, distwar::add, S>;
    static __device__ type of(T *to, int) { return {to, STRIDE}; }
};
template <scope S, typename T>
struct planes_sink {
    using type = distwar::planes<T, distwar::add, S>;
    static __device__ type of(T *to, int) { return {to, KEYS}; }
};
template <scope S, typename T>
struct pointers_sink {
    using type = distwar::pointers<K, T, distwar::add, S>;
    static __device__ type of(T *to, int key) {
        type sink;
        for (int k = 0; k < K; ++k) sink.address[k] = to + key * STRIDE + k;
        return sink;
    }
};
template <scope S, typename T>
struct fields_sink {
    using type = distwar::fields_with<distwar::add, S, T, 2, 4>;
    static __device__ type of(T *to, int) { return {{to, 2}, {to + 2 * KEYS, 4}}; }
};
template <scope S, typename T>
struct aligned_sink {
    using type = distwar::aligned_record<float, S>;
    static __device__ type of(T *to, int) { return {to, STRIDE}; }
};
template <scope S, typename T>
struct minimum_sink {
    using type = distwar::record<T, distwar::minimum, S>;
    static __device__ type of(T *to, int) { return {to, STRIDE}; }
};
template <scope S, typename T>
struct product_sink { // by compare-and-swap
    using type = distwar::record<T, distwar::multiply, S>;
    static __device__ type of(T *to, int) { return {to, STRIDE}; }
};
template <scope S, typename Half>
struct pairs_sink {
    using pair = std::conditional_t<std::is_same_v<Half, __half>, __half2, __nv_bfloat162>;
    using type = distwar::record_of_pairs<pair, S>;
    static __device__ type of(Half *to, int) { return {reinterpret_cast<pair *>(to), STRIDE / 2}; }
};

template <typename T>
T from_int(int value) {
    if constexpr (std::is_same_v<T, __half>)
        return __float2half_rn(float(value));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
        return __float2bfloat16_rn(float(value));
    else
        return T(value);
}

template <template <scope, typename> class Sink, scope S, strategy How, typename T, typename V>
__global__ void add_values(const warp_call *calls, const V *values, T *to) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    if (!(call.lanes >> lane & 1)) return;
    V val[K];
    for (int k = 0; k < K; ++k) val[k] = values[(blockIdx.x * 32 + lane) * K + k];
    const bool active = call.active >> lane & 1;
    const int key = active ? call.key[lane] : 0;
    distwar::reduce<How>(call.lanes, active, key, val, Sink<S, T>::of(to + blockIdx.x * KEYS * STRIDE, key),
                         call.threshold);
}

// What one call leaves in memory, and what it costs under simt.
struct outcome {
    std::vector<char> bytes;
    std::vector<uint64_t> counts;
    bool operator==(const outcome &other) const { return bytes == other.bytes && counts == other.counts; }
};
template <template <scope, typename> class Sink, scope S, strategy How, typename T, typename V>
outcome outcome_of(const std::vector<warp_call> &calls, const std::vector<V> &values) {
    const device_array<warp_call> device_calls(calls);
    const device_array<V> device_values(values);
    const device_array<T> to(std::vector<T>(CALLS * KEYS * STRIDE, from_int<T>(3)));
    outcome found;
#ifdef __SIMT__
    simt_counters_reset();
    for (std::atomic<int> &each : calls_at_scope) each = 0;
#endif
    run(CALLS, 32, add_values<Sink, S, How, T, V>, device_calls.get(), device_values.get(), to.get());
#ifdef __SIMT__
    const simt_counters c = simt_counters_read();
    for (int other = 0; other < 3 && std::is_same_v<T, V>; ++other) // 16-bit values have one scope here
        EXPECT_EQ(calls_at_scope[other] != 0, other == int(S)) << other;
    found.counts = {c.shuffles, c.votes, c.atomic_instructions, c.atomic_requests, c.atomic_bytes};
#endif
    const std::vector<T> sums = to.download();
    found.bytes.resize(sums.size() * sizeof(T));
    memcpy(found.bytes.data(), static_cast<const void *>(sums.data()), found.bytes.size());
    return found;
}

// Values are small integers, so all sums are exact, in 16 bits too. Memory at device scope is tested by the
// tests of each sink.
template <template <scope, typename> class Sink, strategy How, typename T, typename V = T>
void check_sink() {
    draw random(5);
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        std::vector<warp_call> calls;
        for (int i = 0; i < CALLS; ++i) calls.push_back(draw_warp_call(random));
        std::vector<V> values;
        for (int i = 0; i < CALLS * 32 * K; ++i) values.push_back(V(random.below(8)) - 4);
        const outcome at_device = outcome_of<Sink, scope::device, How, T>(calls, values);
        const std::vector<T> start(CALLS * KEYS * STRIDE, from_int<T>(3));
        EXPECT_NE(
            memcmp(static_cast<const void *>(start.data()), at_device.bytes.data(), at_device.bytes.size()),
            0);
        EXPECT_TRUE((at_device == outcome_of<Sink, scope::block, How, T>(calls, values))) << int(How);
        outcome at_system = outcome_of<Sink, scope::system, How, T>(calls, values);
        // At system scope 16-bit values are added by compare-and-swap, a pair as two values.
        if (!std::is_same_v<T, V>) at_system.counts = at_device.counts;
        EXPECT_TRUE(at_device == at_system) << int(How);
        if (testing::Test::HasFailure()) return;
    }
}
template <template <scope, typename> class Sink, typename T, typename V = T>
void check_strategies() {
    check_sink<Sink, strategy::atomic, T, V>();
    check_sink<Sink, strategy::serial, T, V>();
    check_sink<Sink, strategy::bfly, T, V>();
    check_sink<Sink, strategy::tree, T, V>();
}

TEST(Scopes, OfRecord) {
    check_strategies<record_sink, float>();
    check_strategies<record_sink, unsigned long long>();
}
TEST(Scopes, OfPlanes) {
    check_strategies<planes_sink, double>();
    check_strategies<planes_sink, int>();
}
TEST(Scopes, OfPointers) {
    check_strategies<pointers_sink, float>();
    check_strategies<pointers_sink, long long>();
}
TEST(Scopes, OfFields) {
    check_strategies<fields_sink, float>();
}
TEST(Scopes, OfAlignedRecord) {
    check_strategies<aligned_sink, float>();
}
TEST(Scopes, OfAnOperator) {
    check_strategies<minimum_sink, float>();
    check_strategies<minimum_sink, unsigned>();
    check_strategies<product_sink, double>();
}
TEST(Scopes, OfHalves) {
    check_strategies<record_sink, __half, float>();
    check_strategies<planes_sink, __nv_bfloat16, float>();
}
TEST(Scopes, OfPairs) {
    check_strategies<pairs_sink, __half, float>();
    check_strategies<pairs_sink, __nv_bfloat16, float>();
}

} // namespace
