// SPDX-License-Identifier: MIT
// Launches the kernels of a way, for a type in memory.
#pragma once

#include "add_sorted.cuh"
#include "ways.h"

#include "gpu/block_layout.h"
#include "launch.cuh"
#include "gpu/scan_sort.h"

// Returns the error of the call unless there is none.
#define IX_TRY(call)                                                                                         \
    do {                                                                                                     \
        const cudaError_t ix_error_ = (call);                                                                \
        if (ix_error_ != cudaSuccess) return ix_error_;                                                      \
    } while (0)

inline int ceil_log2(int64_t n) {
    int bits = 0;
    while (bits < 62 && int64_t{1} << bits < n) bits++;
    return bits;
}

// The arrays of a workspace.
struct sorted_arrays {
    sort_arrays order;
    void *scratch;
    size_t scratch_bytes;
    long_runs runs;
    int64_t numbers; // of long runs
};

inline cudaError_t place_sorted(const ix_rows &rows, bool fixed, void *memory, sorted_arrays *out,
                                size_t *bytes) {
    block_layout layout = {static_cast<char *>(memory), 0};
    const size_t n = size_t(rows.count);
    for (int b = 0; b < 2; b++) {
        layout_add(&layout, n, &out->order.keys[b]);
        layout_add(&layout, n, &out->order.values[b]);
    }
    IX_TRY(sort_pairs_bytes(rows.count, &out->scratch_bytes));
    out->scratch = layout_add(&layout, out->scratch_bytes);
    out->numbers = 0;
    if (fixed) {
        const size_t numbers = n / LONGEST_RUN + 1, values = numbers * size_t(rows.width);
        out->numbers = int64_t(numbers);
        layout_add(&layout, numbers, &out->runs.row_and_one);
        layout_add(&layout, values, &out->runs.largest);
        layout_add(&layout, values, &out->runs.sum);
        layout_add(&layout, values, &out->runs.rest);
        out->runs.log2_count = ceil_log2(rows.count);
    }
    *bytes = layout.bytes;
    return cudaSuccess;
}

inline void place_fixed(const ix_rows &rows, void *memory, fixed_sums *out, size_t *bytes) {
    block_layout layout = {static_cast<char *>(memory), 0};
    unsigned *largest;
    layout_add(&layout, 1, &largest);
    layout_add(&layout, size_t(rows.rows) * size_t(rows.width), &out->sum);
    out->largest = largest;
    out->log2_count = ceil_log2(rows.count);
    *bytes = layout.bytes;
}

// T: of source, in vectors of V; Out: of out, T or float.
template <typename T, int V, typename Out>
struct ways {
    static row_request request_of(const ix_rows &rows) {
        return {rows.index,
                rows.source,
                rows.count,
                rows.rows,
                rows.skipped,
                int32_t(rows.width / V),
                rows.index_bytes == 8,
                rows.report};
    }

    static unsigned grid_of(int64_t threads, const ix_plan &plan, int blocks_each) {
        const int64_t blocks = (threads + ROWS_BLOCK - 1) / ROWS_BLOCK,
                      most = int64_t(plan.multiprocessors) * blocks_each;
        return unsigned(blocks < most ? blocks : most);
    }

    template <typename Sum>
    static cudaError_t launch_add_rows(const ix_rows &rows, const ix_plan &plan, const fixed_sums &fixed,
                                       int how, cudaStream_t stream) {
        // As few rounds of blocks as can be, all of them full.
        const int64_t blocks = int64_t(plan.multiprocessors) * ROWS_BLOCKS;
        const int64_t waves = (rows.count + blocks * MOST_TILE_ROWS - 1) / (blocks * MOST_TILE_ROWS);
        const int64_t vectors = rows.width / V, each = (rows.count + blocks * waves - 1) / (blocks * waves);
        const int64_t least = vectors < 8 ? ROWS_BLOCK / vectors : 32, step = vectors < 32 ? 32 : 1;
        row_tile tile = {int32_t(each < least && vectors < 32 ? least : (each + step - 1) / step * step),
                         2 * ROWS_BLOCK};
        while (tile.places < 2 * tile.rows) tile.places *= 2;
        return launch(stream, blocks_for(rows.count, tile.rows), ROWS_BLOCK, add_rows<T, V, Sum, Out>,
                      request_of(rows), rows.out, fixed, how, tile);
    }

    // Groups have rows of 32 bits. In a small table atomics meet.
    static int how(const ix_rows &rows, const ix_plan &plan) {
        if (rows.rows > INT32_MAX || plan.way == IX_ATOMIC) return ADD_SINGLY;
        return plan.way == IX_GROUPED || rows.rows <= 2048 ? ADD_GROUPS : ADD_LOOK;
    }

    static cudaError_t add_fixed(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream) {
        fixed_sums fixed;
        size_t bytes;
        place_fixed(rows, rows.workspace, &fixed, &bytes);
        const int64_t values = rows.rows * rows.width, vectors = rows.count * (rows.width / V);
        unsigned *const largest = const_cast<unsigned *>(fixed.largest);
        IX_TRY(cudaMemsetAsync(rows.workspace, 0, bytes, stream));
        IX_TRY(launch(stream, grid_of(vectors, plan, 8), ROWS_BLOCK, find_largest<T, V>, rows.source, vectors,
                      largest));
        IX_TRY(launch_add_rows<long long>(rows, plan, fixed, how(rows, plan), stream));
        return launch(stream, grid_of(values, plan, 8), ROWS_BLOCK, add_fixed_sums<T>, fixed,
                      static_cast<T *>(rows.out), values);
    }

    // Entries of a group: enough groups for all multiprocessors, and few that add to one row.
    static int sorted_tile_entries(int64_t count, int lanes, bool fixed, const ix_plan &plan) {
        if (fixed) return lanes >= 8 ? 32 : 8;
        int entries = 8;
        while (entries < 256 && count * lanes / (2 * entries) > int64_t{2048} * plan.multiprocessors)
            entries *= 2;
        return entries;
    }

    static cudaError_t add_sorted(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream) {
        const bool fixed = plan.way == IX_SORTED_FIXED;
        sorted_arrays a;
        size_t bytes;
        IX_TRY(place_sorted(rows, fixed, rows.workspace, &a, &bytes));
        const row_request request = request_of(rows);
        IX_TRY(launch_for(stream, rows.count, ROWS_BLOCK, list_rows, request, a.order.keys[0],
                          a.order.values[0]));
        int selected;
        IX_TRY(sort_pairs(&a.order, rows.count, ceil_log2(rows.rows < 1 ? 2 : rows.rows + 1), &selected,
                          a.scratch, a.scratch_bytes, stream));
        int lanes = 1;
        while (lanes < request.vectors && lanes < 32) lanes *= 2;
        const int tile = sorted_tile_entries(rows.count, lanes, fixed, plan);
        const sorted_rows in = {a.order.keys[selected],
                                a.order.values[selected],
                                rows.source,
                                rows.count,
                                rows.rows,
                                request.vectors,
                                lanes,
                                tile};
        const auto threads = [&](int entries) { return (rows.count + entries - 1) / entries * lanes; };
        if (!fixed)
            return launch_for(stream, threads(in.tile), ROWS_BLOCK, add_runs<T, V, Out>, in, rows.out);
        if constexpr (sizeof(Out) == sizeof(T)) return add_sorted_fixed(rows, plan, in, a, bytes, stream);
        return cudaErrorNotSupported; // refused before
    }

    static cudaError_t add_sorted_fixed(const ix_rows &rows, const ix_plan &plan, const sorted_rows &in,
                                        const sorted_arrays &a, size_t bytes, cudaStream_t stream) {
        const auto threads = [&](int entries) { return (rows.count + entries - 1) / entries * in.lanes; };
        T *const out = static_cast<T *>(rows.out);
        IX_TRY(launch_for(stream, threads(in.tile), ROWS_BLOCK, add_short_runs<T, V>, in, rows.out));
        char *const runs = reinterpret_cast<char *>(a.runs.row_and_one); // with all arrays behind
        IX_TRY(cudaMemsetAsync(runs, 0, static_cast<char *>(rows.workspace) + bytes - runs, stream));
        IX_TRY(
            launch_for(stream, threads(LONG_TILE), ROWS_BLOCK, find_largest_of_long_runs<T, V>, in, a.runs));
        IX_TRY(launch_for(stream, threads(LONG_TILE), ROWS_BLOCK, add_long_runs<T, V>, in, a.runs));
        const int64_t most = int64_t(plan.multiprocessors) * 8;
        return launch(stream, unsigned(a.numbers < most ? a.numbers : most), ROWS_BLOCK,
                      add_sums_of_long_runs<T>, a.runs, a.numbers, rows.width, out);
    }

    static cudaError_t add(const ix_rows &rows, const ix_plan &plan, cudaStream_t stream) {
        if constexpr (sizeof(Out) == sizeof(T))
            if (plan.way == IX_FIXED) return add_fixed(rows, plan, stream);
        if (plan.way == IX_SORTED || plan.way == IX_SORTED_FIXED) return add_sorted(rows, plan, stream);
        return launch_add_rows<float>(rows, plan, {}, how(rows, plan), stream);
    }
};
