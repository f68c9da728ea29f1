// SPDX-License-Identifier: MIT
// The calls of one type, by which distwar_index.cpp reaches sums_by_key and histogram. Internal to this library.
#pragma once

#include "types.h"

#include <distwar/device/sorted_sums_by_key.cuh>

template <typename T, typename Index, typename Out>
distwar::key_sums<T, Index, Out> ix_sums_of(const ix_rows &rows) {
    distwar::key_sums<T, Index, Out> sums;
    sums.count = rows.count, sums.width = rows.width, sums.keys = rows.rows;
    sums.index = static_cast<const Index *>(rows.index);
    sums.source = static_cast<const T *>(rows.source);
    sums.out = static_cast<Out *>(rows.out);
    sums.skipped = rows.skipped, sums.bound = rows.bound, sums.report = rows.report;
    sums.way = rows.way == IX_CHOSEN && rows.deterministic ? distwar::sums_way::deterministic
                                                           : distwar::sums_way(int(rows.way));
    sums.workspace = rows.workspace, sums.workspace_bytes = rows.workspace_bytes;
    return sums;
}

template <typename T, typename Index, typename Out>
const ix_calls *ix_calls_with() {
    using sort = distwar::key_sort;
    static const ix_calls calls = {
        [](const ix_rows &rows, bool arrays) {
            return distwar::key_sums_fault<sort>(ix_sums_of<T, Index, Out>(rows), arrays);
        },
        [](const ix_rows &rows, size_t *bytes) {
            return distwar::sums_by_key_bytes<sort>(ix_sums_of<T, Index, Out>(rows), bytes);
        },
        [](const ix_rows &rows, cudaStream_t stream) {
            return distwar::sums_by_key<sort>(ix_sums_of<T, Index, Out>(rows), stream);
        }};
    return &calls;
}

template <typename T, typename Out>
const ix_calls *ix_calls_of(const ix_rows &rows) {
    return rows.index_bytes == 8 ? ix_calls_with<T, long long, Out>() : ix_calls_with<T, int, Out>();
}
