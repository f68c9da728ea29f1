// SPDX-License-Identifier: MIT
// A program with types of its own in every place where the library takes them. With HOSTILE it also has
// functions with the names of all functions of the library, which win an unqualified call by
// argument-dependent lookup. They are deleted: the program compiles only if the library calls none of them.
// HOSTILE is 1 if they come before the library's headers, 2 if after.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define DECLARE_HOSTILE(name)                                                                                \
    template <typename... Any>                                                                               \
    __host__ __device__ void name(Any &&...) = delete;                                                       \
    template <auto First, typename... Any>                                                                   \
    __host__ __device__ void name(Any &&...) = delete;                                                       \
    template <typename First, auto Second, typename... Any>                                                  \
    __host__ __device__ void name(Any &&...) = delete;

#if HOSTILE == 1
#include "hostile_names.h"
__device__ void atomic_add(__half *, float) = delete;
namespace stranger {
#include "hostile_names.h"
DECLARE_HOSTILE(memcpy)
} // namespace stranger
#endif

#include "every_header.h"

#if HOSTILE == 2
#include "hostile_names.h"
__device__ void atomic_add(__half *, float) = delete;
namespace stranger {
#include "hostile_names.h"
DECLARE_HOSTILE(memcpy)
} // namespace stranger
#endif

namespace stranger {

struct own_sink {
    float *to;
    template <typename Key, int Count>
    __device__ void add(Key key, const float (&values)[Count]) const {
        for (int k = 0; k < Count; ++k) add_one(key, k, values[k]);
    }
    template <typename Key>
    __device__ void add_one(Key key, int k, float value) const {
        distwar::atomic_add(to + int(key) * 12 + k, value);
    }
};
struct own_sum {
    template <typename Value>
    __device__ Value operator()(Value a, Value b) const {
        return a + b;
    }
};
struct number { // a key to sort by, a value of atomic_update
    int value;
    __device__ friend bool operator<(number a, number b) { return a.value < b.value; }
    __device__ friend number operator+(number a, number b) { return {a.value + b.value}; }
};

template <typename Sink, typename Value, int Count>
__device__ void every_call(unsigned active, int key, const Value (&val)[Count], const Sink &to) {
    const bool is_active = active >> threadIdx.x & 1;
    distwar::reduce<distwar::strategy::atomic>(distwar::all_lanes, is_active, key, val, to);
    distwar::reduce<distwar::strategy::serial>(distwar::all_lanes, is_active, key, val, to);
    distwar::reduce<distwar::strategy::bfly>(distwar::all_lanes, is_active, key, val, to);
    distwar::reduce<distwar::strategy::tree>(distwar::all_lanes, is_active, key, val, to);
    distwar::reduce<distwar::strategy::tree>(active, is_active, key, val, to, 8);
    distwar::reduce<distwar::strategy::tree>(distwar::all_lanes, is_active, distwar::uniform_key{key}, val,
                                             to);
    distwar::reduce_runs(distwar::all_lanes, is_active, key, val, to);
    distwar::group_lanes(distwar::all_lanes, is_active, key).add(val, to);
}

struct own_values {
    float first;
    __device__ float operator()(int k) const { return first + float(k); }
};
template <typename Sink>
__device__ void every_count(unsigned active, int key, int count, const float (&val)[9], const Sink &to) {
    const bool is_active = active >> threadIdx.x & 1;
    const own_values values = {val[0]};
    distwar::reduce_n<distwar::strategy::atomic>(distwar::all_lanes, is_active, key, count, values, to);
    distwar::reduce_n<distwar::strategy::serial, 8>(distwar::all_lanes, is_active, key, count, values, to);
    distwar::reduce_n<distwar::strategy::bfly>(distwar::all_lanes, is_active, key, count, val, to);
    distwar::reduce_n<distwar::strategy::tree>(active, is_active, key, count, values, to, 8);
    distwar::reduce_runs_n(distwar::all_lanes, is_active, key, count, values, to);
    distwar::group_lanes(distwar::all_lanes, is_active, key).add_n(count, val, to);
    float many[70] = {};
    distwar::reduce_tree(distwar::all_lanes, is_active, key, many, to);
}

template <typename T>
__device__ void every_update(T *to, T value) {
    distwar::atomic_update(to, value, distwar::add{});
    distwar::atomic_update(to, value, distwar::multiply{});
    distwar::atomic_update(to, value, distwar::minimum{});
    distwar::atomic_update<distwar::scope::block>(to, value, distwar::maximum{});
    distwar::atomic_update<distwar::scope::system>(to, value, distwar::add{});
}

__global__ void sums(unsigned active, int key, float *to, double *doubles, long long *integers,
                     unsigned *flag) {
    float val[9] = {};
    double wide[3] = {};
    val[0] = float(threadIdx.x);
    every_call(active, key, val, own_sink{to});
    every_call(active, key, val, distwar::record{to, 12});
    every_call(active, key, val, distwar::planes{to, 12});
    every_call(active, key, val, distwar::aligned_record{to, 12});
    every_call(active, key, val, distwar::pointers{to, to, to, to, to, to, to, to, to});
    const distwar::fields<float, 4, 5> two_arrays = {{to, 4}, {to, 5}};
    every_call(active, key, val, two_arrays);
    every_call(active, key, val, distwar::record_at<distwar::scope::system, float, distwar::minimum>{to, 12});
    every_count(active, key, 9, val, own_sink{to});
    every_count(active, key, 9, val, distwar::aligned_record{to, 72});
    every_count(active, key, 9, val, distwar::planes{to, 72});
    distwar::reduce_tree(distwar::all_lanes, true, key, wide, distwar::record{doubles, 3});
    const distwar::fixed_format<9> format = {{1, 1, 1, 1, 1, 1, 1, 1, 1}, flag};
    distwar::reduce_fixed(distwar::all_lanes, true, key, val, distwar::record{integers, 12}, format);
    to[0] = distwar::fixed_to_float(integers[0], format.scale[0]);
}

template <typename Half, typename Pair>
__global__ void halves(unsigned active, int key, Half *to, Pair *pairs, float value) {
    float val[9] = {value};
    every_call(active, key, val, distwar::record{to, 12});
    every_call(active, key, val, distwar::record_of_pairs{pairs, 12});
    every_call(active, key, val, distwar::planes{to, 12});
    every_update(to, to[1]);
    distwar::atomic_add<distwar::scope::block>(to, value);
    distwar::atomic_add<distwar::scope::system>(to, value);
    distwar::atomic_add<distwar::scope::block>(pairs, make_float2(value, value));
    distwar::atomic_add<distwar::scope::system>(pairs, make_float2(value, value));
}
template __global__ void halves(unsigned, int, __half *, __half2 *, float);
template __global__ void halves(unsigned, int, __nv_bfloat16 *, __nv_bfloat162 *, float);

template <typename Pair>
__global__ void values_of_pairs(unsigned active, int key, Pair *to) {
    const Pair val[3] = {to[0], to[1], to[2]};
    every_call(active, key, val, distwar::record{to, 4});
    every_call(active, key, val, distwar::planes<Pair, distwar::minimum>{to, 4});
    every_call(active, key, val, distwar::pointers{to, to, to});
    every_call(active, key, val, distwar::aligned_pairs{to, 4});
    every_call(active, key, val, distwar::fields<Pair, 1, 2>{{to, 4}, {to, 4}});
    every_update(to, val[0]);
    distwar::atomic_add<distwar::scope::block>(to, val[0]);
    distwar::atomic_add<distwar::scope::system>(to, val[1]);
}
template __global__ void values_of_pairs(unsigned, int, __half2 *);
template __global__ void values_of_pairs(unsigned, int, __nv_bfloat162 *);

__global__ void updates(float *to, double *doubles, number *numbers) {
    every_update(to, 1.0f);
    every_update(doubles, 1.0);
    distwar::atomic_update(numbers, number{1}, own_sum{});
    distwar::atomic_add(reinterpret_cast<float2 *>(to), make_float2(1, 1));
    distwar::atomic_add<distwar::scope::system>(reinterpret_cast<float4 *>(to), make_float4(1, 1, 1, 1));
}

__global__ void blocks(float *to, int n) {
    __shared__ distwar::sort_memory<number, number, 64> memory;
    distwar::bitonic_sort(memory, n);
    __shared__ distwar::block_sum_memory<2, 64> partial;
    float val[2] = {float(threadIdx.x), 1}, total[2];
    distwar::block_sum(val, partial, total, 5.0f);
    __shared__ distwar::accumulator<2, 8> sums;
    sums.clear();
    distwar::reduce_tree(distwar::all_lanes, true, n, total, sums.sink());
    __shared__ int slots[8];
    sums.flush(slots, 8, own_sink{to});
}

__global__ void counters(unsigned active, int key, unsigned *counter, number *numbers, float *to) {
    const bool is_active = active >> threadIdx.x & 1;
    distwar::fetch_add(distwar::all_lanes, is_active, key, 1u, counter);
    distwar::fetch_add(distwar::all_lanes, is_active, key, counter);
    distwar::append(distwar::all_lanes, is_active, counter);
    distwar::append(distwar::all_lanes, is_active, key, number{1},
                    distwar::queue<number>{numbers, counter, 8});
    __shared__ distwar::hot_slots<8, 9> slots;
    const distwar::record<float> table = {to, 12};
    slots.clear();
    float val[9] = {};
    every_call(active, key, val, slots.sink(table));
    slots.flush(table);
}

#ifndef __CUDACC_RTC__
struct body {
    int *calls;
    template <typename Strategy>
    void operator()(Strategy) const {
        ++*calls;
    }
};
int with_every_strategy() {
    int calls = 0;
    distwar::with_strategy(distwar::strategy::tree, body{&calls});
    return calls;
}
#endif

} // namespace stranger
