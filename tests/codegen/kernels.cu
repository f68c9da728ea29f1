// SPDX-License-Identifier: MIT
// The calls of the library, each in a separate kernel, whose instructions codegen.py counts. The name of a kernel is
// CALL_K_VARIANT. tests/library checks what the calls compute.

#include <distwar/block.cuh>
#include <distwar/queue.cuh>
#include <distwar/sink.cuh>
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/reduce.cuh>
#ifndef __CUDACC_RTC__
#include <distwar/device/histogram.cuh>
#include <distwar/device/sums_by_key.cuh>
#endif

using namespace distwar;

#define KERNEL(name) extern "C" __global__ void name

namespace {

template <int K, typename T>
struct values_of {
    T of[K];
    __device__ __forceinline__ explicit values_of(const T *from) {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) of[k] = from[32 * k + threadIdx.x];
    }
};

} // namespace

// A whole warp with a uniform_key, threshold 0, K values into a sink.
#define INTO(call, K, name, T, ...)                                                                          \
    KERNEL(call##_##K##_##name)(const T *from, unsigned active, int key, T *to) {                            \
        const values_of<K, T> val(from);                                                                     \
        reduce_##call(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, __VA_ARGS__);          \
    }
#define ONE_KEY(call, K, T) INTO(call, K, T, T, record<T>{to, K})
ONE_KEY(atomic, 9, float)
ONE_KEY(serial, 9, float)
ONE_KEY(bfly, 9, float)
ONE_KEY(bfly, 9, double)
ONE_KEY(tree, 1, float)
ONE_KEY(tree, 4, float)
ONE_KEY(tree, 9, float)
ONE_KEY(tree, 9, double)
ONE_KEY(tree, 16, float)
ONE_KEY(tree, 32, float)
ONE_KEY(tree, 33, float)
ONE_KEY(tree, 64, float)
ONE_KEY(tree, 64, double)
ONE_KEY(tree, 65, float)
ONE_KEY(tree, 100, float)
ONE_KEY(tree, 128, float)

// The same for reduce_fixed, with one scale for all values.
KERNEL(fixed_9_float)
(const float *from, unsigned active, int key, float scale, long long *to, unsigned *flag) {
    const values_of<9, float> val(from);
    fixed_format<9> format;
    DISTWAR_UNROLL
    for (float &each : format.scale) each = scale;
    format.flag = flag;
    reduce_fixed(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, record<long long>{to, 9},
                 format);
}

// Any keys, lanes and threshold.
#define ANY_KEYS(call, K)                                                                                    \
    KERNEL(call##_##K##_any)                                                                                 \
    (const float *from, unsigned lanes, unsigned active, const int *keys, int threshold, float *to) {        \
        if (!(lanes >> threadIdx.x & 1)) return;                                                             \
        const values_of<K, float> val(from);                                                                 \
        reduce_##call(lanes, active >> threadIdx.x & 1, keys[threadIdx.x], val.of, record<float>{to, K},     \
                      threshold);                                                                            \
    }
ANY_KEYS(serial, 9)
ANY_KEYS(bfly, 9)
ANY_KEYS(tree, 9)
ANY_KEYS(tree, 64)

// A number of values known at run time, of which the functor computes value k.
struct scaled {
    const float *from;
    __device__ __forceinline__ float operator()(int k) const { return 2 * from[32 * k + threadIdx.x]; }
};
#define CHUNKS(call, K)                                                                                      \
    KERNEL(call##_##K##_chunks)(const float *from, unsigned active, int key, int count, float *to) {         \
        reduce_n<strategy::call, K>(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, count,           \
                                    scaled{from}, record<float>{to, size_t(count)});                         \
    }
CHUNKS(tree, 8)
CHUNKS(tree, 16)
CHUNKS(tree, 32)
CHUNKS(bfly, 8)
CHUNKS(atomic, 16)
KERNEL(tree_16_chunks_any)
(const float *from, unsigned lanes, unsigned active, const int *keys, int threshold, int count, float *to) {
    if (!(lanes >> threadIdx.x & 1)) return;
    reduce_n<16>(lanes, active >> threadIdx.x & 1, keys[threadIdx.x], count, scaled{from},
                 record<float>{to, size_t(count)}, threshold);
}
KERNEL(atomic_16_chunks_aligned)
(const float *from, unsigned active, int key, int count, float *to, size_t stride) {
    reduce_n<strategy::atomic, 16>(all_lanes, active >> threadIdx.x & 1, key, count, scaled{from},
                                   aligned_record{to, stride});
}
INTO(tree, 70, aligned, float, aligned_record{to, 72})
// existing_lanes of a block of full warps costs nothing.
KERNEL(tree_9_block)(const float *from, unsigned active, int key, float *to) {
    const values_of<9, float> val(from);
    reduce_tree(existing_lanes<256>(), active >> threadIdx.x & 1, uniform_key{key}, val.of,
                record<float>{to, 9});
}

// The other sinks.
INTO(tree, 9, planes, float, planes<float>{to, 1000})
INTO(bfly, 9, aligned, float, aligned_record{to, 12})
INTO(tree, 9, pointers, float,
     pointers{to, to + 100, to + 200, to + 300, to + 400, to + 500, to + 600, to + 700, to + 800})
KERNEL(tree_9_shared)(const float *from, unsigned active, int key, float *to) {
    __shared__ float sums[90];
    for (int i = threadIdx.x; i < 90; i += 32) sums[i] = 0;
    __syncthreads();
    const values_of<9, float> val(from);
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, record<float>{sums, 9});
    __syncthreads();
    for (int i = threadIdx.x; i < 90; i += 32) to[i] = sums[i];
}

// A sink of several arrays, as in docs/kernel.md.
struct gradient_arrays {
    float *color, *opacity, *mean2d, *conic;

    __device__ void add_one(int primitive, int k, float value) const {
        float *const base = k < 3 ? color : k < 4 ? opacity : k < 6 ? mean2d : conic;
        const int first = k < 3 ? 0 : k < 4 ? 3 : k < 6 ? 4 : 6;
        const int stride = k < 3 ? 3 : k < 4 ? 1 : k < 6 ? 2 : 3;
        atomic_add(base + size_t(primitive) * stride + (k - first), value);
    }
    __device__ void add(int primitive, const float (&values)[9]) const {
        for (int k = 0; k < 9; ++k) add_one(primitive, k, values[k]);
    }
};
KERNEL(tree_9_arrays)
(const float *from, unsigned active, int key, float *color, float *opacity, float *mean2d, float *conic) {
    const values_of<9, float> val(from);
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of,
                gradient_arrays{color, opacity, mean2d, conic});
}

// The same by the library's own sink.
KERNEL(tree_9_fields)
(const float *from, unsigned active, int key, float *color, float *opacity, float *mean2d, float *conic) {
    const values_of<9, float> val(from);
    const fields<float, 3, 1, 2, 3> sink = {{color, 3}, {opacity, 1}, {mean2d, 2}, {conic, 3}};
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, sink);
}

// fields of several shapes: no value lies in local memory, whatever the call.
#define FIELDS_20                                                                                            \
    {                                                                                                        \
        {a, 3}, {a + 100, 3}, {a + 200, 9}, {b, 2}, {b + 100, 2}, {                                          \
            b + 200, 1                                                                                       \
        }                                                                                                    \
    }
#define INTO_FIELDS(call, K, name, sink_type, ...)                                                           \
    KERNEL(call##_##K##_##name)                                                                              \
    (const float *from, unsigned active, const int *keys, int threshold, float *a, float *b) {               \
        const values_of<K, float> val(from);                                                                 \
        const sink_type sink = __VA_ARGS__;                                                                  \
        reduce_##call(all_lanes, active >> threadIdx.x & 1, keys[threadIdx.x], val.of, sink, threshold);     \
    }
using fields_20 = fields<float, 3, 3, 9, 2, 2, 1>;
using fields_16_1 = fields<float, 16, 1>;
INTO_FIELDS(atomic, 20, fields, fields_20, FIELDS_20)
INTO_FIELDS(serial, 20, fields, fields_20, FIELDS_20)
INTO_FIELDS(bfly, 20, fields, fields_20, FIELDS_20)
INTO_FIELDS(tree, 20, fields, fields_20, FIELDS_20)
INTO_FIELDS(serial, 17, fields, fields_16_1, {{a, 16}, {b, 1}})
KERNEL(one_call_20_fields)(const float *from, unsigned active, int key, float *a, float *b) {
    const values_of<20, float> val(from);
    const fields_20 sink = FIELDS_20;
    reduce(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, sink);
}

// reduce with several keys, in global and in shared memory.
#define ONE_CALL(K, T, name, ...)                                                                            \
    KERNEL(one_call_##K##_##name)(const T *from, unsigned active, const int *keys, T *to) {                  \
        const values_of<K, T> val(from);                                                                     \
        reduce(all_lanes, active >> threadIdx.x & 1, keys[threadIdx.x], val.of, __VA_ARGS__);                \
    }
ONE_CALL(1, float, float, record<float>{to, 1})
ONE_CALL(4, float, float, record<float>{to, 4})
ONE_CALL(2, float, vector, aligned_record{to, 2})
ONE_CALL(1, half2, half2, record<half2>{to, 1})
ONE_CALL(4, half2, vector, aligned_record<half2>{to, 4})
ONE_CALL(9, float, float, record<float>{to, 9})

// A loop over corners or nodes is the code of one call.
#define CORNERS(name, unrolled)                                                                              \
    KERNEL(name)(const float *from, unsigned active, const int *keys, float *to) {                           \
        const bool is_active = active >> threadIdx.x & 1;                                                    \
        _Pragma(unrolled) for (int i = 0; i < 8; ++i)                                                        \
            reduce(all_lanes, is_active, keys[32 * i + threadIdx.x], from[32 * i + threadIdx.x],             \
                   record<float>{to, 1});                                                                    \
    }
CORNERS(corners_unrolled, "unroll 8")
CORNERS(corners_looped, "unroll 1")

// 27 nodes of a cell: the groups are found once.
KERNEL(group_27_nodes)(const float *from, unsigned active, const int *cells, const int *offset, float *to) {
    const int cell = cells[threadIdx.x];
    const auto groups = group_lanes(all_lanes, active >> threadIdx.x & 1, cell);
    _Pragma("unroll 1") for (int node = 0; node < 27; ++node)
        groups.add(values(from[32 * node + threadIdx.x], from[32 * node + 1000 + threadIdx.x]),
                   record<float>{to, 4}, at_key{cell + offset[node]});
}

// A pointer that lies in a struct in device memory, with and without in_global; beside it an atomic of the kernel's
// own, by a pointer from the same struct.
struct arguments {
    float *gradient, *own;
    const int *keys;
    unsigned active;
};
KERNEL(tree_9_from_memory)(const float *from, const arguments *given) {
    const values_of<9, float> val(from);
    float *const own = in_global(given->own);
    reduce_tree(all_lanes, given->active >> threadIdx.x & 1, given->keys[threadIdx.x], val.of,
                record<float>{in_global(given->gradient), 12});
    atomicAdd(own + threadIdx.x, 1.0f);
}
KERNEL(one_call_9_from_memory)(const float *from, const arguments *given) {
    const values_of<9, float> val(from);
    reduce(all_lanes, given->active >> threadIdx.x & 1, given->keys[threadIdx.x], val.of,
           record<float>{in_global(given->gradient), 12});
}

// Plain atomics and the calls that stand for them. codegen.py compares each own_X with plain_X.
#define SUMS_OF_KEYS(name, T, K, begin, add, end)                                                            \
    KERNEL(name)(const T *from, unsigned active, const int *keys, T *to) {                                   \
        begin;                                                                                               \
        const values_of<K, T> val(from);                                                                     \
        const int key = keys[threadIdx.x];                                                                   \
        const bool is_active = active >> threadIdx.x & 1;                                                    \
        add;                                                                                                 \
        end;                                                                                                 \
    }
#define PLAIN(add, sums, K, place)                                                                           \
    if (is_active) {                                                                                         \
        DISTWAR_UNROLL                                                                                       \
        for (int k = 0; k < K; ++k) add(&sums[place], val.of[k]);                                            \
    }
#define SAME_AS_PLAIN(name, T, K, add, place, call)                                                          \
    SUMS_OF_KEYS(plain_##name, T, K, , PLAIN(add, to, K, place), )                                           \
    SUMS_OF_KEYS(own_##name, T, K, , call, )
#define ATOMIC(...) reduce_atomic(all_lanes, is_active, key, val.of, __VA_ARGS__)
SAME_AS_PLAIN(record_float, float, 9, atomicAdd, size_t(key) * 12 + k, ATOMIC(record<float>{to, 12}))
SAME_AS_PLAIN(record_double, double, 3, atomicAdd, size_t(key) * 4 + k, ATOMIC(record<double>{to, 4}))
SAME_AS_PLAIN(record_int, int, 3, atomicAdd, size_t(key) * 4 + k, ATOMIC(record<int>{to, 4}))
SAME_AS_PLAIN(record_half2, __half2, 1, atomicAdd, size_t(key) + k, ATOMIC(record<__half2>{to, 1}))
SAME_AS_PLAIN(planes_float, float, 4, atomicAdd, size_t(key) + size_t(k) * 1000,
              ATOMIC(planes<float>{to, 1000}))
SAME_AS_PLAIN(pointers_float, float, 2, atomicAdd, size_t(key) + size_t(k) * 1000,
              ATOMIC(pointers{&to[size_t(key)], &to[size_t(key) + 1000]}))
SAME_AS_PLAIN(fields_float, float, 4, atomicAdd, k < 3 ? size_t(key) * 3 + k : size_t(key) + 1000,
              ATOMIC(fields<float, 3, 1>{{to, 3}, {to + 1000, 1}}))
SAME_AS_PLAIN(block_int, int, 1, atomicAdd_block, size_t(key),
              ATOMIC(record<int, distwar::add, scope::block>{to, 1}))
struct own_sink {
    float *to;
    __device__ void add(int key, const float (&values)[2]) const {
        for (int k = 0; k < 2; ++k) atomicAdd(&to[size_t(key) * 2 + k], values[k]);
    }
};
SAME_AS_PLAIN(sink_float, float, 2, atomicAdd, size_t(key) * 2 + k, ATOMIC(own_sink{to}))
#define SHARED_ZEROS(T)                                                                                      \
    __shared__ T sums[1024];                                                                                 \
    for (int i = threadIdx.x; i < 1024; i += 32) sums[i] = T(0);                                             \
    __syncthreads()
#define SHARED_TO_GLOBAL                                                                                     \
    __syncthreads();                                                                                         \
    for (int i = threadIdx.x; i < 1024; i += 32) to[i] = sums[i]
#define SAME_AS_PLAIN_IN_SHARED(name, T, K, place, call)                                                     \
    SUMS_OF_KEYS(plain_##name, T, K, SHARED_ZEROS(T), PLAIN(atomicAdd, sums, K, place), SHARED_TO_GLOBAL)    \
    SUMS_OF_KEYS(own_##name, T, K, SHARED_ZEROS(T), call, SHARED_TO_GLOBAL)
#define SEVERAL(...) reduce(all_lanes, is_active, key, val.of, __VA_ARGS__)
SAME_AS_PLAIN_IN_SHARED(shared_int, int, 1, key, ATOMIC(record<int>{sums, 1}))
SAME_AS_PLAIN_IN_SHARED(shared_planes, float, 4, key + k * 256, ATOMIC(planes<float>{sums, 256}))
SAME_AS_PLAIN_IN_SHARED(shared_double, double, 2, key * 2 + k, ATOMIC(record<double>{sums, 2}))
SAME_AS_PLAIN_IN_SHARED(shared_said, int, 2, key * 2 + k, SEVERAL(in_shared(record<int>{sums, 2})))
SAME_AS_PLAIN_IN_SHARED(shared_seen, int, 2, key * 2 + k, SEVERAL(record<int>{sums, 2}))
SAME_AS_PLAIN_IN_SHARED(shared_seen_float, float, 2, key * 2 + k, SEVERAL(record<float>{sums, 2}))

// The loop of a histogram, the bins in shared memory: nvcc unrolls both alike.
#define HISTOGRAM(name, add)                                                                                 \
    KERNEL(name)(const int *from, int count, const int *keys, int *to) {                                     \
        SHARED_ZEROS(int);                                                                                   \
        for (int i = threadIdx.x; i < count; i += 32) {                                                      \
            const int key = keys[i], val[1] = {from[i]};                                                     \
            add;                                                                                             \
        }                                                                                                    \
        SHARED_TO_GLOBAL;                                                                                    \
    }
HISTOGRAM(plain_histogram, atomicAdd(sums + key, val[0]))
HISTOGRAM(own_histogram, reduce(all_lanes, true, key, val, in_shared(record<int>{sums, 1})))

// Counters that return.
KERNEL(append_to_one)(unsigned active, unsigned *count, unsigned *slots) {
    slots[threadIdx.x] = append(all_lanes, active >> threadIdx.x & 1, count);
}
KERNEL(fetch_ones)(unsigned active, const int *keys, unsigned *counters, unsigned *results) {
    results[threadIdx.x] = fetch_add(all_lanes, active >> threadIdx.x & 1, keys[threadIdx.x], counters);
}
KERNEL(fetch_at_one_key)(const unsigned *from, unsigned active, unsigned *counter, unsigned *results) {
    results[threadIdx.x] =
        fetch_add(all_lanes, active >> threadIdx.x & 1, uniform_key{0}, from[threadIdx.x], counter);
}

// Pairs of 16-bit values: a pair costs what a float costs.
ONE_KEY(bfly, 5, half2)
ONE_KEY(tree, 5, half2)
ONE_KEY(tree, 9, half2)
ONE_KEY(tree, 9, nv_bfloat162)
ONE_KEY(serial, 5, nv_bfloat162)
KERNEL(atomic_9_aligned_pairs)(const __half2 *from, unsigned active, int key, __half2 *to) {
    const values_of<9, __half2> val(from);
    reduce_atomic(all_lanes, active >> threadIdx.x & 1, key, val.of, aligned_record<__half2>{to, 12});
}
KERNEL(total_9_minimum_of_pairs)(const __half2 *from, unsigned active, __half2 *to) {
    const values_of<9, __half2> val(from);
    __half2 total[tree_places(9)];
    tree_total(active >> threadIdx.x & 1, val.of, total, minimum{});
    to[threadIdx.x] = total[0];
}

// Hot slots: each value goes to the slot in shared memory or to the sink in global memory.
__shared__ hot_slots<64, 4> hot_of_threads;
KERNEL(hot_4_add)(const float *from, const int *keys, float *to) {
    const values_of<4, float> val(from);
    hot_of_threads.sink(record<float>{to, 4}).add(keys[threadIdx.x], val.of);
}
__shared__ hot_slots<64, 9> hot_of_warps;
KERNEL(hot_9_tree)(const float *from, unsigned active, int key, float *to) {
    const values_of<9, float> val(from);
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of,
                hot_of_warps.sink(record<float>{to, 9}));
}

// The tree without a commit.
KERNEL(total_9_minimum)(const float *from, unsigned active, float *to) {
    const values_of<9, float> val(from);
    float total[tree_places(9)];
    tree_total(active >> threadIdx.x & 1, val.of, total, minimum{});
    to[threadIdx.x] = total[0];
}

// Each sink at each scope.
#define SINK_AT(sink, where, call, From, To, K, ...)                                                         \
    KERNEL(sink##_at_##where)(const From *from, int key, To *to) {                                           \
        const values_of<K, From> val(from);                                                                  \
        reduce_##call(all_lanes, true, uniform_key{key}, val.of, __VA_ARGS__);                               \
    }
#define AT_SCOPE(where)                                                                                      \
    SINK_AT(record, where, tree, float, float, 7, record<float, distwar::add, scope::where>{to, 8})          \
    SINK_AT(minimum, where, tree, float, float, 7, record<float, minimum, scope::where>{to, 8})              \
    SINK_AT(planes, where, tree, float, float, 7, planes<float, distwar::add, scope::where>{to, 1000})       \
    SINK_AT(fields, where, tree, float, float, 7,                                                            \
            fields_with<distwar::add, scope::where, float, 3, 4>{{to, 3}, {to + 1000, 4}})                   \
    SINK_AT(pointers, where, tree, float, float, 2,                                                          \
            pointers<2, float, distwar::add, scope::where>{{to, to + 100}})                                  \
    SINK_AT(aligned, where, atomic, float, float, 7, aligned_record<float, scope::where>{to, 8})             \
    SINK_AT(half, where, tree, float, __half, 7, record<__half, distwar::add, scope::where>{to, 8})          \
    SINK_AT(pairs, where, atomic, float, __half2, 2, record_of_pairs<__half2, scope::where>{to, 8})          \
    SINK_AT(vectors, where, atomic, __half2, __half2, 5, aligned_record<__half2, scope::where>{to, 8})
AT_SCOPE(block)
AT_SCOPE(device)
AT_SCOPE(system)

// The kernels of calls that the host makes: no stack, at most 64 registers.
#ifndef __CUDACC_RTC__
#define ADD_ROWS(T, V, ...)                                                                                  \
    template __global__ void detail::add_rows<T, V, detail::__VA_ARGS__>(                                    \
        detail::row_request, void *, detail::fixed_sums, int, detail::row_tile);
ADD_ROWS(float, 1, fixed_adder<float, 1>)
ADD_ROWS(float, 1, fixed_adder<float, 2>)
ADD_ROWS(double, 1, fixed_adder<double, 2>)
ADD_ROWS(float, 4, float_adder<float, 4, float>)
template __global__ void detail::find_largest<float, 4>(const void *, int64_t, unsigned *, ulonglong2 *,
                                                        int64_t);
template __global__ void detail::add_fixed_sums<float, 1>(detail::fixed_sums, float *, int64_t);
template __global__ void detail::add_fixed_sums<float, 2>(detail::fixed_sums, float *, int64_t);
template __global__ void detail::count_in_ranges<int, unsigned>(key_counts<int, unsigned>, int, int);
template __global__ void detail::count_in_memory<int, unsigned>(key_counts<int, unsigned>);
#endif
