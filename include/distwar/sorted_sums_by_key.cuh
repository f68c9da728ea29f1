// SPDX-License-Identifier: MIT
// The ways of sums_by_key that sort rows by key: for wide rows, and tables with more rows than are added.
//
//     distwar::sums_by_key<distwar::key_sort>(sums, stream); // and sums_by_key_bytes<distwar::key_sort>
//
// Cost: 8 (sorted) and 12 (sorted_fixed) launches, 16 bytes of workspace a row of source and CUB's; sorted_fixed 1/16
// byte a value of source more. Includes CUB, or sorts by the standard library under simt.
#ifndef DISTWAR_SORTED_SUMS_BY_KEY_CUH
#define DISTWAR_SORTED_SUMS_BY_KEY_CUH

#include "push_macros.h"

#include "add_sorted.cuh"
#include "sums_by_key.cuh"
#if !defined(__SIMT__)
#include <cub/device/device_radix_sort.cuh>
#endif

namespace distwar {

// Sorts pairs by the lowest `bits` bits of the key, ascending; pairs of equal keys keep their order. keys[0] and
// values[0] in, keys[selected] and values[selected] out. Another sort with these members serves as well.
struct key_sort {
    static constexpr bool sorts = true;
#if !defined(__SIMT__)
    static cudaError_t bytes(int64_t count, size_t *bytes) {
        cub::DoubleBuffer<uint32_t> none;
        *bytes = 0;
        return count == 0 ? cudaSuccess
                          : cub::DeviceRadixSort::SortPairs(nullptr, *bytes, none, none, count, 0, 32);
    }
    static cudaError_t pairs(uint32_t *const (&keys)[2], uint32_t *const (&values)[2], int64_t count,
                             int bits, int *selected, void *workspace, size_t bytes, cudaStream_t stream) {
        cub::DoubleBuffer<uint32_t> key(keys[0], keys[1]), value(values[0], values[1]);
        const cudaError_t error =
            cub::DeviceRadixSort::SortPairs(workspace, bytes, key, value, count, 0, bits, stream);
        *selected = key.selector;
        return error;
    }
#else
    static cudaError_t bytes(int64_t, size_t *bytes) {
        *bytes = 0;
        return cudaSuccess;
    }
    static cudaError_t pairs(uint32_t *const (&keys)[2], uint32_t *const (&values)[2], int64_t count,
                             int bits, int *selected, void *, size_t, cudaStream_t) {
        *selected = 0;
        for (int bit = 0; bit < bits; bit += 8) { // from the lowest digit up
            const uint32_t *const key = keys[*selected], *const value = values[*selected];
            int64_t end[256] = {}, sum = 0;
            for (int64_t i = 0; i < count; ++i) ++end[key[i] >> bit & 255];
            for (int64_t &place : end) place = sum += place;
            *selected ^= 1;
            for (int64_t i = count; i-- > 0;) {
                const int64_t to = --end[key[i] >> bit & 255];
                keys[*selected][to] = key[i], values[*selected][to] = value[i];
            }
        }
        return cudaSuccess;
    }
#endif
};

namespace detail {

// The arrays of a workspace.
template <typename Sort>
struct sorted_places {
    uint32_t *keys[2], *values[2];
    void *scratch;
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
        const size_t n = size_t(call.rows.count);
        memory = call.workspace;
        for (int b = 0; b < 2; b++) add(n, &keys[b]), add(n, &values[b]);
        const cudaError_t error = Sort::bytes(call.rows.count, &scratch_bytes);
        char *bytes;
        add(scratch_bytes, &bytes);
        scratch = bytes;
        if (error != cudaSuccess || way != sums_way::sorted_fixed) return error;
        const size_t most = n / LONGEST_RUN + 1, sums = most * size_t(call.width);
        numbers = int64_t(most);
        add(most, &runs.row_and_one);
        add(sums, &runs.largest);
        add(sums, &runs.sum);
        add(sums, &runs.rest);
        runs.log2_count = detail::ceil_log2(call.rows.count);
        return error;
    }
    static cudaError_t of(const key_call &call, sums_way way, size_t *bytes) {
        sorted_places places = {};
        const cudaError_t error = places.place(call, way);
        *bytes = places.used;
        return error;
    }
};

template <typename Sort, typename T, int V, typename Out>
struct sorted_rows_call {
    template <typename... Parameters, typename... Arguments>
    static cudaError_t launch_for(cudaStream_t stream, int64_t threads, void (*kernel)(Parameters...),
                                  Arguments... arguments) {
        return detail::launch_kernel(stream, unsigned((threads + ROWS_BLOCK - 1) / ROWS_BLOCK), ROWS_BLOCK, 0,
                                     kernel, arguments...);
    }

    // Entries of a group: enough groups for all multiprocessors, and few that add to one row.
    static int tile_entries(int64_t count, int lanes, bool fixed, int multiprocessors) {
        const int most = !fixed ? 256 : lanes >= 8 ? 32 : 8;
        int entries = 8;
        while (entries < most && count * lanes / (2 * entries) > int64_t{2048} * multiprocessors)
            entries *= 2;
        return entries;
    }

    static cudaError_t add(const key_call &call, cudaStream_t stream) {
        const bool fixed = call.way == sums_way::sorted_fixed;
        sorted_places<Sort> at = {};
        cudaError_t error = at.place(call, call.way);
        if (error != cudaSuccess) return error;
        row_request rows = call.rows;
        rows.vectors = int32_t(call.width / V);
        error = launch_for(stream, rows.count, list_rows<uint32_t>, rows, at.keys[0], at.values[0]);
        int selected = 0;
        if (error == cudaSuccess)
            error = Sort::pairs(at.keys, at.values, rows.count,
                                detail::ceil_log2(rows.rows < 1 ? 2 : rows.rows + 1), &selected, at.scratch,
                                at.scratch_bytes, stream);
        if (error != cudaSuccess) return error;
        int lanes = 1;
        while (lanes < rows.vectors && lanes < 32) lanes *= 2;
        const int tile = tile_entries(rows.count, lanes, fixed, call.multiprocessors);
        const sorted_rows in = {at.keys[selected], at.values[selected], rows.source, rows.count,
                                rows.rows,         rows.vectors,        lanes,       tile};
        if (!fixed)
            return launch_for(stream, (rows.count + tile - 1) / tile * lanes, add_runs<T, V, Out>, in,
                              call.out);
        if constexpr (sizeof(Out) == sizeof(T)) return add_fixed(call, in, at, stream);
        return cudaErrorNotSupported; // refused before
    }

    static cudaError_t add_fixed(const key_call &call, const sorted_rows &in, const sorted_places<Sort> &at,
                                 cudaStream_t stream) {
        const auto threads = [&](int entries) { return (in.count + entries - 1) / entries * in.lanes; };
        cudaError_t error = launch_for(stream, threads(in.tile), add_short_runs<T, V>, in, call.out);
        char *const runs = reinterpret_cast<char *>(at.runs.row_and_one); // with all arrays behind
        if (error == cudaSuccess)
            error = cudaMemsetAsync(runs, 0, size_t(at.memory + at.used - runs), stream);
        if (error == cudaSuccess)
            error = launch_for(stream, threads(LONG_TILE), find_largest_of_long_runs<T, V>, in, at.runs);
        if (error == cudaSuccess)
            error = launch_for(stream, threads(LONG_TILE), add_long_runs<T, V>, in, at.runs);
        if (error != cudaSuccess) return error;
        const int64_t most = int64_t(call.multiprocessors) * 8;
        return detail::launch_kernel(stream, unsigned(at.numbers < most ? at.numbers : most), ROWS_BLOCK, 0,
                                     add_sums_of_long_runs<T>, at.runs, at.numbers, call.width,
                                     static_cast<T *>(call.out));
    }
};

} // namespace detail

} // namespace distwar

#include "pop_macros.h"

#endif
