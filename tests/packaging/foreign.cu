// SPDX-License-Identifier: MIT
// A program with types of its own in every place where the library takes them. With HOSTILE it also declares
// functions with the names of all functions of the library, and deletes them. Argument-dependent lookup would
// find them for an unqualified call, so the program compiles only if the library makes none. HOSTILE is 1 if
// they come before the library's headers, 2 if after.
//
// Each call and each sink is compiled once or twice, with few values. Costs and results are tested elsewhere.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace foreign {
template <typename T>
struct own_sink;
template <typename T>
struct own_values;
struct number;
} // namespace foreign

#if HOSTILE == 1
#include "hostile.h"
#endif
#include "every_header.h"
#if HOSTILE == 2
#include "hostile.h"
#endif

namespace foreign {

// A sink with every member that a call can use.
template <typename T>
struct own_sink {
    T *to;
    template <typename Key, int Count>
    __device__ void add(Key key, const T (&values)[Count]) const {
        for (int k = 0; k < Count; ++k) add_one(key, k, values[k]);
    }
    template <typename Key>
    __device__ void add_one(Key key, int k, T value) const {
        distwar::atomic_add(to + int(key) * 12 + k, value);
    }
    __device__ own_sink from(int first) const { return {to + first}; }
};
template <typename T>
struct own_values {
    const T *from;
    __device__ T operator()(int k) const { return from[k]; }
};
struct own_sum {
    template <typename Value>
    __device__ Value operator()(Value a, Value b) const {
        return a + b;
    }
};
struct number { // a key to sort by, a value of block_sum and of atomic_update
    int value;
    __device__ friend bool operator<(number a, number b) { return a.value < b.value; }
    __device__ friend number operator+(number a, number b) { return {a.value + b.value}; }
    __device__ friend number operator-(number a) { return {-a.value}; }
};

// Each call once, with values and a sink whose namespaces have functions of their own. K = 3: a tree with an
// even and an odd number of values.
template <typename T>
__global__ void every_call(unsigned lanes, unsigned active, int key, int count, const T *from, T *to) {
    using namespace distwar;
    const bool is_active = active >> threadIdx.x & 1;
    const T val[3] = {from[0], from[1], from[2]};
    const own_sink<T> sink = {to};
    const own_values<T> values = {from};
    distwar::reduce<strategy::atomic>(lanes, is_active, key, val, sink);
    distwar::reduce<strategy::serial>(lanes, is_active, key, val, sink, 8);
    distwar::reduce<strategy::bfly>(lanes, is_active, key, val, sink, 8);
    distwar::reduce<strategy::tree>(lanes, is_active, key, val, sink, 8);
    distwar::reduce_tree(all_lanes, is_active, uniform_key{key}, val, sink);
    const auto groups = distwar::group_lanes(lanes, is_active, key);
    groups.add(val, sink, 8);
    groups.add_n<4>(count, val, sink);
    distwar::reduce_n<strategy::atomic, 4>(lanes, is_active, key, count, values, sink);
    distwar::reduce_n<strategy::serial, 4>(lanes, is_active, key, count, values, sink);
    distwar::reduce_n<strategy::bfly, 4>(all_lanes, is_active, uniform_key{key}, count, values, sink);
    distwar::reduce_n<strategy::tree, 4>(all_lanes, is_active, uniform_key{key}, count, values, sink);
    distwar::reduce_n<4>(lanes, is_active, key, count, from, sink);
    groups.add_n(count, values, sink, at_key{key + 1ll});
    T many[130] = {}; // more than 64 are summed in chunks
    distwar::reduce_atomic(lanes, is_active, key, many, sink);
    T total[1];
    distwar::tree_total(is_active, val, total, maximum{});
    to[0] = total[0];
}
template __global__ void every_call(unsigned, unsigned, int, int, const __half2 *, __half2 *);

// The ways to a sink: one lane adds all values, or each lane one.
template <typename Sink, typename T, int Count>
__device__ void add_in(unsigned active, int key, const T (&val)[Count], const Sink &sink) {
    const bool is_active = active >> threadIdx.x & 1;
    distwar::reduce_serial(distwar::all_lanes, is_active, distwar::uniform_key{key}, val, sink);
    distwar::reduce_tree(distwar::all_lanes, is_active, distwar::uniform_key{key}, val, sink);
}
__global__ void sinks_of_floats(unsigned active, int key, const float *from, float *to) {
    using namespace distwar;
    const float val[3] = {from[0], from[1], from[2]};
    const float seven[7] = {from[0], from[1], from[2], from[3],
                            from[4], from[5], from[6]}; // 4 + 3 or 4 + 2 + 1
    add_in(active, key, val, record{to, 12});
    add_in(active, key, val, record<float, minimum, scope::system>{to, 12});
    add_in(active, key, val, planes<float, maximum, scope::block>{to, 12});
    add_in(active, key, val, pointers{to, to, to});
    add_in(active, key, val, fields<float, 1, 2>{{to, 4}, {to, 5}});
    add_in(active, key, seven, aligned_record{to, 12});
}
template <typename Half, typename Pair>
__global__ void sinks_of_halves(unsigned active, int key, const float *from, Half *to, Pair *pairs) {
    using namespace distwar;
    const float val[3] = {from[0], from[1], from[2]};
    add_in(active, key, val, record{to, 12});
    add_in(active, key, val, planes<Half, minimum>{to, 12});
    add_in(active, key, val, pointers{to, to, to});
    add_in(active, key, val, record_of_pairs{pairs, 12});
    add_in(active, key, val, record_of_halves<Half>{to, 12, 1000});
}
template __global__ void sinks_of_halves(unsigned, int, const float *, __half *, __half2 *);
template __global__ void sinks_of_halves(unsigned, int, const float *, __nv_bfloat16 *, __nv_bfloat162 *);
template <typename Pair>
__global__ void sinks_of_pairs(unsigned active, int key, const Pair *from, Pair *to) {
    using namespace distwar;
    const Pair val[3] = {from[0], from[1], from[2]};
    const Pair seven[7] = {from[0], from[1], from[2], from[3], from[4], from[5], from[6]};
    add_in(active, key, val, record{to, 12});
    add_in(active, key, val, planes<Pair, maximum>{to, 12});
    add_in(active, key, val, pointers<3, Pair, minimum, scope::block>{to, to, to});
    add_in(active, key, val, fields_with<multiply, scope::system, Pair, 1, 2>{{to, 4}, {to, 4}});
    add_in(active, key, seven, aligned_record{to, 8});
}
template __global__ void sinks_of_pairs(unsigned, int, const __half2 *, __half2 *);
template __global__ void sinks_of_pairs(unsigned, int, const __nv_bfloat162 *, __nv_bfloat162 *);

template <distwar::scope S, typename T, typename V>
__device__ void update(T *to, V value) {
    distwar::atomic_add<S>(to, value);
    distwar::atomic_update<S>(to, to[1], distwar::add{});
    distwar::atomic_update<S>(to, to[1], distwar::multiply{});
    distwar::atomic_update<S>(to, to[1], distwar::minimum{});
    distwar::atomic_update<S>(to, to[1], distwar::maximum{});
}
__global__ void updates(float *floats, double *doubles, number *numbers, __half *halves,
                        __nv_bfloat16 *bfloats, __half2 *pairs, __nv_bfloat162 *bfloat_pairs) {
    using distwar::scope;
    update<scope::device>(floats, 1.0f);
    update<scope::system>(doubles, 1.0);
    update<scope::block>(halves, 1.0f);
    update<scope::system>(bfloats, 1.0f);
    update<scope::system>(pairs, pairs[2]);
    update<scope::block>(bfloat_pairs, bfloat_pairs[2]);
    distwar::atomic_add<scope::block>(pairs, make_float2(1, 1));
    distwar::atomic_add<scope::system>(bfloat_pairs, make_float2(1, 1));
    distwar::atomic_update(numbers, number{1}, own_sum{});
}

__global__ void fixed_point(unsigned active, int key, long long *to, unsigned *flag) {
    using namespace distwar;
    const bool is_active = active >> threadIdx.x & 1;
    const float val[3] = {float(threadIdx.x)};
    const fixed_format<3> format = {{1, 1, 1}, flag};
    distwar::reduce_fixed(all_lanes, is_active, uniform_key{key}, val, own_sink<long long>{to}, format);
    to[0] = (long long)distwar::fixed_to_float(to[0], format.scale[0]);
}

__global__ void blocks(const number *from, number *numbers, float *to, int n) {
    using namespace distwar;
    __shared__ sort_memory<number, number, 64> memory;
    distwar::bitonic_sort(memory, n);
    __shared__ block_sum_memory<2, 64, number> partial;
    const number val[2] = {from[0], from[1]};
    number total[2];
    distwar::block_sum(val, partial, total, from[2]);
    numbers[0] = total[0];
    __shared__ accumulator<3, 8> sums;
    sums.clear();
    const float one[3] = {1, 1, 1};
    distwar::reduce_tree(distwar::existing_lanes<8>(), true, n, one, sums.sink());
    __shared__ int slots[8];
    sums.flush(slots, 8, own_sink<float>{to});
    sums.flush([](int slot) { return slot; }, 8, record{to, 4});
}

__global__ void counters(unsigned active, int key, unsigned *counter, number *numbers, float *to) {
    using namespace distwar;
    const bool is_active = active >> threadIdx.x & 1;
    distwar::fetch_add(all_lanes, is_active, key, 1u, counter);
    distwar::fetch_add(all_lanes, is_active, key, counter);
    distwar::append(all_lanes, is_active, counter);
    distwar::append(all_lanes, is_active, key, number{1}, queue<number>{numbers, counter, 8});
    __shared__ hot_slots<8, 3> slots;
    slots.clear();
    const float val[3] = {};
    add_in(active, key, val, slots.sink(own_sink<float>{to}));
    slots.flush(own_sink<float>{to});
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

} // namespace foreign
