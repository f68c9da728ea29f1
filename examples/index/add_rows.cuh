// SPDX-License-Identifier: MIT
// Adds the rows of source in the order in which they stand, by atomics: a thread a vector of a row. Blocks whose
// indices repeat group the rows of a tile by index first, and add each group once.
#pragma once

#include "places.cuh"

// How a block adds.
enum adding : int { ADD_SINGLY, ADD_GROUPS, ADD_LOOK }; // the last: as its indices repeat

enum {
    MOST_TILE_ROWS = 2048,
    ROUNDS = 4 // vectors of a thread at a time, added singly
};

// The rows of a block.
struct row_tile {
    int32_t rows;   // 1..MOST_TILE_ROWS
    int32_t places; // of the table of their indices: a power of two, >= 2 rows
};

// Fixed point: a sum counts units of scale_of. `largest` holds the bits of the largest finite |value|.
struct fixed_sums {
    long long *sum; // as `out`
    const unsigned *largest;
    int log2_count; // 2^log2_count >= the additions to one sum
};

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
__device__ __forceinline__ float_units units_of(float value, float scale) {
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

__device__ __forceinline__ bool is_finite(float value) {
    return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u;
}

// Adds values to places of `out`, which holds T, as float sums, or of `fixed` as units.
template <typename T, int V, typename Sum>
struct row_adder;
template <typename T, int V>
struct row_adder<T, V, float> {
    void *out;
    int64_t count; // values of out

    __device__ __forceinline__ row_adder(void *table, int64_t values, const fixed_sums &)
        : out(table), count(values) {}
    __device__ __forceinline__ auto sink() const { return places_of<T, V>(out, count); }
    __device__ __forceinline__ void convert(bool, int64_t, const float (&value)[V], float (&sum)[V]) const {
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) sum[k] = value[k];
    }
};
template <typename T, int V>
struct row_adder<T, V, long long> {
    void *out;
    int64_t count;
    fixed_sums fixed;
    float scale;

    __device__ __forceinline__ row_adder(void *table, int64_t values, const fixed_sums &sums)
        : out(table), count(values), fixed(sums), scale(scale_of(*sums.largest, sums.log2_count)) {}
    __device__ __forceinline__ auto sink() const { return distwar::record<long long>{fixed.sum, V}; }
    // Infinities and NaN go to `out` at once: their sum does not depend on the order.
    __device__ __forceinline__ void convert(bool active, int64_t place, const float (&value)[V],
                                            long long (&sum)[V]) const {
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) {
            const bool finite = is_finite(value[k]);
            sum[k] = finite ? joined(units_of(value[k], scale)) : 0;
            if (active && !finite) {
                const float only[1] = {value[k]};
                places_of<T, 1>(out, count).add(place * V + k, only);
            }
        }
    }
};

// Whether indices repeat among ROWS_BLOCK neighbouring rows: each is compared with 15 of its warp's. Of the 1,920 pairs
// about 20 are equal if rows come by Zipf's law with exponent 1, and one in five calls finds a pair among 10,000 rows
// that come equally often. All threads of the block call.
__device__ __forceinline__ bool indices_repeat(const row_request &in, int64_t first) {
    const int64_t i = first + threadIdx.x;
    const int row = i < in.count ? int(row_of(in, index_at(in, i))) : -1;
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
        for (int r = 0; r < most; ++r) index[r] = is_there(r) ? index_at(in, at(r)) : 0;
        DISTWAR_UNROLL
        for (int r = 0; r < most; ++r) own[r] = is_there(r) ? int(row_of(in, index[r])) : -1;
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
    __device__ __forceinline__ int place_of(int wanted, int places) {
        unsigned at = (unsigned(wanted) * 0x9e3779b1u) >> 16;
        for (;; ++at) {
            at &= unsigned(places - 1);
            int seen = *static_cast<volatile int *>(&row[at]);
            if (seen == -1) seen = atomicCAS(&row[at], -1, wanted);
            if (seen == -1 || seen == wanted) return int(at);
        }
    }
};

// Sums vector v of the entries begin..end - 1 of the list. Adds the groups that end before `end`; the sum of the last
// group stays in `sum`. Returns its row; -1: there is none.
template <typename T, int V, typename Sum, typename Adder, typename Table>
__device__ __forceinline__ int64_t sum_groups(const row_request &in, const row_groups &groups, int64_t first,
                                              int begin, int end, int v, const Adder &adder,
                                              const Table &table, Sum (&sum)[V]) {
    constexpr int together = 4; // loads on their way
    int current = -1;
    DISTWAR_UNROLL
    for (int k = 0; k < V; ++k) sum[k] = 0;
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
                for (int k = 0; k < V; ++k) sum[k] = 0;
                current = place[j];
            }
            float value[V];
            Sum units[V];
            vector[j].unpack(value);
            adder.convert(true, int64_t(groups.row[current]) * in.vectors + v, value, units);
            DISTWAR_UNROLL
            for (int k = 0; k < V; ++k) sum[k] += units[k];
        }
    }
    return current < 0 ? -1 : groups.row[current];
}

// Adds the rows first..end - 1. All threads of the block call.
template <typename T, int V, typename Sum, typename Adder>
__device__ __forceinline__ void add_groups(const row_request &in, row_groups &groups, int64_t first,
                                           int64_t end, int places, const Adder &adder) {
    const auto table = adder.sink();
    groups.list(in, first, end, places);
    int lanes = 1; // of a group of threads that share the vectors of a row
    while (lanes < in.vectors && lanes < 32) lanes *= 2;
    const int lane = int(threadIdx.x) % lanes, share = int(threadIdx.x) / lanes, shares = ROWS_BLOCK / lanes;
    const int each = (groups.entries + shares - 1) / shares, from = share * each;
    const int to = from + each < groups.entries ? from + each : groups.entries;
    Sum sum[V];
    if (in.vectors <= 32) { // the shares of a warp may end in one group
        const bool works = lane < in.vectors;
        const int64_t row =
            sum_groups<T, V>(in, groups, first, from, works ? to : from, lane, adder, table, sum);
        distwar::reduce_tree(distwar::all_lanes, row >= 0, (long long)row * in.vectors + lane, sum, table);
    } else {
        for (int v = lane; v < in.vectors; v += lanes) {
            const int64_t row = sum_groups<T, V>(in, groups, first, from, to, v, adder, table, sum);
            if (row >= 0) table.add((long long)row * in.vectors + v, sum);
        }
    }
}

// Adds the rows first..end - 1 singly. With ADD_LOOK the block looks first, and returns ADD_GROUPS if it has added
// nothing because indices repeat. All threads of the block call.
template <typename T, int V, typename Sum, typename Adder>
__device__ __forceinline__ int add_singly(const row_request &in, int64_t first, int64_t end, int how,
                                          const Adder &adder) {
    const auto table = adder.sink();
    const int rows_ahead = ROWS_BLOCK / in.vectors, vectors_ahead = ROWS_BLOCK % in.vectors;
    const int64_t last = end * in.vectors;
    int64_t at = first * in.vectors + threadIdx.x, i = first + int(threadIdx.x) / in.vectors;
    int v = int(threadIdx.x) % in.vectors; // within the row
    for (int64_t begin = first * in.vectors; begin < last; begin += ROWS_BLOCK * ROUNDS) {
        const auto is_there = [&](int r) { return begin + r * ROWS_BLOCK + int(threadIdx.x) < last; };
        int64_t row[ROUNDS] = {};
        int place[ROUNDS];
        vector_of<T, V> vector[ROUNDS] = {};
        DISTWAR_UNROLL
        for (int r = 0; r < ROUNDS; ++r, at += ROWS_BLOCK) {
            place[r] = v;
            if (is_there(r)) {
                row[r] = index_at(in, i);
                vector[r] = vector_of<T, V>::read_once(in.source, at);
            }
            i += rows_ahead, v += vectors_ahead;
            if (v >= in.vectors) v -= in.vectors, ++i;
        }
        if (how == ADD_LOOK) { // the loads are on their way
            if (indices_repeat(in, first)) return ADD_GROUPS;
            how = ADD_SINGLY;
        }
        DISTWAR_UNROLL
        for (int r = 0; r < ROUNDS; ++r) row[r] = is_there(r) ? row_of(in, row[r]) : -1;
        DISTWAR_UNROLL
        for (int r = 0; r < ROUNDS; ++r)
            if (row[r] >= 0) {
                const int64_t to = row[r] * in.vectors + place[r];
                float value[V];
                Sum sum[V];
                vector[r].unpack(value);
                adder.convert(true, to, value, sum);
                table.add((long long)to, sum);
            }
    }
    return ADD_SINGLY;
}

// T: of source; Out: of out.
template <typename T, int V, typename Sum, typename Out>
__global__ void __launch_bounds__(ROWS_BLOCK, ROWS_BLOCKS)
    add_rows(row_request in, void *out, fixed_sums fixed, int how, row_tile tile) {
    __shared__ row_groups groups;
    const row_adder<Out, V, Sum> adder(out, in.rows * in.vectors * V, fixed);
    const int64_t first = int64_t(blockIdx.x) * tile.rows;
    const int64_t end = first + tile.rows < in.count ? first + tile.rows : in.count;
    if (how != ADD_GROUPS) how = add_singly<T, V, Sum>(in, first, end, how, adder);
    if (how == ADD_GROUPS) add_groups<T, V, Sum>(in, groups, first, end, tile.places, adder);
}

// The bits of the largest finite |value|, into *largest, which is 0 before.
template <typename T, int V>
__global__ void __launch_bounds__(ROWS_BLOCK)
    find_largest(const void *source, int64_t vectors, unsigned *largest) {
    unsigned own = 0;
    const int64_t step = int64_t(gridDim.x) * ROWS_BLOCK;
    const auto look = [&](const vector_of<T, V> &vector) {
        float value[V];
        vector.unpack(value);
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) {
            const unsigned bits = __float_as_uint(value[k]) & 0x7fffffffu;
            if (bits < 0x7f800000u && bits > own) own = bits;
        }
    };
    int64_t at = int64_t(blockIdx.x) * ROWS_BLOCK + threadIdx.x;
    for (; at + 3 * step < vectors; at += 4 * step) {
        vector_of<T, V> vector[4];
        DISTWAR_UNROLL
        for (int r = 0; r < 4; ++r) vector[r] = vector_of<T, V>::read(source, at + r * step);
        DISTWAR_UNROLL
        for (int r = 0; r < 4; ++r) look(vector[r]);
    }
    for (; at < vectors; at += step) look(vector_of<T, V>::read(source, at));
    const unsigned mine[1] = {own};
    unsigned total[1];
    distwar::tree_total(true, mine, total, distwar::maximum{});
    if (distwar::lane_id() == 0 && total[0] > *(volatile unsigned *)largest) atomicMax(largest, total[0]);
}

// out += sum / scale.
template <typename T>
__global__ void __launch_bounds__(ROWS_BLOCK) add_fixed_sums(fixed_sums fixed, T *out, int64_t values) {
    const float scale = scale_of(*fixed.largest, fixed.log2_count);
    for (int64_t k = int64_t(blockIdx.x) * ROWS_BLOCK + threadIdx.x; k < values;
         k += int64_t(gridDim.x) * ROWS_BLOCK)
        if (fixed.sum[k] != 0)
            out[k] = rounded<T>(double(to_float(out[k])) + value_of_units(fixed.sum[k], scale));
}
