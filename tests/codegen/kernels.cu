// SPDX-License-Identifier: MIT
// The calls of the library, each in a separate kernel. codegen.py counts their instructions. The name of a
// kernel is CALL_K_VARIANT.

#include <distwar/block.cuh>
#include <distwar/fetch.cuh>
#include <distwar/fields.cuh>
#include <distwar/fixed.cuh>
#include <distwar/half.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/packed.cuh>
#include <distwar/reduce.cuh>

using namespace distwar;

namespace {

template <int K, typename T>
struct values {
    T of[K];
    __device__ __forceinline__ explicit values(const T *from) {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) of[k] = from[32 * k + threadIdx.x];
    }
};

} // namespace

// A whole warp with a uniform_key, threshold 0, K values into a record.
#define ONE_KEY(call, K, T)                                                                                  \
    extern "C" __global__ void call##_##K##_##T(const T *from, unsigned active, int key, T *to) {            \
        const values<K, T> val(from);                                                                        \
        reduce_##call(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, record<T>{to, K});     \
    }
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
extern "C" __global__ void fixed_9_float(const float *from, unsigned active, int key, float scale,
                                         long long *to, unsigned *flag) {
    const values<9, float> val(from);
    fixed_format<9> format;
    DISTWAR_UNROLL
    for (float &each : format.scale) each = scale;
    format.flag = flag;
    reduce_fixed(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, record<long long>{to, 9},
                 format);
}

// Any keys, lanes and threshold.
#define ANY_KEYS(call, K)                                                                                    \
    extern "C" __global__ void call##_##K##_any(const float *from, unsigned lanes, unsigned active,          \
                                                const int *keys, int threshold, float *to) {                 \
        if (!(lanes >> threadIdx.x & 1)) return;                                                             \
        const values<K, float> val(from);                                                                    \
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
    extern "C" __global__ void call##_##K##_chunks(const float *from, unsigned active, int key, int count,   \
                                                   float *to) {                                              \
        reduce_##call##_n<K>(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, count, scaled{from},    \
                             record<float>{to, size_t(count)});                                              \
    }
CHUNKS(tree, 8)
CHUNKS(tree, 16)
CHUNKS(tree, 32)
CHUNKS(bfly, 8)
CHUNKS(atomic, 16)
extern "C" __global__ void tree_16_chunks_any(const float *from, unsigned lanes, unsigned active,
                                              const int *keys, int threshold, int count, float *to) {
    if (!(lanes >> threadIdx.x & 1)) return;
    reduce_tree_n<16>(lanes, active >> threadIdx.x & 1, keys[threadIdx.x], count, scaled{from},
                      record<float>{to, size_t(count)}, threshold);
}
extern "C" __global__ void atomic_16_chunks_aligned(const float *from, unsigned active, int key, int count,
                                                    float *to, size_t stride) {
    reduce_atomic_n<16>(all_lanes, active >> threadIdx.x & 1, key, count, scaled{from},
                        aligned_record{to, stride});
}
extern "C" __global__ void tree_70_aligned(const float *from, unsigned active, int key, float *to) {
    const values<70, float> val(from);
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, aligned_record{to, 72});
}
extern "C" __global__ void tree_9_some(const float *from, unsigned active, int key, int count, float *to) {
    const values<9, float> val(from);
    reduce_tree_n(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, count, val.of,
                  record<float>{to, size_t(count)});
}

// existing_lanes of a block of full warps costs nothing.
extern "C" __global__ void tree_9_block(const float *from, unsigned active, int key, float *to) {
    const values<9, float> val(from);
    reduce_tree(existing_lanes<256>(), active >> threadIdx.x & 1, uniform_key{key}, val.of,
                record<float>{to, 9});
}

// The other sinks.
extern "C" __global__ void tree_9_planes(const float *from, unsigned active, int key, float *to) {
    const values<9, float> val(from);
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, planes<float>{to, 1000});
}
extern "C" __global__ void bfly_9_aligned(const float *from, unsigned active, int key, float *to) {
    const values<9, float> val(from);
    reduce_bfly(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, aligned_record{to, 12});
}
extern "C" __global__ void tree_9_pointers(const float *from, unsigned active, float *to) {
    const values<9, float> val(from);
    const pointers sink{to, to + 100, to + 200, to + 300, to + 400, to + 500, to + 600, to + 700, to + 800};
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{0}, val.of, sink);
}
extern "C" __global__ void tree_9_shared(const float *from, unsigned active, int key, float *to) {
    __shared__ float sums[90];
    for (int i = threadIdx.x; i < 90; i += 32) sums[i] = 0;
    __syncthreads();
    const values<9, float> val(from);
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, record<float>{sums, 9});
    __syncthreads();
    for (int i = threadIdx.x; i < 90; i += 32) to[i] = sums[i];
}

// A sink of several arrays, as in docs/integrating.md.
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
extern "C" __global__ void tree_9_arrays(const float *from, unsigned active, int key, float *color,
                                         float *opacity, float *mean2d, float *conic) {
    const values<9, float> val(from);
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of,
                gradient_arrays{color, opacity, mean2d, conic});
}

// The same by the library's own sink.
extern "C" __global__ void tree_9_fields(const float *from, unsigned active, int key, float *color,
                                         float *opacity, float *mean2d, float *conic) {
    const values<9, float> val(from);
    const fields<float, 3, 1, 2, 3> sink = {{color, 3}, {opacity, 1}, {mean2d, 2}, {conic, 3}};
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of, sink);
}

// Counters that return.
extern "C" __global__ void append_to_one(unsigned active, unsigned *count, unsigned *slots) {
    slots[threadIdx.x] = append(all_lanes, active >> threadIdx.x & 1, count);
}
extern "C" __global__ void fetch_ones(unsigned active, const int *keys, unsigned *counters,
                                      unsigned *results) {
    results[threadIdx.x] = fetch_add(all_lanes, active >> threadIdx.x & 1, keys[threadIdx.x], counters);
}
extern "C" __global__ void fetch_at_one_key(const unsigned *from, unsigned active, unsigned *counter,
                                            unsigned *results) {
    results[threadIdx.x] =
        fetch_add(all_lanes, active >> threadIdx.x & 1, uniform_key{0}, from[threadIdx.x], counter);
}

// Pairs of 16-bit values: a pair costs what a float costs.
ONE_KEY(bfly, 5, half2)
ONE_KEY(tree, 5, half2)
ONE_KEY(tree, 9, half2)
ONE_KEY(tree, 9, nv_bfloat162)
ONE_KEY(serial, 5, nv_bfloat162)
extern "C" __global__ void atomic_9_aligned_pairs(const __half2 *from, unsigned active, int key,
                                                  __half2 *to) {
    const values<9, __half2> val(from);
    reduce_atomic(all_lanes, active >> threadIdx.x & 1, key, val.of, aligned_pairs<__half2>{to, 12});
}
extern "C" __global__ void total_9_minimum_of_pairs(const __half2 *from, unsigned active, __half2 *to) {
    const values<9, __half2> val(from);
    __half2 total[tree_places(9)];
    tree_total(active >> threadIdx.x & 1, val.of, total, minimum{});
    to[threadIdx.x] = total[0];
}

// Hot slots: each value goes to the slot in shared memory or to the sink in global memory.
__shared__ hot_slots<64, 4> hot_of_threads;
extern "C" __global__ void hot_4_add(const float *from, const int *keys, float *to) {
    const values<4, float> val(from);
    hot_of_threads.sink(record<float>{to, 4}).add(keys[threadIdx.x], val.of);
}
__shared__ hot_slots<64, 9> hot_of_warps;
extern "C" __global__ void hot_9_tree(const float *from, unsigned active, int key, float *to) {
    const values<9, float> val(from);
    reduce_tree(all_lanes, active >> threadIdx.x & 1, uniform_key{key}, val.of,
                hot_of_warps.sink(record<float>{to, 9}));
}

// The tree without a commit.
extern "C" __global__ void total_9_minimum(const float *from, unsigned active, float *to) {
    const values<9, float> val(from);
    float total[tree_places(9)];
    tree_total(active >> threadIdx.x & 1, val.of, total, minimum{});
    to[threadIdx.x] = total[0];
}

// Each sink at each scope.
#define AT_SCOPE(where)                                                                                      \
    extern "C" __global__ void record_at_##where(const float *from, int key, float *to) {                    \
        const values<7, float> val(from);                                                                    \
        reduce_tree(all_lanes, true, uniform_key{key}, val.of, record_at<scope::where, float>{to, 8});       \
    }                                                                                                        \
    extern "C" __global__ void minimum_at_##where(const float *from, int key, float *to) {                   \
        const values<7, float> val(from);                                                                    \
        reduce_tree(all_lanes, true, uniform_key{key}, val.of,                                               \
                    record_at<scope::where, float, minimum>{to, 8});                                         \
    }                                                                                                        \
    extern "C" __global__ void planes_at_##where(const float *from, int key, float *to) {                    \
        const values<7, float> val(from);                                                                    \
        reduce_tree(all_lanes, true, uniform_key{key}, val.of, planes_at<scope::where, float>{to, 1000});    \
    }                                                                                                        \
    extern "C" __global__ void fields_at_##where(const float *from, int key, float *to) {                    \
        const values<7, float> val(from);                                                                    \
        const fields_at<scope::where, float, 3, 4> sink = {{to, 3}, {to + 1000, 4}};                         \
        reduce_tree(all_lanes, true, uniform_key{key}, val.of, sink);                                        \
    }                                                                                                        \
    extern "C" __global__ void pointers_at_##where(const float *from, float *to) {                           \
        const values<2, float> val(from);                                                                    \
        const pointers_at<scope::where, 2, float> sink = {{to, to + 100}};                                   \
        reduce_tree(all_lanes, true, uniform_key{0}, val.of, sink);                                          \
    }                                                                                                        \
    extern "C" __global__ void aligned_at_##where(const float *from, int key, float *to) {                   \
        const values<7, float> val(from);                                                                    \
        reduce_atomic(all_lanes, true, key, val.of, aligned_record_at<scope::where>{to, 8});                 \
    }                                                                                                        \
    extern "C" __global__ void half_at_##where(const float *from, int key, __half *to) {                     \
        const values<7, float> val(from);                                                                    \
        reduce_tree(all_lanes, true, uniform_key{key}, val.of, record_at<scope::where, __half>{to, 8});      \
    }                                                                                                        \
    extern "C" __global__ void pairs_at_##where(const float *from, int key, __half2 *to) {                   \
        const values<2, float> val(from);                                                                    \
        reduce_atomic(all_lanes, true, key, val.of, record_of_pairs_at<scope::where, __half2>{to, 8});       \
    }                                                                                                        \
    extern "C" __global__ void vectors_at_##where(const __half2 *from, int key, __half2 *to) {               \
        const values<5, __half2> val(from);                                                                  \
        reduce_atomic(all_lanes, true, key, val.of, aligned_pairs_at<scope::where, __half2>{to, 8});         \
    }
AT_SCOPE(block)
AT_SCOPE(device)
AT_SCOPE(system)
