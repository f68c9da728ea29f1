// SPDX-License-Identifier: MIT
// What the kernels of this folder read: the indices and the rows of source, in vectors of V values.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <distwar/compiler.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <stdint.h>
#include <string.h>

enum {
    ROWS_BLOCK = 256, // threads of a block of every kernel
    ROWS_BLOCKS = 4   // of add_rows on a multiprocessor at the same time
};

struct row_request {
    const void *index;
    const void *source;
    int64_t count, rows, skipped;
    int32_t vectors; // of a row
    bool wide;       // indices of 8 bytes
    uint32_t *report;
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
    if (in.report) *in.report = 1;
    return -1;
}

__device__ __forceinline__ float to_float(float value) {
    return value;
}
__device__ __forceinline__ float to_float(__half value) {
    return __half2float(value);
}
__device__ __forceinline__ float to_float(__nv_bfloat16 value) {
    return __bfloat162float(value);
}
template <typename T>
__device__ __forceinline__ T rounded(double value) {
    if constexpr (sizeof(T) == 4)
        return float(value);
    else
        return distwar::detail::destination<T>::stored(float(value));
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
        return {__ldcs(static_cast<const word *>(source) + at)};
    }
    static __device__ __forceinline__ vector_of read(const void *source, int64_t at) {
        return {__ldg(static_cast<const word *>(source) + at)};
    }
    __device__ __forceinline__ void unpack(float (&value)[V]) const {
        T own[V];
        ::memcpy(static_cast<void *>(own), &bits, sizeof own);
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) value[k] = to_float(own[k]);
    }
};
