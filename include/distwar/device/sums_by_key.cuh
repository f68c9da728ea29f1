// SPDX-License-Identifier: MIT
// sums_by_key: out[index[i]][k] += source[i][k], as one call from the host. With the same bits in every run, on every
// GPU and for every order of the rows; or as fast as can be.
//
// Example (device memory: index = {2, 0, 2}, source = {1, 10, 2, 20, 3, 30}, six zeros in out):
//     distwar::key_sums<float> sums;
//     sums.count = 3, sums.width = 2, sums.keys = 3;
//     sums.index = index, sums.source = source, sums.out = out;
//     cudaError_t error = distwar::sums_by_key_bytes(sums, &sums.workspace_bytes);
//     if (error == cudaSuccess) error = cudaMalloc(&sums.workspace, sums.workspace_bytes);
//     if (error == cudaSuccess) error = distwar::sums_by_key(sums, stream);
//     // out: 2, 20, 0, 0, 4, 40
//
// Index: a signed integer of 4 or 8 bytes. T, Out: float, double, __half or __nv_bfloat16. Out is T; with the ways that are not
// deterministic also float where T has 16 bits, so that no sum is rounded to 16 bits on its way.
//
// way            sums in                what it does
// -------------  ---------------------  --------------------------------------------------------------------------
// deterministic  fixed point            `fixed`; `sorted_fixed` for wide rows and large tables, with a sort
// fastest        float (double: double) `adaptive`; `sorted` for many wide rows, with a sort
// exact          two words of 64 bits   as `fixed`
// fixed          one word (double: two) integer atomics; blocks whose keys repeat sum by key first
// sorted_fixed   one word               sorts by key, sums runs; not for double
// adaptive       float                  each block takes one of the two ways below, by how often its keys repeat
// atomic         float                  an atomic for each vector of a row
// grouped        float                  a block groups its rows by key and adds each group once
// sorted         float                  sorts by key, sums runs
//
// The ways that sort are those of sums_by_key<key_sort>, from device/sorted_sums_by_key.cuh, which includes CUB. This header
// does not.
//
// What one word holds. A sum counts units of 2^-44 of the power of two above the largest |value| of source, for up to
// 2^18 rows; twice as much for twice the rows. Each value is rounded to nearest once. sorted_fixed takes the largest of
// the values of one sum in place of those of source.
// What two words hold. With 2^b the power of two above the largest |value| and n = ceil(log2(count)), they hold bits from
// 2^(b - 1) down to 2^(b - 126 + 2 n), for a million rows 86. Of values below 1 these are all floats whose last bit is
// at least 2^-86, as of those from 2^-63 on. The sum is exact, is rounded to T once, to nearest even, and is added to
// `out`. A value with bits below is rounded to a unit, and byte 1 of `report` tells.
//
// Infinities and NaN are added to their place of `out`, and change no other.
#ifndef DISTWAR_DEVICE_SUMS_BY_KEY_CUH
#define DISTWAR_DEVICE_SUMS_BY_KEY_CUH

#include "../half.cuh"
#include "../reduce.cuh"
#include "launch.cuh"
#include <math.h>
#include <stdint.h>

namespace distwar {

enum class sums_way : int {
    fastest = 0,
    atomic,
    grouped,
    adaptive,
    sorted,
    fixed,
    sorted_fixed,
    exact,
    deterministic
};

template <typename T, typename Index = int, typename Out = T>
struct key_sums {
    int64_t count = 0, width = 1, keys = 0; // rows of source; values of a row; rows of out
    const Index *index = nullptr;           // [count], each 0..keys - 1
    const T *source = nullptr;              // [count][width]
    Out *out = nullptr;                     // [keys][width]
    // Rows with this index are left out, as those of padding. -1: none. An index of -1 is out of range: such rows are
    // left out all the same, and set byte 0 of the report.
    int64_t skipped = -1;
    sums_way way = sums_way::deterministic;
    // One word, device memory or pinned host memory, or nullptr. Byte 0 becomes 1 if a row was left out because its
    // index is out of range, byte 1 if two words did not hold a value.
    uint32_t *report = nullptr;
    void *workspace = nullptr; // device memory, aligned to 256 bytes
    size_t workspace_bytes = 0;
};

namespace detail {

// The sort of calls of sums_by_key that do not sort.
struct no_sort {
    static constexpr bool sorts = false;
};

// ---- what the kernels read and write: the indices, the rows of source in vectors of V values, vectors of a table

enum {
    ROWS_BLOCK = 256,     // threads of a block of every kernel
    ROWS_BLOCKS = 4,      // of add_rows on a multiprocessor at the same time
    MOST_TILE_ROWS = 2048 // of a block of add_rows
};
enum : unsigned char { key_outside = 1, value_rounded = 1 }; // bytes 0 and 1 of the report

struct row_request {
    const void *index;
    const void *source;
    int64_t count, rows, skipped;
    int32_t vectors; // of a row
    bool wide;       // indices of 8 bytes
    volatile unsigned char *report;
};

// Entry i of the index.
DISTWAR_DEVICE int64_t index_at(const row_request &in, int64_t i) {
    return in.wide ? __ldg(static_cast<const long long *>(in.index) + i)
                   : __ldg(static_cast<const int *>(in.index) + i);
}

// The row that an index names; -1: it is left out. Apart from index_at, so that several loads are on their way before
// the first is looked at.
DISTWAR_DEVICE int64_t row_of(const row_request &in, int64_t index) {
    if (uint64_t(index) < uint64_t(in.rows)) return index == in.skipped ? -1 : index;
    if (in.report) *in.report = key_outside;
    return -1;
}

// A value in the type that values of T are summed in, value_of<T>: float for 16 bits.
template <typename T>
DISTWAR_DEVICE value_of<T> widened(T value) {
    return destination<T>::wide(value);
}
template <typename T>
DISTWAR_DEVICE T rounded(double value) {
    return destination<T>::stored(value_of<T>(value));
}

// A word of the size of a vector. With unsigned long long for 8 bytes kernels of four halves had up to 6% more code.
template <int Bytes>
__host__ __device__ constexpr auto vector_word() {
    if constexpr (Bytes == 16)
        return uint4{};
    else if constexpr (Bytes == 8)
        return uint2{};
    else
        return typename sized<Bytes>::bits{};
}
// V values as they lie in memory: 2, 4, 8 or 16 bytes.
template <typename T, int V>
struct vector_of {
    using word = decltype(detail::vector_word<int(V * sizeof(T))>());
    word bits;

    // Each row of source is read once.
    static DISTWAR_DEVICE vector_of read_once(const void *source, int64_t at) {
        const word *from = static_cast<const word *>(source) + at;
#ifdef __clang__ // it has __ldcs for __half alone
        return {*from};
#else
        return {__ldcs(from)};
#endif
    }
    static DISTWAR_DEVICE vector_of read(const void *source, int64_t at) {
        return {__ldg(static_cast<const word *>(source) + at)};
    }
    DISTWAR_DEVICE void unpack(value_of<T> (&value)[V]) const {
        T own[V];
        ::memcpy(static_cast<void *>(own), &bits, sizeof own);
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) value[k] = detail::widened(own[k]);
    }
};

// Sinks for vectors of V values of a table: place e holds values e V .. e V + V - 1.

template <typename T, int V>
DISTWAR_DEVICE auto places_of(void *table, int64_t count) {
    if constexpr (sizeof(T) == 4 && V > 1) {
        return aligned_record<float>{static_cast<float *>(table), V};
    } else if constexpr (sizeof(T) >= 4) {
        return record<T>{static_cast<T *>(table), V};
    } else if constexpr (V > 1) {
        return record_of_pairs<pair_of<T>, scope::device, V>{static_cast<pair_of<T> *>(table), V / 2};
    } else {
        return record_of_halves<T>{static_cast<T *>(table), 1, count};
    }
}

// ---- fixed point: values as integers of one or two words, the scale from the largest value

enum { LARGEST_BLOCK = 512, MOST_PARTS = ROWS_BLOCK };

// Sums in fixed point.
struct fixed_sums {
    long long *sum;    // [words][values of out]
    unsigned *largest; // [parts]: upper_bits of the largest finite |value| that each block has seen
    int parts;         // at most MOST_PARTS
    int log2_count;    // 2^log2_count >= the additions to one sum
    volatile unsigned char *report;
};

// The upper 32 bits of |value|: they order values, and hold the exponent.
template <typename F>
DISTWAR_DEVICE unsigned upper_bits(F value) {
    return unsigned(detail::bits_as<bits_of<F>>(value) >> (sizeof(F) == 8 ? 32 : 0)) & 0x7fffffffu;
}
template <typename F>
DISTWAR_DEVICE bool is_finite(F value) {
    return detail::upper_bits(value) < (sizeof(F) == 4 ? 0x7f800000u : 0x7ff00000u);
}

// How floats become integers: in units of 1 / (scale 2^22), of which the largest value has up to 2^44, fewer if sums of
// 2^log2_count values would overflow. A power of two.
DISTWAR_DEVICE float scale_of(unsigned largest, int log2_count) {
    const int exponent = int(largest >> 23) - 127 + (log2_count > 18 ? log2_count - 18 : 0);
    const int wanted = 21 - exponent; // the smallest numbers are summed in units of 2^-149, exactly
    return __uint_as_float(unsigned(127 + (wanted < 127 ? wanted : 127)) << 23);
}

// A value in these units, in two parts: 2^22 high + low, |high| and |low| at most 2^22. A float plus 1.5 2^23 is
// rounded to a whole number, which the last bits of the sum hold: faster than a conversion. No addition is contracted.
struct float_units {
    int high, low;
};
DISTWAR_DEVICE float_units rounded_parts(float value, float scale) {
    constexpr float whole = 12582912;
    const float scaled = __fmul_rn(value, scale), near = __fadd_rn(scaled, whole);
    const float rest = __fsub_rn(scaled, __fsub_rn(near, whole)), low = __fmaf_rn(rest, 4194304, whole);
    return {__float_as_int(near) - __float_as_int(whole), __float_as_int(low) - __float_as_int(whole)};
}
DISTWAR_DEVICE long long joined(float_units units) {
    return (long long)units.high * 4194304 + units.low;
}
// What a sum of units is worth.
DISTWAR_DEVICE double value_of_units(long long sum, float scale) {
    return __ll2double_rn(sum) / (double(scale) * 4194304);
}

// Values of F as integers of `Words` words, whose sums do not overflow. of() says whether a value was rounded and the
// caller is to know; sum_as<T>() is a sum, rounded to T.
template <typename F, int Words>
struct units_of;
template <>
struct units_of<float, 1> {
    float scale;

    DISTWAR_DEVICE units_of(unsigned largest, int log2_count)
        : scale(detail::scale_of(largest, log2_count)) {}
    DISTWAR_DEVICE bool of(float value, long long (&sum)[1]) const {
        sum[0] = detail::joined(detail::rounded_parts(value, scale));
        return false;
    }
    template <typename T>
    DISTWAR_DEVICE double sum_as(const long long (&sum)[1]) const {
        return detail::value_of_units(sum[0], scale);
    }
};
// The low word holds `split` bits of a value, the high word the `split` bits above them. The unit is 2^unit: a value is
// exact if its last bit is no smaller.
template <typename F>
struct units_of<F, 2> {
    static constexpr int digits = sizeof(F) == 4 ? 24 : 53, least = sizeof(F) == 4 ? -149 : -1074;
    using word = unsigned long long;
    __extension__ typedef unsigned __int128 wide;
    int unit, split;

    DISTWAR_DEVICE units_of(unsigned largest, int log2_count) : unit(), split(63 - log2_count) {
        const int exponent =
            int(largest >> (sizeof(F) == 4 ? 23 : 20)); // |value| < 2^(exponent + least + digits)
        unit = (exponent > 1 ? exponent : 1) - 1 + least + digits - 2 * split;
    }
    DISTWAR_DEVICE bool of(F value, long long (&sum)[2]) const {
        const word bits = bits_of<F>(detail::bits_as<bits_of<F>>(value) << 1) >> 1;
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
        const wide all = wide(whole) << shift;
        sum[0] = (long long)(all >> split), sum[1] = (long long)(word(all) & ((word(1) << split) - 1));
        if (value < 0) sum[0] = -sum[0], sum[1] = -sum[1];
        return is_rounded;
    }
    // Rounded to nearest even, once.
    template <typename T>
    __device__ double sum_as(const long long (&sum)[2]) const {
        wide all = (wide(sum[0]) << split) + wide(sum[1]); // modulo 2^128
        const bool negative = word(all >> 64) >> 63 != 0;
        if (negative) all = 0 - all;
        if (all == 0) return 0;
        const word upper = word(all >> 64);
        const int zeros = upper != 0 ? __clzll((long long)upper) : 64 + __clzll((long long)all);
        const int exponent = unit + 64 - zeros;
        all <<= zeros;
        const word low = word(all >> 64) |
                         (word(all) != 0 ? 1 : 0); // below these 64 bits: whether there are any is enough
        if constexpr (sizeof(F) == 8) {
            const double value = ldexp(double(low), exponent);
            return negative ? -value : value;
        }
        // As a double, then as a float, whose last bit is set if bits are lost: rounding those is exact.
        const word bits = (word(negative) << 63) | (word(exponent + 1023 + 63) << 52) | (low << 1 >> 12) |
                          ((low & 0x7ff) != 0 ? 1 : 0);
        const double value = __longlong_as_double((long long)bits);
        if constexpr (sizeof(T) == 4) return __double2float_rn(value);
        const float near = __double2float_rn(value);
        const unsigned away = fabs(double(near)) > fabs(value) ? 1 : 0;
        return double(near) == value ? near : __uint_as_float((__float_as_uint(near) - away) | 1);
    }
};

// The largest of a block of Threads threads, for each of them. warps: Threads / 32 words of shared memory.
template <int Threads>
DISTWAR_DEVICE unsigned largest_in_block(unsigned own, unsigned *warps) {
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
DISTWAR_DEVICE unsigned largest_of(const fixed_sums &fixed, unsigned *warps) {
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
    const auto look = [&](value_of<T> value) {
        const unsigned bits = detail::upper_bits(value);
        if (detail::is_finite(value) && bits > own) own = bits;
    };
    for (int64_t i = first; i < pairs; i += step) sums[i] = {0, 0};
    for (int64_t at = first; at < vectors; at += 4 * step) {
        vector_of<T, V> vector[4] = {}; // loads on their way; 0 is never the largest
        DISTWAR_UNROLL
        for (int r = 0; r < 4; ++r)
            if (at + r * step < vectors) vector[r] = vector_of<T, V>::read(source, at + r * step);
        DISTWAR_UNROLL
        for (int r = 0; r < 4; ++r) {
            value_of<T> value[V];
            vector[r].unpack(value);
            DISTWAR_UNROLL
            for (int k = 0; k < V; ++k) look(value[k]);
        }
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
    units_of<value_of<T>, Words> units(0, 0);
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
            if (sum[j][0] == 0 && sum[j][Words - 1] == 0) continue;
            const double value = units.template sum_as<T>(sum[j]);
            const double rounded_first =
                Words == 1 ? value : double(detail::widened(detail::rounded<T>(value)));
            out[first + j * step] = detail::rounded<T>(double(detail::widened(old[j])) + rounded_first);
        }
    }
}

// ---- the rows in the order in which they stand, by atomics: a thread a vector of a row. Blocks whose indices repeat
// group the rows of a tile by index first, and add each group once

// How a block adds.
enum adding : int { ADD_SINGLY, ADD_GROUPS, ADD_LOOK }; // the last: as its indices repeat

// The rows of a block.
struct row_tile {
    int32_t rows;   // 1..MOST_TILE_ROWS
    int32_t places; // of the table of their indices: a power of two, >= 2 rows
};

// What becomes of a vector of V values of T on its way to a table: `sums` sums, which sink() takes with the number
// of the vector. `together` vectors of a thread are on their way at a time in groups.
template <typename T, int V, typename Out>
struct float_adder {
    using sum_type = value_of<T>;
    static constexpr int sums = V, together = 4;
    static constexpr bool after_kernel = false; // find_largest
    void *out;
    int64_t count; // values of out

    DISTWAR_DEVICE float_adder(void *table, int64_t values, const fixed_sums &) : out(table), count(values) {}
    DISTWAR_DEVICE void start(const fixed_sums &, unsigned *) {}
    DISTWAR_DEVICE auto sink() const { return detail::places_of<Out, V>(out, count); }
    DISTWAR_DEVICE void convert(int64_t, const sum_type (&value)[V], sum_type (&sum)[V]) const {
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) sum[k] = value[k];
    }
};

// Single values, in `Words` words, neighbours in a warp: the L2 takes one request for each sector of 32 bytes.
template <typename T, int Words>
struct fixed_adder {
    using sum_type = long long;
    static constexpr int sums = Words, together = 8;
    static constexpr bool after_kernel = true;
    void *out;
    int64_t count;
    long long *sum_of;
    volatile unsigned char *report;
    unsigned largest;
    units_of<value_of<T>, Words> units;

    DISTWAR_DEVICE fixed_adder(void *table, int64_t values, const fixed_sums &fixed)
        : out(table), count(values), sum_of(fixed.sum), report(fixed.report), largest(), units(0, 0) {
        detail::let_next_start();
    }
    // Until this call find_largest may still run. Once, before convert() and the sink; all threads of the block call.
    DISTWAR_DEVICE void start(const fixed_sums &fixed, unsigned *warps) {
        detail::wait_for_kernel_before();
        largest = detail::largest_of(fixed, warps);
        units = {largest, fixed.log2_count};
    }
    DISTWAR_DEVICE auto sink() const { return planes<long long>{distwar::in_global(sum_of), count}; }
    // Infinities and NaN go to `out` at once: their sum does not depend on the order.
    DISTWAR_DEVICE void convert(int64_t place, const value_of<T> (&value)[1], long long (&sum)[Words]) const {
        DISTWAR_UNROLL
        for (int w = 0; w < Words; ++w) sum[w] = 0;
        const unsigned bits = detail::upper_bits(value[0]);
        if (bits <= largest) {
            if (units.of(value[0], sum) && report) report[1] = value_rounded;
        } else {
            detail::places_of<T, 1>(out, count).add(place, value);
        }
    }
};

// Whether indices repeat among ROWS_BLOCK neighbouring rows: each is compared with 15 of its warp's. Of the 1,920 pairs
// about 20 are equal by Zipf's law with exponent 1, one in every fifth call among 10,000 rows that come equally often.
// All threads of the block call.
DISTWAR_DEVICE bool indices_repeat(const row_request &in, int64_t first) {
    const int64_t i = first + threadIdx.x;
    const int row = i < in.count ? int(detail::row_of(in, detail::index_at(in, i))) : -1;
    bool repeats = false;
    DISTWAR_UNROLL
    for (int distance = 1; distance < 16; ++distance)
        repeats |= __shfl_xor_sync(distwar::all_lanes, row, distance) == row;
    return __syncthreads_count(repeats && row >= 0) >= 10;
}

// The rows of a tile, grouped by index: a hash table of indices, and the list of the groups.
struct row_groups {
    int row[2 * MOST_TILE_ROWS];   // -1: a free place
    int begin[2 * MOST_TILE_ROWS]; // of the group in the list; before that its length
    unsigned short place[MOST_TILE_ROWS],
        from[MOST_TILE_ROWS]; // of an entry of the list: in the table, in the tile
    int entries;
    unsigned largest_of_warp[ROWS_BLOCK / 32];

    // Lists the rows first..end - 1. All threads of the block call, once.
    __device__ void list(const row_request &in, int64_t first, int64_t end, int places) {
        constexpr int most = MOST_TILE_ROWS / ROWS_BLOCK;
        for (int i = int(threadIdx.x); i < places; i += ROWS_BLOCK) row[i] = -1, begin[i] = 0;
        if (threadIdx.x == 0) entries = 0;
        int64_t index[most];
        int own[most];
        const auto at = [&](int r) { return first + r * ROWS_BLOCK + int(threadIdx.x); };
        const auto is_there = [&](int r) { return at(r) < end; };
        DISTWAR_UNROLL
        for (int r = 0; r < most; ++r) index[r] = is_there(r) ? detail::index_at(in, at(r)) : 0;
        DISTWAR_UNROLL
        for (int r = 0; r < most; ++r) own[r] = is_there(r) ? int(detail::row_of(in, index[r])) : -1;
        __syncthreads();
        int rank[most] = {};
        DISTWAR_UNROLL
        for (int r = 0; r < most; ++r)
            if (own[r] >= 0) {
                own[r] = place_of(own[r], places);
                rank[r] = atomicAdd(&begin[own[r]], 1);
            }
        __syncthreads();
        DISTWAR_UNROLL
        for (int r = 0; r < most; ++r) {
            if (first + r * ROWS_BLOCK >= end) break;
            const bool leads = own[r] >= 0 && rank[r] == 0;
            const int at = distwar::fetch_add(distwar::all_lanes, leads, distwar::uniform_key<int>{0},
                                              leads ? begin[own[r]] : 0, &entries);
            if (leads) begin[own[r]] = at;
        }
        __syncthreads();
        DISTWAR_UNROLL
        for (int r = 0; r < most; ++r)
            if (own[r] >= 0) {
                const int at = begin[own[r]] + rank[r];
                place[at] = static_cast<unsigned short>(own[r]);
                from[at] = static_cast<unsigned short>(r * ROWS_BLOCK + int(threadIdx.x));
            }
        __syncthreads();
    }

  private:
    DISTWAR_DEVICE int place_of(int wanted, int places) {
        unsigned at = (unsigned(wanted) * 0x9e3779b1u) >> 16;
        for (;; ++at) {
            at &= unsigned(places - 1);
            int seen = *static_cast<volatile int *>(&row[at]);
            if (seen == -1) seen = atomicCAS(&row[at], -1, wanted);
            if (seen == -1 || seen == wanted) return int(at);
        }
    }
};

// Sums vector v of the entries begin..end - 1 of the list and adds all groups but the last, whose sum is left in `sum`.
// Returns its row; -1: there is none.
template <typename T, int V, typename Adder, typename Table>
DISTWAR_DEVICE int64_t sum_groups(const row_request &in, const row_groups &groups, int64_t first, int begin,
                                  int end, int v, const Adder &adder, const Table &table,
                                  typename Adder::sum_type (&sum)[Adder::sums]) {
    constexpr int together = Adder::together;
    int current = -1;
    DISTWAR_UNROLL
    for (int k = 0; k < Adder::sums; ++k) sum[k] = 0;
    for (int e = begin; e < end; e += together) {
        int place[together];
        vector_of<T, V> vector[together] = {};
        DISTWAR_UNROLL
        for (int j = 0; j < together; ++j) {
            place[j] = -1;
            if (e + j < end) {
                place[j] = groups.place[e + j];
                vector[j] = vector_of<T, V>::read(in.source, (first + groups.from[e + j]) * in.vectors + v);
            }
        }
        DISTWAR_UNROLL
        for (int j = 0; j < together; ++j) {
            if (place[j] < 0) break;
            if (place[j] != current) {
                if (current >= 0) table.add((long long)groups.row[current] * in.vectors + v, sum);
                DISTWAR_UNROLL
                for (int k = 0; k < Adder::sums; ++k) sum[k] = 0;
                current = place[j];
            }
            value_of<T> value[V];
            typename Adder::sum_type units[Adder::sums];
            vector[j].unpack(value);
            adder.convert(int64_t(groups.row[current]) * in.vectors + v, value, units);
            DISTWAR_UNROLL
            for (int k = 0; k < Adder::sums; ++k) sum[k] += units[k];
        }
    }
    return current < 0 ? -1 : groups.row[current];
}

// Adds the rows first..end - 1. All threads of the block call.
template <typename T, int V, typename Adder>
DISTWAR_DEVICE void add_groups(const row_request &in, row_groups &groups, int64_t first, int64_t end,
                               int places, const fixed_sums &fixed, Adder &adder) {
    const auto table = adder.sink();
    groups.list(in, first, end, places);
    adder.start(fixed, groups.largest_of_warp);
    int lanes = 1; // of a group of threads that share the vectors of a row
    while (lanes < in.vectors && lanes < 32) lanes *= 2;
    const int lane = int(threadIdx.x) % lanes, share = int(threadIdx.x) / lanes, shares = ROWS_BLOCK / lanes;
    const int each = (groups.entries + shares - 1) / shares, from = share * each;
    const int to = from + each < groups.entries ? from + each : groups.entries;
    typename Adder::sum_type sum[Adder::sums];
    if (in.vectors <= 32) { // the shares of a warp may end in one group
        const bool works = lane < in.vectors;
        const int64_t row =
            detail::sum_groups<T, V>(in, groups, first, from, works ? to : from, lane, adder, table, sum);
        distwar::reduce_tree(distwar::all_lanes, row >= 0, (long long)row * in.vectors + lane, sum, table);
    } else {
        for (int v = lane; v < in.vectors; v += lanes) {
            const int64_t row = detail::sum_groups<T, V>(in, groups, first, from, to, v, adder, table, sum);
            if (row >= 0) table.add((long long)row * in.vectors + v, sum);
        }
    }
}

// Adds the rows first..end - 1 singly. With ADD_LOOK it adds nothing and returns ADD_GROUPS if indices repeat. All
// threads of the block call.
template <typename T, int V, typename Adder>
DISTWAR_DEVICE int add_singly(const row_request &in, int64_t first, int64_t end, int how,
                              const fixed_sums &fixed, unsigned *warps, Adder &adder) {
    const auto table = adder.sink();
    constexpr int rounds = 4; // vectors of a thread on their way
    const int rows_ahead = ROWS_BLOCK / in.vectors, vectors_ahead = ROWS_BLOCK % in.vectors;
    const int64_t last = end * in.vectors;
    int64_t at = first * in.vectors + threadIdx.x, i = first + int(threadIdx.x) / in.vectors;
    int v = int(threadIdx.x) % in.vectors; // within the row
    for (int64_t begin = first * in.vectors; begin < last; begin += ROWS_BLOCK * rounds) {
        const auto is_there = [&](int r) { return begin + r * ROWS_BLOCK + int(threadIdx.x) < last; };
        int64_t row[rounds] = {};
        int place[rounds];
        vector_of<T, V> vector[rounds] = {};
        DISTWAR_UNROLL
        for (int r = 0; r < rounds; ++r, at += ROWS_BLOCK) {
            place[r] = v;
            if (is_there(r)) {
                row[r] = detail::index_at(in, i);
                vector[r] = vector_of<T, V>::read_once(in.source, at);
            }
            i += rows_ahead, v += vectors_ahead;
            if (v >= in.vectors) v -= in.vectors, ++i;
        }
        if (begin == first * in.vectors) { // the loads are on their way
            if (how == ADD_LOOK && detail::indices_repeat(in, first)) return ADD_GROUPS;
            adder.start(fixed, warps);
        }
        DISTWAR_UNROLL
        for (int r = 0; r < rounds; ++r) row[r] = is_there(r) ? detail::row_of(in, row[r]) : -1;
        DISTWAR_UNROLL
        for (int r = 0; r < rounds; ++r)
            if (row[r] >= 0) {
                const int64_t to = row[r] * in.vectors + place[r];
                value_of<T> value[V];
                typename Adder::sum_type sum[Adder::sums];
                vector[r].unpack(value);
                adder.convert(to, value, sum);
                table.add((long long)to, sum);
            }
    }
    return ADD_SINGLY;
}

template <typename T, int V, typename Adder>
__global__ void __launch_bounds__(ROWS_BLOCK, ROWS_BLOCKS)
    add_rows(row_request in, void *out, fixed_sums fixed, int how, row_tile tile) {
    __shared__ row_groups groups;
    Adder adder(out, in.rows * in.vectors * V, fixed);
    const int64_t first = int64_t(blockIdx.x) * tile.rows;
    const int64_t end = first + tile.rows < in.count ? first + tile.rows : in.count;
    if (how != ADD_GROUPS)
        how = detail::add_singly<T, V>(in, first, end, how, fixed, groups.largest_of_warp, adder);
    if (how == ADD_GROUPS) detail::add_groups<T, V>(in, groups, first, end, tile.places, fixed, adder);
}

// ---- the call

// key_sums without its types. row_request: but for `vectors`.
struct key_call : row_request {
    int64_t width;
    void *out;
    sums_way way;
    char *workspace;
    size_t workspace_bytes;
    int value_bytes = 0, out_bytes = 0; // of T and Out
    int vector_bytes = 0;               // of a load and an atomic: 16, 8, 4 or 2
    int multiprocessors = 0;
};

// The ways that sort: sorted_sums_by_key.cuh.
template <typename Sort>
struct sorted_places;
template <typename Sort, typename T, int V, typename Out>
cudaError_t add_sorted(const key_call &call, cudaStream_t stream);

template <typename T, typename Index, typename Out>
key_call call_of(const key_sums<T, Index, Out> &in) {
    static_assert(is_integer<Index> && Index(-1) < Index(0),
                  "distwar: the index has signed integers of 4 or 8 bytes");
    static_assert(is_same<T, Out> || (is_same<Out, float> && sizeof(T) == 2),
                  "distwar: sums have the type of the values, or are float for 16-bit values");
    const row_request rows = {
        in.index,   in.source, in.count,           in.keys,
        in.skipped, 1,         sizeof(Index) == 8, reinterpret_cast<volatile unsigned char *>(in.report)};
    key_call call = {rows, in.width, in.out, in.way, static_cast<char *>(in.workspace), in.workspace_bytes};
    call.value_bytes = call.vector_bytes = int(sizeof(T)), call.out_bytes = int(sizeof(Out));
    return call;
}

inline bool sorts(sums_way way) {
    return way == sums_way::sorted || way == sums_way::sorted_fixed;
}
inline bool is_deterministic(sums_way way) {
    return way == sums_way::fixed || way >= sums_way::sorted_fixed;
}

inline sums_way chosen_way(const key_call &call, bool can_sort) {
    const int64_t count = call.count, keys = call.rows, bytes = call.width * call.value_bytes;
    const bool may_sort = can_sort && count < INT32_MAX && keys < INT32_MAX;
    if (call.way == sums_way::deterministic) { // sums of 8 bytes in the workspace, or a sort
        if (call.value_bytes == 8) return sums_way::fixed;
        const bool fixed = call.width <= 32 && keys <= 4 * count && keys * call.width <= 16 * count;
        return may_sort && !fixed ? sums_way::sorted_fixed : sums_way::fixed;
    }
    if (call.way != sums_way::fastest) return call.way;
    // A sort costs about as much as reading rows of 256 bytes.
    const bool wide = (bytes >= 512 && count >= 400000) || (bytes >= 256 && count >= 4000000);
    return may_sort && wide && call.value_bytes < 8 ? sums_way::sorted : sums_way::adaptive;
}

inline bool is_aligned(const void *address, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(address) % uint64_t(bytes) == 0;
}

inline int ceil_log2(int64_t n) {
    int bits = 0;
    while (bits < 62 && int64_t{1} << bits < n) bits++;
    return bits;
}

// The sums of a call in fixed point: their places in the workspace, which may be nullptr, and its bytes.
inline size_t place_fixed(const key_call &call, sums_way way, fixed_sums *out) {
    const size_t words = way == sums_way::exact || call.value_bytes == 8 ? 2 : 1;
    const size_t values = size_t(call.rows) * size_t(call.width) * words;
    const size_t parts = MOST_PARTS * sizeof(unsigned);
    out->sum = call.workspace ? reinterpret_cast<long long *>(call.workspace + parts) : nullptr;
    out->largest = reinterpret_cast<unsigned *>(call.workspace);
    out->log2_count = detail::ceil_log2(call.count);
    out->report = call.report;
    return parts + (values * 8 + 255) / 256 * 256;
}

template <typename T, int V, typename Adder>
cudaError_t launch_add_rows(const key_call &call, const fixed_sums &fixed, cudaStream_t stream) {
    row_request in = call;
    in.vectors = int32_t(call.width / V);
    // As few rounds of blocks as can be, all of them full.
    const int64_t blocks = int64_t(call.multiprocessors) * ROWS_BLOCKS;
    const int64_t waves = (in.count + blocks * MOST_TILE_ROWS - 1) / (blocks * MOST_TILE_ROWS);
    const int64_t each = (in.count + blocks * waves - 1) / (blocks * waves);
    const int64_t least = in.vectors < 8 ? ROWS_BLOCK / in.vectors : 32, step = in.vectors < 32 ? 32 : 1;
    row_tile tile = {int32_t(each < least && in.vectors < 32 ? least : (each + step - 1) / step * step),
                     2 * ROWS_BLOCK};
    while (tile.places < 2 * tile.rows) tile.places *= 2;
    // Groups have rows of 32 bits. In a small table atomics meet.
    const bool groups = call.way == sums_way::grouped || in.rows <= 2048;
    const adding how = in.rows > INT32_MAX || call.way == sums_way::atomic ? ADD_SINGLY
                       : groups                                            ? ADD_GROUPS
                                                                           : ADD_LOOK;
    return detail::launch_kernel<Adder::after_kernel>(
        stream, unsigned((in.count + tile.rows - 1) / tile.rows), ROWS_BLOCK, 0, add_rows<T, V, Adder>, in,
        call.out, fixed, how, tile);
}

template <typename T, int Words>
cudaError_t add_fixed(const key_call &call, cudaStream_t stream) {
    fixed_sums fixed;
    detail::place_fixed(call, call.way, &fixed);
    const int64_t values = call.rows * call.width;
    // find_largest looks at `all` values, and sets the sums to 0.
    const int64_t all = call.count * call.width;
    constexpr int V = 16 / int(sizeof(T));
    const bool vectors = detail::is_aligned(call.source, 16);
    const int64_t pairs = (values * Words + 1) / 2, work = all / (vectors ? V : 1) / 2 + pairs;
    const int64_t most = (work + LARGEST_BLOCK - 1) / LARGEST_BLOCK;
    const unsigned blocks = unsigned(most < 1 ? 1 : most < MOST_PARTS ? most : int64_t(MOST_PARTS));
    fixed.parts = int(blocks);
    cudaError_t error = detail::launch_kernel(
        stream, blocks, unsigned(LARGEST_BLOCK), 0, vectors ? find_largest<T, V> : find_largest<T, 1>,
        call.source, all, fixed.largest, reinterpret_cast<ulonglong2 *>(fixed.sum), pairs);
    if (error == cudaSuccess)
        error = detail::launch_add_rows<T, 1, fixed_adder<T, Words>>(call, fixed, stream);
    if (error != cudaSuccess) return error;
    const int64_t quarters = (values + 3) / 4, full = int64_t(call.multiprocessors) * 8 * ROWS_BLOCK;
    const unsigned threads = unsigned(quarters < full ? quarters : full);
    return detail::launch_kernel<true>(stream, (threads + ROWS_BLOCK - 1) / ROWS_BLOCK, ROWS_BLOCK, 0,
                                       add_fixed_sums<T, Words>, fixed, static_cast<T *>(call.out), values);
}

// V: values of a vector, halved until the call has such vectors.
template <typename Sort, typename T, typename Out, int V = 16 / int(sizeof(T))>
cudaError_t add_call(const key_call &call, cudaStream_t stream) {
    if constexpr (V > 1)
        if (call.vector_bytes < V * int(sizeof(T)))
            return detail::add_call<Sort, T, Out, V / 2>(call, stream);
    if constexpr (sizeof(T) == sizeof(Out)) {
        if constexpr (sizeof(T) < 8)
            if (call.way == sums_way::fixed) return detail::add_fixed<T, 1>(call, stream);
        if (call.way == sums_way::fixed || call.way == sums_way::exact)
            return detail::add_fixed<T, 2>(call, stream);
    }
    if constexpr (Sort::sorts && sizeof(T) < 8)
        if (detail::sorts(call.way)) return detail::add_sorted<Sort, T, V, Out>(call, stream);
    return detail::launch_add_rows<T, V, float_adder<T, V, Out>>(call, {}, stream);
}

// *bytes = those of the workspace of a call, whose sizes are right.
template <typename Sort>
cudaError_t bytes_of(const key_call &call, size_t *bytes) {
    const sums_way way = detail::chosen_way(call, Sort::sorts);
    fixed_sums fixed;
    *bytes = way == sums_way::fixed || way == sums_way::exact ? detail::place_fixed(call, way, &fixed) : 0;
    if constexpr (Sort::sorts)
        if (detail::sorts(way)) {
            sorted_places<Sort> places = {};
            const cudaError_t error = places.place(call, way);
            *bytes = places.used;
            return error;
        }
    return cudaSuccess;
}

// What is wrong with the sizes of a call and, if `arrays`, with its arrays; nullptr: nothing.
template <typename Sort>
const char *fault_of(const key_call &call, bool arrays) {
    if (call.count < 0 || call.rows < 0) return "count and the rows of out must not be negative";
    if (call.width < 1 || call.width > INT32_MAX) return "width must be in 1..2^31 - 1";
    const int64_t most = INT64_MAX / 64 / call.width;
    if (call.count > most || call.rows > most) return "count or the rows of out times width is too large";
    if (call.count > int64_t{1} << 36) return "count is too large: more than 2^36";
    if (call.way < sums_way::fastest || call.way > sums_way::deterministic) return "there is no such way";
    if (call.out_bytes != call.value_bytes && detail::is_deterministic(call.way))
        return "float_sums of 16-bit rows are not deterministic";
    if (detail::sorts(call.way)) {
        if (!Sort::sorts) return "this call cannot sort: sums_by_key<key_sort> can";
        if (call.value_bytes == 8) return "rows of double are not sorted";
        if (call.count >= INT32_MAX || call.rows >= INT32_MAX)
            return "rows are sorted if there are fewer than 2^31 - 1";
    }
    size_t bytes;
    if (!arrays || call.count == 0 || detail::bytes_of<Sort>(call, &bytes) != cudaSuccess)
        return nullptr; // a failure of the device is reported by the call
    if (!call.index || !call.source) return "index and source must be given";
    if (!call.out && call.rows > 0) return "out must be given";
    if (!detail::is_aligned(call.index, call.wide ? 8 : 4) ||
        !detail::is_aligned(call.source, call.value_bytes) || !detail::is_aligned(call.out, call.out_bytes))
        return "index, source and out must be aligned to their types";
    if (bytes > 0 && (!call.workspace || call.workspace_bytes < bytes))
        return "the workspace is NULL or smaller than its query says";
    return detail::is_aligned(call.workspace, 256) ? nullptr : "the workspace must be aligned to 256 bytes";
}

} // namespace detail

// The reason for which sums_by_key would return cudaErrorInvalidValue; nullptr: there is none. The text is static.
//   arrays  whether index, source, out and the workspace are looked at too
template <typename Sort = detail::no_sort, typename T, typename Index, typename Out>
const char *key_sums_fault(const key_sums<T, Index, Out> &sums, bool arrays) {
    return detail::fault_of<Sort>(detail::call_of(sums), arrays);
}

// The sums, by a way whose bits are the same as often as Level says: `way` if it holds it, else deterministic. Sums in a
// type of their own, which hold no level, do not compile.
template <determinism Level, typename T, typename Index, typename Out>
key_sums<T, Index, Out> require(key_sums<T, Index, Out> sums) {
    static_assert(Level == determinism::not_guaranteed || detail::is_same<T, Out>,
                  "distwar: float sums of 16-bit values hold no level");
    if (Level != determinism::not_guaranteed && !detail::is_deterministic(sums.way))
        sums.way = sums_way::deterministic;
    return sums;
}

// *bytes = those of the workspace of sums_by_key; it may be 0. Arrays need not be given. Errors: as sums_by_key.
template <typename Sort = detail::no_sort, typename T, typename Index, typename Out>
cudaError_t sums_by_key_bytes(const key_sums<T, Index, Out> &sums, size_t *bytes) {
    *bytes = 0;
    if (distwar::key_sums_fault<Sort>(sums, false)) return cudaErrorInvalidValue;
    return detail::bytes_of<Sort>(detail::call_of(sums), bytes);
}

// out[index[i]][k] += source[i][k] for i < count and k < width.
//   who calls  the host, any thread. Work is queued on `stream`; nothing is allocated; it can be captured in a graph
//   arrays     device memory, aligned to their types; 16 bytes let vectors load and add
// Afterwards, when the stream has come there: out holds the sums (top of this page). The bits of the deterministic ways
// do not depend on the GPU, the order of the rows, the sizes of blocks and grids, or the version of CUDA. Those of
// several calls that add to one `out` depend on the order of the calls.
// Undefined: arrays that overlap; arrays that change meanwhile.
// Errors: cudaErrorInvalidValue (key_sums_fault says why), with nothing queued; those of a launch.
// Cost, launches: 1 without a sort; fixed and exact 3, which overlap. Index and source are read once, by fixed and exact
// source twice. Workspace: 1 KB and 8 bytes per value of out (two words: 16) for fixed and exact.
// On a GPU an atomic of float32 takes a subnormal number for 0; deterministic ways keep them.
template <typename Sort = detail::no_sort, typename T, typename Index, typename Out>
cudaError_t sums_by_key(const key_sums<T, Index, Out> &sums, cudaStream_t stream) {
    if (distwar::key_sums_fault<Sort>(sums, true)) return cudaErrorInvalidValue;
    if (sums.count == 0) return cudaSuccess;
    detail::key_call call = detail::call_of(sums);
    call.way = detail::chosen_way(call, Sort::sorts);
    for (int bytes = 4; bytes <= 16; bytes *= 2) {
        const int64_t out = int64_t(bytes) * call.out_bytes / call.value_bytes;
        if (bytes > call.value_bytes && call.width * call.value_bytes % bytes == 0 &&
            detail::is_aligned(sums.source, bytes) && detail::is_aligned(sums.out, out < 16 ? out : 16))
            call.vector_bytes = bytes;
    }
    const cudaError_t error = detail::read_attribute(cudaDevAttrMultiProcessorCount, &call.multiprocessors);
    return error == cudaSuccess ? detail::add_call<Sort, T, Out>(call, stream) : error;
}

} // namespace distwar

#endif
