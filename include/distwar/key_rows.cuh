// SPDX-License-Identifier: MIT
// What the kernels of sums_by_key.cuh read and write: the indices, the rows of source in vectors of V values, and
// vectors of a table. Internal to sums_by_key.cuh.
#ifndef DISTWAR_KEY_ROWS_CUH
#define DISTWAR_KEY_ROWS_CUH

#include "push_macros.h"

#include "half.cuh"
#include "packed.cuh"
#include "reduce.cuh"
#include <stdint.h>
#include <string.h>

namespace distwar {

namespace detail {

enum {
    ROWS_BLOCK = 256, // threads of a block of every kernel
    ROWS_BLOCKS = 4   // of add_rows on a multiprocessor at the same time
};
enum : unsigned char { key_outside = 1, value_rounded = 1 }; // bytes 0 and 1 of the report

struct row_request {
    const void *index;
    const void *source;
    int64_t count, rows, skipped;
    int32_t vectors;  // of a row
    bool wide;        // indices of 8 bytes
    uint32_t *report; // its bytes are written apart
};

// Entry i of the index.
__device__ __forceinline__ int64_t index_at(const row_request &in, int64_t i) {
    return in.wide ? __ldg(static_cast<const long long *>(in.index) + i)
                   : __ldg(static_cast<const int *>(in.index) + i);
}

// The row that an index names; -1: it is left out. Apart from index_at, so that several loads are on their way before
// the first is looked at.
__device__ __forceinline__ int64_t row_of(const row_request &in, int64_t index) {
    if (uint64_t(index) < uint64_t(in.rows)) return index == in.skipped ? -1 : index;
    if (in.report) *reinterpret_cast<volatile unsigned char *>(in.report) = key_outside;
    return -1;
}

__device__ __forceinline__ double widened(double value) {
    return value;
}
__device__ __forceinline__ float widened(float value) {
    return value;
}
__device__ __forceinline__ float widened(__half value) {
    return __half2float(value);
}
__device__ __forceinline__ float widened(__nv_bfloat16 value) {
    return __bfloat162float(value);
}
// The type that values of T are summed in.
template <typename T>
struct wide {
    using type = float;
};
template <>
struct wide<double> {
    using type = double;
};
template <typename T>
using wide_of = typename wide<T>::type;
template <typename T>
__device__ __forceinline__ T rounded(double value) {
    if constexpr (sizeof(T) == 8)
        return value;
    else
        return destination<T>::stored(float(value));
}

template <int Bytes>
struct word_of;
template <>
struct word_of<2> {
    using type = unsigned short;
};
template <>
struct word_of<4> {
    using type = unsigned;
};
template <>
struct word_of<8> {
    using type = uint2;
};
template <>
struct word_of<16> {
    using type = uint4;
};

// V values as they lie in memory: 2, 4, 8 or 16 bytes.
template <typename T, int V>
struct vector_of {
    using word = typename word_of<int(V * sizeof(T))>::type;
    word bits;

    // Each row of source is read once.
    static __device__ __forceinline__ vector_of read_once(const void *source, int64_t at) {
        const word *from = static_cast<const word *>(source) + at;
#ifdef __clang__ // it has __ldcs for __half alone
        return {*from};
#else
        return {__ldcs(from)};
#endif
    }
    static __device__ __forceinline__ vector_of read(const void *source, int64_t at) {
        return {__ldg(static_cast<const word *>(source) + at)};
    }
    __device__ __forceinline__ void unpack(wide_of<T> (&value)[V]) const {
        T own[V];
        ::memcpy(static_cast<void *>(own), &bits, sizeof own);
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) value[k] = detail::widened(own[k]);
    }
};

// Sinks for vectors of V values of a table: place e holds values e V .. e V + V - 1.

template <typename T>
struct pair_type;
template <>
struct pair_type<__half> {
    using type = __half2;
};
template <>
struct pair_type<__nv_bfloat16> {
    using type = __nv_bfloat162;
};

// Four or eight 16-bit values, by one vector atomic where there is one. A vector is aligned to its
// size, which is all that aligned_pairs and aligned_record need for K values of this size.
template <typename T, int V>
struct vector_places {
    using pair = typename pair_type<T>::type;
    static constexpr int values_of_a_request = V; // see tree.cuh
    pair *base;

    template <typename Key>
    __device__ __forceinline__ void add(Key key, const float (&values)[V]) const {
        pair pairs[V / 2];
        DISTWAR_UNROLL
        for (int i = 0; i < V / 2; ++i)
            pairs[i] = detail::pair_of<pair>::rounded({values[2 * i], values[2 * i + 1]});
        aligned_pairs<pair>{base, V / 2}.add(key, pairs);
    }
    template <typename Key>
    __device__ __forceinline__ void add_one(Key key, int k, float value) const {
        record_of_pairs<pair>{base, V / 2}.add_one(key, k, value);
    }
};

// Single 16-bit values: each as a pair whose other value is -0.0, which changes no number. A value at an end
// of the table whose pair lies outside takes a compare-and-swap.
template <typename T>
struct single_places {
    using pair = typename pair_type<T>::type;
    T *base;
    int64_t count; // values of the table

    template <typename Key>
    __device__ __forceinline__ void add(Key key, const float (&values)[1]) const {
        add_one(key, 0, values[0]);
    }
    template <typename Key>
    __device__ __forceinline__ void add_one(Key key, int, float value) const {
        T *const at = base + key;
        if (reinterpret_cast<uintptr_t>(at) % 4 == 0) {
            if (int64_t(key) + 1 < count) {
                distwar::atomic_add(reinterpret_cast<pair *>(at), float2{value, -0.0f});
                return;
            }
        } else if (key > 0) {
            distwar::atomic_add(reinterpret_cast<pair *>(at - 1), float2{-0.0f, value});
            return;
        }
        distwar::atomic_update(at, detail::rounded<T>(value), distwar::add{});
    }
};

template <typename T, int V>
__device__ __forceinline__ auto places_of(void *table, int64_t count) {
    if constexpr (sizeof(T) == 4 && V > 1) {
        return aligned_record{static_cast<float *>(table), V};
    } else if constexpr (sizeof(T) >= 4) {
        return record<T>{static_cast<T *>(table), V};
    } else if constexpr (V >= 4) {
        return vector_places<T, V>{static_cast<typename pair_type<T>::type *>(table)};
    } else if constexpr (V == 2) {
        return record_of_pairs<typename pair_type<T>::type>{static_cast<typename pair_type<T>::type *>(table),
                                                            1};
    } else {
        return single_places<T>{static_cast<T *>(table), count};
    }
}

} // namespace detail

} // namespace distwar

#include "pop_macros.h"

#endif
