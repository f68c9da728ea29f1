// SPDX-License-Identifier: MIT
// The ways of sums_by_key that sort rows by key: for wide rows, and tables with more rows than are added.
//
//     distwar::sums_by_key<distwar::key_sort>(sums, stream); // and sums_by_key_bytes<distwar::key_sort>
//
// Cost: 8 (sorted) and 12 (sorted_fixed) launches, 16 bytes of workspace a row of source and CUB's; sorted_fixed 1/16
// byte a value of source more. Includes CUB; under simt it sorts by itself.
#ifndef DISTWAR_DEVICE_SORTED_SUMS_BY_KEY_CUH
#define DISTWAR_DEVICE_SORTED_SUMS_BY_KEY_CUH

#include "sums_by_key.cuh"
#if DISTWAR_PTX
#include <cub/device/device_radix_sort.cuh>
#else
#include <algorithm>
#include <numeric>
#include <vector>
#endif

namespace distwar {

// Sorts pairs by the lowest `bits` bits of the key, ascending; pairs of equal keys keep their order. keys[0] and
// values[0] in, keys[selected] and values[selected] out. Another sort with these members serves as well.
struct key_sort {
    static constexpr bool sorts = true;
    static cudaError_t bytes([[maybe_unused]] int64_t count, size_t *bytes) {
        *bytes = 0;
#if DISTWAR_PTX
        cub::DoubleBuffer<uint32_t> none;
        if (count > 0) return cub::DeviceRadixSort::SortPairs(nullptr, *bytes, none, none, count, 0, 32);
#endif
        return cudaSuccess;
    }
    static cudaError_t pairs(uint32_t *const (&keys)[2], uint32_t *const (&values)[2], int64_t count,
                             int bits, int *selected, [[maybe_unused]] void *workspace,
                             [[maybe_unused]] size_t bytes, [[maybe_unused]] cudaStream_t stream) {
#if DISTWAR_PTX
        cub::DoubleBuffer<uint32_t> key(keys[0], keys[1]), value(values[0], values[1]);
        const cudaError_t error =
            cub::DeviceRadixSort::SortPairs(workspace, bytes, key, value, count, 0, bits, stream);
        *selected = key.selector;
        return error;
#else
        const uint32_t mask = uint32_t((uint64_t{1} << bits) - 1), *const key = keys[0];
        std::vector<int64_t> order(static_cast<size_t>(count));
        std::iota(order.begin(), order.end(), int64_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return (key[a] & mask) < (key[b] & mask); });
        for (int64_t i = 0; i < count; ++i) keys[1][i] = key[order[i]], values[1][i] = values[0][order[i]];
        *selected = 1;
        return cudaSuccess;
#endif
    }
};

namespace detail {

// ---- the kernels. A group of lanes walks over a tile of sorted entries and adds each run of it once

enum {
    LONGEST_RUN = 256, // that one group sums in fixed point; longer runs are divided among groups
    LONG_TILE = 64     // entries of a long run that a group takes
};

struct sorted_rows {
    const uint32_t *row;  // ascending; entries that are left out have `rows` and stand last
    const uint32_t *from; // row of source
    const void *source;
    int64_t count, rows;
    int32_t vectors, lanes, tile; // of a group: lanes, a power of two up to 32; entries
};

template <typename Row>
__global__ void __launch_bounds__(ROWS_BLOCK) list_rows(row_request in, Row *row, Row *from) {
    const int64_t i = int64_t(blockIdx.x) * ROWS_BLOCK + threadIdx.x;
    if (i >= in.count) return;
    const int64_t own = row_of(in, index_at(in, i));
    row[i] = Row(own < 0 ? in.rows : own), from[i] = Row(i);
}

struct sorted_tile {
    int64_t first, end; // entries
    int lane;           // of the group
};
DISTWAR_DEVICE sorted_tile tile_of(const sorted_rows &in, int entries) {
    const int64_t group = int64_t(blockIdx.x) * (ROWS_BLOCK / in.lanes) + int(threadIdx.x) / in.lanes;
    const int64_t first = group * entries, end = first + entries;
    return {first, end < in.count ? end : in.count, int(threadIdx.x) % in.lanes};
}

// Sums of floats; each run of a tile by one atomic.
template <typename T, int V, typename Out>
__global__ void __launch_bounds__(ROWS_BLOCK) add_runs(sorted_rows in, void *out) {
    constexpr int together = 8; // loads on their way
    const sorted_tile tile = tile_of(in, in.tile);
    const auto table = places_of<Out, V>(out, in.rows * in.vectors * V);
    const bool is_narrow = in.vectors <= 32;
    const int most = is_narrow ? in.lanes : in.vectors;
    for (int v = tile.lane; v < most; v += in.lanes) {
        float sum[V] = {};
        uint32_t current = uint32_t(in.rows);
        for (int64_t p = tile.first; p < tile.end && v < in.vectors; p += together) {
            uint32_t row[together];
            vector_of<T, V> vector[together] = {};
            DISTWAR_UNROLL
            for (int j = 0; j < together; ++j) {
                row[j] = p + j < tile.end ? __ldg(in.row + p + j) : uint32_t(in.rows);
                if (row[j] < in.rows)
                    vector[j] = vector_of<T, V>::read_once(in.source,
                                                           int64_t(__ldg(in.from + p + j)) * in.vectors + v);
            }
            DISTWAR_UNROLL
            for (int j = 0; j < together; ++j) {
                if (row[j] != current) {
                    if (current < in.rows) table.add((long long)current * in.vectors + v, sum);
                    DISTWAR_UNROLL
                    for (int k = 0; k < V; ++k) sum[k] = 0;
                    current = row[j];
                }
                if (row[j] >= in.rows) break;
                float value[V];
                vector[j].unpack(value);
                DISTWAR_UNROLL
                for (int k = 0; k < V; ++k) sum[k] += value[k];
            }
        }
        const long long place = (long long)current * in.vectors + v;
        if (is_narrow) // groups of a warp may end in one run
            distwar::reduce_tree(distwar::all_lanes, current < in.rows, place, sum, table);
        else if (current < in.rows)
            table.add(place, sum);
    }
}

// ---- fixed point, with a scale for each value of each row of out

// Calls each(values) for column v of the entries first..end - 1.
template <typename T, int V, typename Each>
DISTWAR_DEVICE void over_entries(const sorted_rows &in, int64_t first, int64_t end, int v, const Each &each) {
    constexpr int together = 4; // loads on their way
    for (int64_t p = first; p < end; p += together) {
        vector_of<T, V> vector[together] = {};
        DISTWAR_UNROLL
        for (int j = 0; j < together; ++j)
            if (p + j < end)
                vector[j] =
                    vector_of<T, V>::read(in.source, int64_t(__ldg(in.from + p + j)) * in.vectors + v);
        DISTWAR_UNROLL
        for (int j = 0; j < together; ++j) { // those that are not there are 0
            float value[V];
            vector[j].unpack(value);
            each(value);
        }
    }
}

constexpr unsigned infinity_bits = 0x7f800000u;

// The bits of the largest |value| of each column. Infinity and NaN are larger than all others.
template <int V>
DISTWAR_DEVICE void take_largest(const float (&value)[V], unsigned (&largest)[V]) {
    DISTWAR_UNROLL
    for (int k = 0; k < V; ++k) {
        const unsigned bits = detail::upper_bits(value[k]);
        if (bits > largest[k]) largest[k] = bits;
    }
}

// Sums of at most 256 values in units.
template <int V>
struct unit_sums {
    float scale[V];
    unsigned high[V], low[V]; // those of infinity and NaN wrap, and are not used

    DISTWAR_DEVICE void begin(const unsigned (&largest)[V], int log2_count) {
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) scale[k] = scale_of(largest[k], log2_count), high[k] = low[k] = 0;
    }
    DISTWAR_DEVICE void add(const float (&value)[V]) {
        DISTWAR_UNROLL
        for (int k = 0; k < V; ++k) {
            const float_units units = detail::rounded_parts(value[k], scale[k]);
            high[k] += unsigned(units.high), low[k] += unsigned(units.low);
        }
    }
    DISTWAR_DEVICE long long sum(int k) const { return joined({int(high[k]), int(low[k])}); }
};

// The sum of those values of a column that are not finite: the same in every order.
template <typename T, int V>
__device__ __noinline__ float sum_not_finite(const sorted_rows &in, int64_t first, int64_t end, int v,
                                             int k) {
    float sum = 0;
    for (int64_t p = first; p < end; ++p) {
        float value[V];
        vector_of<T, V>::read(in.source, int64_t(__ldg(in.from + p)) * in.vectors + v).unpack(value);
        DISTWAR_UNROLL
        for (int j = 0; j < V; ++j)
            if (j == k && !is_finite(value[j])) sum += value[j];
    }
    return sum;
}

// The first entry from `low` to `high` whose row is not below `row`; high: there is none.
DISTWAR_DEVICE int64_t first_of(const sorted_rows &in, int64_t low, int64_t high, uint32_t row) {
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (__ldg(in.row + middle) < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The end of the run that begins at `first`, at most LONGEST_RUN + 1 entries on. Cost: about 2 log2 of its length
// loads.
DISTWAR_DEVICE int64_t end_of_run(const sorted_rows &in, int64_t first, uint32_t row) {
    const int64_t most = first + LONGEST_RUN + 1 < in.count ? first + LONGEST_RUN + 1 : in.count;
    int64_t step = 1;
    while (first + step < most && __ldg(in.row + first + step) == row) step *= 2;
    return first_of(in, first + step / 2 + 1, first + step < most ? first + step : most, row + 1);
}

// A group sums the runs that begin in its tile, unless they are long. Each is added to `out` by one addition a value,
// so the sum of both is the same in every run.
template <typename T, int V>
__global__ void __launch_bounds__(ROWS_BLOCK, ROWS_BLOCKS) add_short_runs(sorted_rows in, void *out) {
    constexpr int few = 32 / V < 4 ? 32 / V : 4; // entries that are read once
    const sorted_tile tile = tile_of(in, in.tile);
    const auto table = places_of<T, V>(out, in.rows * in.vectors * V);
    int64_t p = tile.first;
    if (p >= in.count) return;
    if (p > 0) { // what began before
        const uint32_t before = __ldg(in.row + p - 1);
        if (__ldg(in.row + tile.end - 1) == before) return;
        while (__ldg(in.row + p) == before) ++p;
    }
    while (p < tile.end) {
        const uint32_t row = __ldg(in.row + p);
        if (row >= in.rows) return;
        const int64_t end = end_of_run(in, p, row);
        if (end - p > LONGEST_RUN) return; // it reaches beyond the tile
        for (int v = tile.lane; v < in.vectors; v += in.lanes) {
            vector_of<T, V> kept[few] = {};
            unsigned largest[V] = {};
            unit_sums<V> sums;
            DISTWAR_UNROLL
            for (int j = 0; j < few; ++j)
                if (p + j < end)
                    kept[j] =
                        vector_of<T, V>::read(in.source, int64_t(__ldg(in.from + p + j)) * in.vectors + v);
            float value[V];
            const auto over_run = [&](const auto &each) {
                DISTWAR_UNROLL
                for (int j = 0; j < few; ++j) kept[j].unpack(value), each(value);
                if (p + few < end) over_entries<T, V>(in, p + few, end, v, each);
            };
            over_run([&](const float(&given)[V]) { take_largest(given, largest); });
            sums.begin(largest, 0);
            over_run([&](const float(&given)[V]) { sums.add(given); });
            DISTWAR_UNROLL
            for (int k = 0; k < V; ++k)
                value[k] = largest[k] < infinity_bits ? float(value_of_units(sums.sum(k), sums.scale[k]))
                                                      : sum_not_finite<T, V>(in, p, end, v, k);
            const int64_t place = int64_t(row) * in.vectors + v;
            // Atomics of floats take subnormal numbers and results for 0. Where one number is at least 2^-100, the sum
            // is a multiple of 2^-125, or the other does not change it. No other thread touches this place.
            bool flushes = false;
            DISTWAR_UNROLL
            for (int k = 0; k < V; ++k)
                flushes = flushes || (sizeof(T) == 4 && value[k] != 0 && fabsf(value[k]) < 0x1p-100f);
            if (!flushes) {
                table.add((long long)place, value);
                continue;
            }
            T *const to = static_cast<T *>(out) + place * V;
            DISTWAR_UNROLL
            for (int k = 0; k < V; ++k) to[k] = rounded<T>(double(detail::widened(to[k])) + double(value[k]));
        }
        p = end;
    }
}

// The sums of long runs, 0 before. At most one begins in LONGEST_RUN entries: that from entry s on has number
// s / LONGEST_RUN.
struct long_runs {
    uint32_t *row_and_one; // [number]: the row and 1; 0: there is no such run
    unsigned *largest;     // [number][width], bits
    long long *sum;        // [number][width]
    float *rest;           // [number][width]: sums of what is not finite
    int log2_count;
};

// Calls each(number, row, first, end, lane) for the one or two long runs that reach into the tile of the group.
template <typename Each>
DISTWAR_DEVICE void over_long_runs(const sorted_rows &in, const Each &each) {
    const sorted_tile tile = tile_of(in, LONG_TILE);
    if (tile.first >= in.count) return;
    int64_t done = -1; // the beginning of the run that was called for
    for (int side = 0; side < 2; ++side) {
        const int64_t p = side == 0 ? tile.first : tile.end - 1;
        const uint32_t row = __ldg(in.row + p);
        if (row >= in.rows) continue;
        constexpr int half = LONGEST_RUN / 2; // a long run reaches this far to one side
        if (!((p >= half && __ldg(in.row + p - half) == row) ||
              (p + half < in.count && __ldg(in.row + p + half) == row)))
            continue;
        const int64_t begin = first_of(in, 0, p, row);
        if (begin == done || begin + LONGEST_RUN >= in.count || __ldg(in.row + begin + LONGEST_RUN) != row)
            continue;
        done = begin;
        const int64_t first = begin > tile.first ? begin : tile.first;
        int64_t end = p + 1;
        while (end < tile.end && __ldg(in.row + end) == row) ++end;
        each(begin / LONGEST_RUN, row, first, end, tile.lane);
    }
}

template <typename T, int V>
__global__ void __launch_bounds__(ROWS_BLOCK) find_largest_of_long_runs(sorted_rows in, long_runs runs) {
    over_long_runs(in, [&](int64_t number, uint32_t row, int64_t first, int64_t end, int lane) {
        if (lane == 0) runs.row_and_one[number] = row + 1;
        for (int v = lane; v < in.vectors; v += in.lanes) {
            unsigned largest[V] = {};
            over_entries<T, V>(in, first, end, v,
                               [&](const float(&value)[V]) { take_largest(value, largest); });
            DISTWAR_UNROLL
            for (int k = 0; k < V; ++k)
                atomicMax(runs.largest + (number * in.vectors + v) * V + k, largest[k]);
        }
    });
}

template <typename T, int V>
__global__ void __launch_bounds__(ROWS_BLOCK) add_long_runs(sorted_rows in, long_runs runs) {
    over_long_runs(in, [&](int64_t number, uint32_t, int64_t first, int64_t end, int lane) {
        for (int v = lane; v < in.vectors; v += in.lanes) {
            const int64_t at = (number * in.vectors + v) * V;
            unsigned largest[V];
            unit_sums<V> sums;
            DISTWAR_UNROLL
            for (int k = 0; k < V; ++k) largest[k] = __ldg(runs.largest + at + k);
            sums.begin(largest, runs.log2_count);
            over_entries<T, V>(in, first, end, v, [&](const float(&value)[V]) { sums.add(value); });
            DISTWAR_UNROLL
            for (int k = 0; k < V; ++k) {
                if (largest[k] < infinity_bits)
                    distwar::atomic_add(runs.sum + at + k, sums.sum(k));
                else
                    distwar::atomic_add(runs.rest + at + k, sum_not_finite<T, V>(in, first, end, v, k));
            }
        }
    });
}

template <typename T>
__global__ void __launch_bounds__(ROWS_BLOCK)
    add_sums_of_long_runs(long_runs runs, int64_t numbers, int64_t width, T *out) {
    for (int64_t number = blockIdx.x; number < numbers; number += gridDim.x) {
        if (runs.row_and_one[number] == 0) continue;
        T *const to = out + int64_t(runs.row_and_one[number] - 1) * width;
        for (int64_t k = threadIdx.x; k < width; k += ROWS_BLOCK) {
            const int64_t at = number * width + k;
            const double sum = runs.largest[at] < infinity_bits
                                   ? value_of_units(runs.sum[at], scale_of(runs.largest[at], runs.log2_count))
                                   : double(runs.rest[at]);
            to[k] = rounded<T>(double(detail::widened(to[k])) + sum);
        }
    }
}

// ---- the call

// The arrays of a workspace.
template <typename Sort>
struct sorted_places {
    uint32_t *keys[2], *values[2];
    char *scratch;
    size_t scratch_bytes;
    long_runs runs;
    int64_t numbers; // of long runs
    char *memory;
    size_t used;

    template <typename Item>
    void add(size_t count, Item **array) {
        *array = reinterpret_cast<Item *>(memory ? memory + used : nullptr);
        used += (count * sizeof(Item) + 255) / 256 * 256;
    }
    cudaError_t place(const key_call &call, sums_way way) {
        const size_t n = size_t(call.count);
        memory = call.workspace;
        for (int b = 0; b < 2; b++) add(n, &keys[b]), add(n, &values[b]);
        const cudaError_t error = Sort::bytes(call.count, &scratch_bytes);
        add(scratch_bytes, &scratch);
        if (error != cudaSuccess || way != sums_way::sorted_fixed) return error;
        const size_t most = n / LONGEST_RUN + 1, sums = most * size_t(call.width);
        numbers = int64_t(most);
        add(most, &runs.row_and_one);
        add(sums, &runs.largest);
        add(sums, &runs.sum);
        add(sums, &runs.rest);
        runs.log2_count = detail::ceil_log2(call.count);
        return error;
    }
};

template <typename Sort, typename T, int V, typename Out>
cudaError_t add_sorted(const key_call &call, cudaStream_t stream) {
    const bool fixed = call.way == sums_way::sorted_fixed;
    sorted_places<Sort> at = {};
    cudaError_t error = at.place(call, call.way);
    const auto queue = [&](int64_t threads, auto kernel, auto... arguments) {
        if (error == cudaSuccess)
            error = detail::launch_kernel(stream, unsigned((threads + ROWS_BLOCK - 1) / ROWS_BLOCK),
                                          ROWS_BLOCK, 0, kernel, arguments...);
    };
    row_request rows = call;
    rows.vectors = int32_t(call.width / V);
    queue(rows.count, list_rows<uint32_t>, rows, at.keys[0], at.values[0]);
    int selected = 0;
    if (error == cudaSuccess)
        error =
            Sort::pairs(at.keys, at.values, rows.count, detail::ceil_log2(rows.rows < 1 ? 2 : rows.rows + 1),
                        &selected, at.scratch, at.scratch_bytes, stream);
    int lanes = 1;
    while (lanes < rows.vectors && lanes < 32) lanes *= 2;
    // Entries of a group: enough groups for all multiprocessors, and few that add to one row.
    const int most = !fixed ? 256 : lanes >= 8 ? 32 : 8;
    int tile = 8;
    while (tile < most && rows.count * lanes / (2 * tile) > int64_t{2048} * call.multiprocessors) tile *= 2;
    const sorted_rows in = {at.keys[selected], at.values[selected], rows.source, rows.count,
                            rows.rows,         rows.vectors,        lanes,       tile};
    const auto threads = [&](int entries) { return (in.count + entries - 1) / entries * lanes; };
    if (!fixed) queue(threads(tile), add_runs<T, V, Out>, in, call.out);
    if constexpr (sizeof(Out) == sizeof(T)) // others are refused before
        if (fixed) {
            queue(threads(tile), add_short_runs<T, V>, in, call.out);
            char *const runs = reinterpret_cast<char *>(at.runs.row_and_one); // with all arrays behind
            if (error == cudaSuccess)
                error = cudaMemsetAsync(runs, 0, size_t(at.memory + at.used - runs), stream);
            queue(threads(LONG_TILE), find_largest_of_long_runs<T, V>, in, at.runs);
            queue(threads(LONG_TILE), add_long_runs<T, V>, in, at.runs);
            const int64_t blocks = int64_t(call.multiprocessors) * 8;
            queue((at.numbers < blocks ? at.numbers : blocks) * ROWS_BLOCK, add_sums_of_long_runs<T>, at.runs,
                  at.numbers, call.width, static_cast<T *>(call.out));
        }
    return error;
}

} // namespace detail

} // namespace distwar

#endif
