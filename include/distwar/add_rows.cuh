// SPDX-License-Identifier: MIT
// Adds the rows of source in the order in which they stand, by atomics: a thread a vector of a row. Blocks whose
// indices repeat group the rows of a tile by index first, and add each group once. Internal to sums_by_key.cuh.
#ifndef DISTWAR_ADD_ROWS_CUH
#define DISTWAR_ADD_ROWS_CUH

#include "push_macros.h"

#include "fixed_rows.cuh"
#include "key_rows.cuh"

namespace distwar {

namespace detail {

// How a block adds.
enum adding : int { ADD_SINGLY, ADD_GROUPS, ADD_LOOK }; // the last: as its indices repeat

enum { MOST_TILE_ROWS = 2048 };

// The rows of a block.
struct row_tile {
    int32_t rows;   // 1..MOST_TILE_ROWS
    int32_t places; // of the table of their indices: a power of two, >= 2 rows
};

// What becomes of a vector of V values of T on its way to a table: `sums` sums, which sink() takes with the number
// of the vector. `rounds` vectors of a thread are on their way at a time where they are added singly, `together` in
// groups.
template <typename T, int V, typename Out>
struct float_adder {
    using sum_type = wide_of<T>;
    static constexpr int sums = V, rounds = 4, together = 4;
    static constexpr bool after_kernel = false; // find_largest
    void *out;
    int64_t count; // values of out

    __device__ __forceinline__ float_adder(void *table, int64_t values, const fixed_sums &)
        : out(table), count(values) {}
    __device__ __forceinline__ void start(const fixed_sums &, unsigned *) {}
    __device__ __forceinline__ auto sink() const { return detail::places_of<Out, V>(out, count); }
    __device__ __forceinline__ void convert(int64_t, const sum_type (&value)[V], sum_type (&sum)[V]) const {
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) sum[k] = value[k];
    }
};

// Single values, in `Words` words. The words of a warp's neighbouring values are neighbours: the L2 takes one request
// for each sector of 32 bytes.
template <typename T, int Words>
struct fixed_adder {
    using sum_type = long long;
    static constexpr int sums = Words, rounds = 4, together = 8;
    static constexpr bool after_kernel = true;
    void *out;
    int64_t count;
    long long *sum_of;
    uint32_t *report;
    unsigned largest;
    units_of<wide_of<T>, Words> units;

    __device__ __forceinline__ fixed_adder(void *table, int64_t values, const fixed_sums &fixed)
        : out(table), count(values), sum_of(fixed.sum), report(fixed.report), largest(), units(0, 0) {
        detail::let_next_start();
    }
    // Until this call find_largest may still run. Once, before convert() and the sink; all threads of the block call.
    __device__ __forceinline__ void start(const fixed_sums &fixed, unsigned *warps) {
        detail::wait_for_kernel_before();
        largest = detail::largest_of(fixed, warps);
        units = {largest, fixed.log2_count};
    }
    __device__ __forceinline__ auto sink() const { return planes<long long>{sum_of, size_t(count)}; }
    // Infinities and NaN go to `out` at once: their sum does not depend on the order. So does NaN for what is over
    // the bound.
    __device__ __forceinline__ void convert(int64_t place, const wide_of<T> (&value)[1],
                                            long long (&sum)[Words]) const {
        DISTWAR_UNROLL
        for (int w = 0; w < Words; ++w) sum[w] = 0;
        const unsigned bits = detail::upper_bits(value[0]);
        if (bits <= largest) {
            if (units.of(value[0], sum) && report)
                reinterpret_cast<volatile unsigned char *>(report)[1] = value_rounded;
        } else {
            const wide_of<T> only[1] = {detail::is_finite(value[0]) ? wide_of<T>(NAN) : value[0]};
            detail::places_of<T, 1>(out, count).add(place, only);
        }
    }
};

// Whether indices repeat among ROWS_BLOCK neighbouring rows: each is compared with 15 of its warp's. Of the 1,920 pairs
// about 20 are equal if rows come by Zipf's law with exponent 1, and one in five calls finds a pair among 10,000 rows
// that come equally often. All threads of the block call.
__device__ __forceinline__ bool indices_repeat(const row_request &in, int64_t first) {
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
template <typename T, int V, typename Adder, typename Table>
__device__ __forceinline__ int64_t sum_groups(const row_request &in, const row_groups &groups, int64_t first,
                                              int begin, int end, int v, const Adder &adder,
                                              const Table &table,
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
            wide_of<T> value[V];
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
__device__ __forceinline__ void add_groups(const row_request &in, row_groups &groups, int64_t first,
                                           int64_t end, int places, const fixed_sums &fixed, Adder &adder) {
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

// Adds the rows first..end - 1 singly. With ADD_LOOK the block looks first, and returns ADD_GROUPS if it has added
// nothing because indices repeat. All threads of the block call.
template <typename T, int V, typename Adder>
__device__ __forceinline__ int add_singly(const row_request &in, int64_t first, int64_t end, int how,
                                          const fixed_sums &fixed, unsigned *warps, Adder &adder) {
    const auto table = adder.sink();
    constexpr int rounds = Adder::rounds;
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
                wide_of<T> value[V];
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

} // namespace detail

} // namespace distwar

#include "pop_macros.h"

#endif
