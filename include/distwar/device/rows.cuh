// SPDX-License-Identifier: MIT
// What the kernels of sums_by_key.cuh read and write, and their fixed point. Internal to the library.
#ifndef DISTWAR_DEVICE_ROWS_CUH
#define DISTWAR_DEVICE_ROWS_CUH

#include "../half.cuh"
#include "../reduce.cuh"
#include "launch.cuh"
#include <math.h>
#include <stdint.h>
#include <string.h>

namespace distwar {

namespace detail {

// ---- what the kernels read and write: the indices, the rows of source in vectors of V values, vectors of a table

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
using wide_of = decltype(detail::widened(T()));
template <typename T>
__device__ __forceinline__ T rounded(double value) {
    if constexpr (sizeof(T) == 8)
        return value;
    else
        return destination<T>::stored(float(value));
}

// A word of the size of a vector. With unsigned long long for 8 bytes kernels of four halves had up to 6% more code.
template <int Bytes>
struct vector_word {
    using type = typename sized<Bytes>::bits;
};
template <>
struct vector_word<8> {
    using type = uint2;
};
template <>
struct vector_word<16> {
    using type = uint4;
};
// V values as they lie in memory: 2, 4, 8 or 16 bytes.
template <typename T, int V>
struct vector_of {
    using word = typename vector_word<int(V * sizeof(T))>::type;
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

// Four or eight 16-bit values, by one vector atomic where there is one. A vector is aligned to its
// size, which is all that aligned_record needs for K values of this size.
template <typename T, int V>
struct vector_places {
    using pair = pair_of<T>;
    static constexpr int values_of_a_request = V; // see tree.cuh
    pair *base;

    template <typename Key>
    __device__ __forceinline__ void add(Key key, const float (&values)[V]) const {
        pair pairs[V / 2];
        DISTWAR_UNROLL
        for (int i = 0; i < V / 2; ++i) pairs[i] = half_type<T>::rounded({values[2 * i], values[2 * i + 1]});
        aligned_record<pair>{base, V / 2}.add(key, pairs);
    }
    template <typename Key>
    __device__ __forceinline__ void add_one(Key key, int k, float value) const {
        record_of_pairs<pair>{base, V / 2}.add_one(key, k, value);
    }
};

template <typename T, int V>
__device__ __forceinline__ auto places_of(void *table, int64_t count) {
    if constexpr (sizeof(T) == 4 && V > 1) {
        return aligned_record<float>{static_cast<float *>(table), V};
    } else if constexpr (sizeof(T) >= 4) {
        return record<T>{static_cast<T *>(table), V};
    } else if constexpr (V >= 4) {
        return vector_places<T, V>{static_cast<pair_of<T> *>(table)};
    } else if constexpr (V == 2) {
        return record_of_pairs<pair_of<T>>{static_cast<pair_of<T> *>(table), 1};
    } else {
        return record_of_halves<T>{static_cast<T *>(table), 1, count};
    }
}

// ---- fixed point: values as integers of one or two words, the scale from the largest value

enum { LARGEST_BLOCK = 512, MOST_PARTS = ROWS_BLOCK };

// Sums in fixed point.
struct fixed_sums {
    long long *sum;          // [words][values of out]
    const unsigned *largest; // [parts]: upper_bits of the largest finite |value| that each block has seen
    int parts;               // at most MOST_PARTS; 0: `bound` instead
    unsigned bound;
    int log2_count; // 2^log2_count >= the additions to one sum
    uint32_t *report;
};

// The upper 32 bits of |value|: they order values, and hold the exponent.
__device__ __forceinline__ unsigned upper_bits(float value) {
    return __float_as_uint(value) & 0x7fffffffu;
}
__device__ __forceinline__ unsigned upper_bits(double value) {
    return unsigned(__double_as_longlong(value) >> 32) & 0x7fffffffu;
}
template <typename F>
__device__ __forceinline__ bool is_finite(F value) {
    return detail::upper_bits(value) < (sizeof(F) == 4 ? 0x7f800000u : 0x7ff00000u);
}

// How floats become integers: in units of 1 / (scale 2^22), so that the largest value has 2^44 units, or as few as let
// 2^log2_count values not overflow. A power of two.
__device__ __forceinline__ float scale_of(unsigned largest, int log2_count) {
    const int exponent = int(largest >> 23) - 127 + (log2_count > 18 ? log2_count - 18 : 0);
    const int wanted = 21 - exponent; // the smallest numbers are summed in units of 2^-149, exactly
    return __uint_as_float(unsigned(127 + (wanted < 127 ? wanted : 127)) << 23);
}

// A value in these units, in two parts: 2^22 high + low, |high| and |low| at most 2^22. A sum of float and 1.5 2^23 is
// rounded to a whole number, whose last bits are those of the sum: faster than a conversion. Each addition is exact or
// rounds to nearest, and is not contracted.
struct float_units {
    int high, low;
};
__device__ __forceinline__ float_units rounded_parts(float value, float scale) {
    constexpr float whole = 12582912;
    const float scaled = __fmul_rn(value, scale), near = __fadd_rn(scaled, whole);
    const float rest = __fsub_rn(scaled, __fsub_rn(near, whole)), low = __fmaf_rn(rest, 4194304, whole);
    return {__float_as_int(near) - __float_as_int(whole), __float_as_int(low) - __float_as_int(whole)};
}
__device__ __forceinline__ long long joined(float_units units) {
    return (long long)units.high * 4194304 + units.low;
}
// What a sum of units is worth.
__device__ __forceinline__ double value_of_units(long long sum, float scale) {
    return __ll2double_rn(sum) / (double(scale) * 4194304);
}

// Values of F as integers of `Words` words, whose sums do not overflow. of() says whether a value was rounded and the
// caller is to know; sum_as<T>() is a sum, rounded to T.
template <typename F, int Words>
struct units_of;
template <>
struct units_of<float, 1> {
    float scale;

    __device__ __forceinline__ units_of(unsigned largest, int log2_count)
        : scale(detail::scale_of(largest, log2_count)) {}
    __device__ __forceinline__ bool of(float value, long long (&sum)[1]) const {
        sum[0] = detail::joined(detail::rounded_parts(value, scale));
        return false;
    }
    template <typename T>
    __device__ __forceinline__ double sum_as(const long long (&sum)[1]) const {
        return detail::value_of_units(sum[0], scale);
    }
};
// The low word holds `split` bits of a value, the high word the `split` bits above them. The unit is 2^unit: a value is
// exact if its last bit is no smaller.
template <typename F>
struct units_of<F, 2> {
    static constexpr int digits = sizeof(F) == 4 ? 24 : 53, least = sizeof(F) == 4 ? -149 : -1074;
    using word = unsigned long long;
    int unit, split;

    __device__ __forceinline__ units_of(unsigned largest, int log2_count) : unit(), split(63 - log2_count) {
        const int exponent =
            int(largest >> (sizeof(F) == 4 ? 23 : 20)); // |value| < 2^(exponent + least + digits)
        unit = (exponent > 1 ? exponent : 1) - 1 + least + digits - 2 * split;
    }
    __device__ __forceinline__ bool of(F value, long long (&sum)[2]) const {
        word bits;
        if constexpr (sizeof(F) == 4)
            bits = __float_as_uint(value) & 0x7fffffffu;
        else
            bits = word(__double_as_longlong(value)) << 1 >> 1;
        const int exponent = int(bits >> (digits - 1));
        word whole = bits & ((word(1) << (digits - 1)) - 1); // times 2^(unit + shift)
        int shift = (exponent > 1 ? exponent : 1) - 1 + least - unit;
        if (exponent > 0) whole |= word(1) << (digits - 1);
        bool is_rounded = false;
        if (shift < 0) {
            const int lost = shift > -63 ? -shift : 63; // 63: all
            const word rest = whole & ((word(1) << lost) - 1), half = word(1) << (lost - 1);
            whole >>= lost;
            whole += rest > half || (rest == half && (whole & 1)) ? 1 : 0;
            is_rounded = rest != 0;
            shift = 0;
        }
        sum[0] = (long long)(shift < split ? whole >> (split - shift) : whole << (shift - split));
        sum[1] = (long long)(shift < split ? whole << shift & ((word(1) << split) - 1) : 0);
        if (value < 0) sum[0] = -sum[0], sum[1] = -sum[1];
        return is_rounded;
    }
    // Rounded to nearest even, once.
    template <typename T>
    __device__ double sum_as(const long long (&sum)[2]) const {
        word low = word(sum[0]) << split, high = word(sum[0] >> (64 - split));
        low += word(sum[1]);
        high += word(sum[1] >> 63) + (low < word(sum[1]) ? 1 : 0);
        const bool negative = (long long)high < 0;
        if (negative) low = 0 - low, high = ~high + (low == 0 ? 1 : 0);
        if ((high | low) == 0) return 0;
        int exponent = unit;
        if (high != 0) {
            const int zeros = __clzll((long long)high);
            const word rest = low << zeros; // below the upper 64 bits: whether there are any is enough
            low = (high << zeros) | (zeros > 0 ? low >> (64 - zeros) : 0) | (rest != 0 ? 1 : 0);
            exponent += 64 - zeros;
        } else {
            const int zeros = __clzll((long long)low);
            low <<= zeros;
            exponent -= zeros;
        }
        if constexpr (sizeof(F) == 8) {
            word whole = low >> 11;
            const word rest = low & 0x7ff;
            whole += rest > 0x400 || (rest == 0x400 && (whole & 1)) ? 1 : 0;
            const double value = ldexp(double(whole), exponent + 11);
            return negative ? -value : value;
        } else { // as a double, then as a float, whose last bit is set if bits are lost: rounding those is exact
            const word bits = (word(negative) << 63) | (word(exponent + 1023 + 63) << 52) | (low << 1 >> 12) |
                              ((low & 0x7ff) != 0 ? 1 : 0);
            const double value = __longlong_as_double((long long)bits);
            if constexpr (sizeof(T) == 4) return __double2float_rn(value);
            const float near = __double2float_rn(value);
            const unsigned away = fabs(double(near)) > fabs(value) ? 1 : 0;
            return double(near) == value ? near : __uint_as_float((__float_as_uint(near) - away) | 1);
        }
    }
};

// The largest of a block of Threads threads, for each of them. warps: Threads / 32 words of shared memory.
template <int Threads>
__device__ __forceinline__ unsigned largest_in_block(unsigned own, unsigned *warps) {
    const unsigned mine[1] = {own};
    unsigned total[1], all = 0;
    distwar::tree_total(true, mine, total, maximum{});
    if (lane_id() == 0) warps[threadIdx.x / 32] = total[0];
    __syncthreads();
    DISTWAR_UNROLL
    for (int w = 0; w < Threads / 32; ++w) all = warps[w] > all ? warps[w] : all;
    return all;
}

// The largest value: the scale of all sums. warps: ROWS_BLOCK / 32 words of shared memory. All threads of the block
// call.
__device__ __forceinline__ unsigned largest_of(const fixed_sums &fixed, unsigned *warps) {
    if (fixed.parts == 0) return fixed.bound;
    return detail::largest_in_block<ROWS_BLOCK>(
        int(threadIdx.x) < fixed.parts ? __ldg(fixed.largest + threadIdx.x) : 0, warps);
}

// largest[blockIdx.x] = upper_bits of the largest finite |value| of the block. Sets `sums` to 0, in the same launch.
template <typename T, int V>
__global__ void __launch_bounds__(LARGEST_BLOCK)
    find_largest(const void *source, int64_t values, unsigned *largest, ulonglong2 *sums, int64_t pairs) {
    __shared__ unsigned warps[LARGEST_BLOCK / 32];
    unsigned own = 0;
    detail::let_next_start();
    const int64_t step = int64_t(gridDim.x) * LARGEST_BLOCK, vectors = values / V;
    const int64_t first = int64_t(blockIdx.x) * LARGEST_BLOCK + threadIdx.x;
    const auto look = [&](wide_of<T> value) {
        const unsigned bits = detail::upper_bits(value);
        if (detail::is_finite(value) && bits > own) own = bits;
    };
    const auto look_at = [&](const vector_of<T, V> &vector) {
        wide_of<T> value[V];
        vector.unpack(value);
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) look(value[k]);
    };
    for (int64_t i = first; i < pairs; i += step) sums[i] = {0, 0};
    for (int64_t at = first; at < vectors; at += 4 * step) {
        vector_of<T, V> vector[4] = {}; // loads on their way; 0 is never the largest
        DISTWAR_UNROLL
        for (int r = 0; r < 4; ++r)
            if (at + r * step < vectors) vector[r] = vector_of<T, V>::read(source, at + r * step);
        DISTWAR_UNROLL
        for (int r = 0; r < 4; ++r) look_at(vector[r]);
    }
    for (int64_t at = vectors * V + first; at < values; at += step)
        look(detail::widened(static_cast<const T *>(source)[at]));
    const unsigned all = detail::largest_in_block<LARGEST_BLOCK>(own, warps);
    if (threadIdx.x == 0) largest[blockIdx.x] = all;
}

// out += what the sums are worth.
template <typename T, int Words>
__global__ void __launch_bounds__(ROWS_BLOCK) add_fixed_sums(fixed_sums fixed, T *out, int64_t values) {
    constexpr int together = 4; // loads on their way
    __shared__ unsigned warps[ROWS_BLOCK / 32];
    units_of<wide_of<T>, Words> units(0, 0);
    const int64_t step = int64_t(gridDim.x) * ROWS_BLOCK, begin = int64_t(blockIdx.x) * ROWS_BLOCK;
    detail::wait_for_kernel_before();
    for (int64_t at = begin; at < values; at += together * step) {
        const int64_t first = at + threadIdx.x;
        long long sum[together][Words] = {};
        T old[together] = {};
        DISTWAR_UNROLL
        for (int j = 0; j < together; ++j) {
            const int64_t k = first + j * step;
            if (k >= values) break;
            DISTWAR_UNROLL
            for (int w = 0; w < Words; ++w) sum[j][w] = __ldg(fixed.sum + w * values + k);
            old[j] = out[k];
        }
        if (at == begin) units = {detail::largest_of(fixed, warps), fixed.log2_count};
        DISTWAR_UNROLL
        for (int j = 0; j < together; ++j) {
            bool any = false;
            DISTWAR_UNROLL
            for (int w = 0; w < Words; ++w) any = any || sum[j][w] != 0;
            if (!any) continue;
            const double value = units.template sum_as<T>(sum[j]);
            const double rounded_first =
                Words == 1 ? value : double(detail::widened(detail::rounded<T>(value)));
            out[first + j * step] = detail::rounded<T>(double(detail::widened(old[j])) + rounded_first);
        }
    }
}

} // namespace detail

} // namespace distwar

#endif
