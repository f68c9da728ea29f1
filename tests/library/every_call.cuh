// SPDX-License-Identifier: MIT
// The calls that take any key and any sink, by number, and a test of one of them: random calls of single warps
// against a loop on the host.
#ifndef EVERY_CALL_CUH
#define EVERY_CALL_CUH

#include "warp_calls.cuh"
#include <distwar/sink.cuh>
#include <distwar/group.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>

enum call_kind {
    ATOMIC = DISTWAR_ATOMIC,
    SERIAL = DISTWAR_SERIAL,
    BFLY = DISTWAR_BFLY,
    TREE = DISTWAR_TREE,
    GROUP = DISTWAR_STRATEGY_COUNT
};

template <call_kind Call, int K, typename T, typename Sink>
__device__ void call_with(const warp_call &call, bool active, int key, const T (&val)[K], const Sink &sink) {
    if constexpr (Call == GROUP)
        distwar::group_lanes(call.lanes, active, key).add(val, sink, call.threshold);
    else
        distwar::reduce<distwar::strategy(Call)>(call.lanes, active, key, val, sink, call.threshold);
}

enum sink_kind { RECORD, PLANES, POINTERS, FIELDS, SINKS, OTHER = SINKS };
enum { CALL_KEYS = 32 };

// A warp has targets of its own: CALL_KEYS records of K values and a gap, or K planes.
__host__ __device__ constexpr int target_stride(int K) {
    return (K + 3) / 4 * 4;
}
__host__ __device__ constexpr int targets_of_a_warp(int K) {
    return CALL_KEYS * target_stride(K);
}

// OTHER: a sink of records of one test alone, which specialises this.
template <typename T>
struct other_sink; // static __device__ auto of(T *base, int stride)

// Block i is one warp. It makes the call calls[i] with values[i][lane][K].
template <call_kind Call, sink_kind Kind, typename Op, int K, typename T>
__global__ void reduce_cases(const warp_call *calls, const T *values, T *targets) {
    constexpr int stride = target_stride(K);
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x;
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    const int key = call.key[lane];
    T *const base = targets + blockIdx.x * targets_of_a_warp(K);
    T val[K];
    for (int k = 0; k < K; ++k) val[k] = values[(blockIdx.x * 32 + lane) * K + k];
    if constexpr (Kind == RECORD) {
        call_with<Call>(call, active, key, val, distwar::record<T, Op>{base, stride});
    } else if constexpr (Kind == PLANES) {
        call_with<Call>(call, active, key, val, distwar::planes<T, Op>{base, CALL_KEYS});
    } else if constexpr (Kind == POINTERS) {
        distwar::pointers<K, T, Op> sink;
        for (int k = 0; k < K; ++k) sink.address[k] = active ? base + key * stride + k : nullptr;
        call_with<Call>(call, active, key, val, sink);
    } else if constexpr (Kind == OTHER) {
        call_with<Call>(call, active, key, val, other_sink<T>::of(base, stride));
    } else if constexpr (K == 1) {
        using sink = distwar::fields_with<Op, distwar::scope::block, T, 1>;
        call_with<Call>(call, active, key, val, sink{{base, stride}});
    } else {
        using sink = distwar::fields_with<Op, distwar::scope::block, T, K - 1, 1>;
        call_with<Call>(call, active, key, val, sink{{base, stride}, {base + K - 1, stride}});
    }
}

// What is tested, without types that only the kernel knows: the host's side is compiled once for Rules.
template <typename T>
struct call_case {
    call_kind call;
    sink_kind sink;
    int values;
    void (*kernel)(const warp_call *, const T *, T *);
};

// Rules: type; value(random), idle(random) for an inactive lane, start(random) for a target, combined(old, value)
// and same(a, b).
template <typename Rules>
void check_case(draw &random, int count, const call_case<typename Rules::type> &given) {
    using T = typename Rules::type;
    const int K = given.values;
    std::vector<warp_call> calls;
    for (int i = 0; i < count; ++i) calls.push_back(draw_warp_call(random));
    std::vector<T> values, expected;
    for (int i = 0; i < count * 32 * K; ++i) {
        const bool active = calls[i / (32 * K)].active >> i / K % 32 & 1;
        values.push_back(active ? Rules::value(random) : Rules::idle(random));
    }
    for (int i = 0; i < count * targets_of_a_warp(K); ++i) expected.push_back(Rules::start(random));
    const device_array<warp_call> device_calls(calls);
    const device_array<T> device_values(values), targets(expected);
    for (int i = 0; i < count * 32 * K; ++i) {
        const warp_call &call = calls[i / (32 * K)];
        const int lane = i / K % 32, k = i % K, key = call.key[lane];
        if (!(call.active >> lane & 1)) continue;
        T &target = expected[i / (32 * K) * targets_of_a_warp(K) +
                             (given.sink == PLANES ? k * CALL_KEYS + key : key * target_stride(K) + k)];
        target = Rules::combined(target, values[i]);
    }
    run(unsigned(count), 32, given.kernel, device_calls.get(), device_values.get(), targets.get());
    const std::vector<T> found = targets.download();
    for (size_t i = 0; i < found.size(); ++i)
        ASSERT_TRUE(Rules::same(found[i], expected[i]))
            << "call " << given.call << ", sink " << given.sink << ", K " << K << ", target "
            << i % targets_of_a_warp(K) << ": " << testing::PrintToString(found[i]) << ", not "
            << testing::PrintToString(expected[i]) << ": " << calls[i / targets_of_a_warp(K)];
}

template <typename Rules, call_kind Call, sink_kind Kind, typename Op, int K>
void check_case(draw &random, int count) {
    using T = typename Rules::type;
    check_case<Rules>(random, count, {Call, Kind, K, reduce_cases<Call, Kind, Op, K, T>});
}

// The kind of sink changes from call to call: so each configuration of operator, type and K meets each call and each
// kind, and each call each kind, with a quarter of the kernels of all combinations. Turn differs from one
// configuration to the next.
template <call_kind Call, int Turn>
inline constexpr sink_kind sink_in_turn = sink_kind((Call + Turn) % SINKS);
static_assert((1 << ATOMIC % SINKS | 1 << SERIAL % SINKS | 1 << BFLY % SINKS | 1 << TREE % SINKS |
               1 << GROUP % SINKS) == (1 << SINKS) - 1);

#endif
