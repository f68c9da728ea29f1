// SPDX-License-Identifier: MIT
// The C calls: sums_by_key and histogram of the library, by type.
#include "distwar_index.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <distwar/device/histogram.cuh>
#include <distwar/device/sorted_sums_by_key.cuh>
#include <distwar/half.cuh>
#include <stdio.h>

namespace {

thread_local char last_error[512];

ix_status fail(ix_status status, const char *function, const char *reason) {
    snprintf(last_error, sizeof last_error, "%s: %s", function, reason);
    return status;
}

ix_status status_of(const char *function, cudaError_t error) {
    return error == cudaSuccess ? IX_OK : fail(IX_DEVICE_ERROR, function, cudaGetErrorString(error));
}

#define IX_REQUIRE(condition, text)                                                                          \
    do {                                                                                                     \
        if (!(condition)) return fail(IX_INVALID_ARGUMENT, function, text);                                  \
    } while (0)

using sort = distwar::key_sort;

template <typename T, typename Index, typename Out>
distwar::key_sums<T, Index, Out> sums_of(const ix_rows &rows) {
    distwar::key_sums<T, Index, Out> sums;
    sums.count = rows.count, sums.width = rows.width, sums.keys = rows.rows;
    sums.index = static_cast<const Index *>(rows.index);
    sums.source = static_cast<const T *>(rows.source);
    sums.out = static_cast<Out *>(rows.out);
    sums.skipped = rows.skipped, sums.report = rows.report;
    sums.way = rows.way == IX_CHOSEN && rows.deterministic ? distwar::sums_way::deterministic
                                                           : distwar::sums_way(int(rows.way));
    sums.workspace = rows.workspace, sums.workspace_bytes = rows.workspace_bytes;
    return sums;
}

template <typename T, typename Out, typename Call>
ix_status with_index(const ix_rows &rows, const Call &call) {
    return rows.index_bytes == 8 ? call(sums_of<T, long long, Out>(rows)) : call(sums_of<T, int, Out>(rows));
}

// call(key_sums of the types).
template <typename Call>
ix_status with_types(const ix_rows &rows, const Call &call) {
    const bool floats = rows.float_sums != 0;
    if (rows.type == IX_FLOAT16)
        return floats ? with_index<__half, float>(rows, call) : with_index<__half, __half>(rows, call);
    if (rows.type == IX_BFLOAT16)
        return floats ? with_index<__nv_bfloat16, float>(rows, call)
                      : with_index<__nv_bfloat16, __nv_bfloat16>(rows, call);
    return rows.type == IX_FLOAT64 ? with_index<double, double>(rows, call)
                                   : with_index<float, float>(rows, call);
}

// The same, if nothing is wrong with them. arrays: with those that rows points to.
template <typename Call>
ix_status checked(const char *function, const ix_rows *rows, bool arrays, const Call &call) {
    IX_REQUIRE(rows, "rows must be given");
    IX_REQUIRE(rows->index_bytes == 4 || rows->index_bytes == 8, "index_bytes must be 4 or 8");
    IX_REQUIRE(unsigned(rows->type) < IX_TYPES, "type must be an ix_type");
    IX_REQUIRE(unsigned(rows->way) < IX_WAYS, "way must be an ix_way");
    IX_REQUIRE(rows->type != IX_FLOAT64 || !rows->float_sums, "float_sums of float64 would lose digits");
    return with_types(*rows, [&](const auto &sums) {
        const char *const fault = distwar::key_sums_fault<sort>(sums, arrays);
        IX_REQUIRE(!fault, fault);
        return status_of(function, call(sums));
    });
}

} // namespace

const char *ix_last_error(void) {
    return last_error;
}

const char *ix_backend(void) {
    return IX_BACKEND;
}

size_t ix_rows_bytes(void) {
    return sizeof(ix_rows);
}

ix_status ix_add_bytes(const ix_rows *rows, size_t *bytes) {
    const char *const function = __func__;
    IX_REQUIRE(bytes, "bytes must be given");
    return checked(function, rows, false,
                   [&](const auto &sums) { return distwar::sums_by_key_bytes<sort>(sums, bytes); });
}

ix_status ix_add(const ix_rows *rows, ix_stream stream) {
    return checked(__func__, rows, true,
                   [&](const auto &sums) { return distwar::sums_by_key<sort>(sums, stream); });
}

ix_status ix_histogram(const ix_keys *keys, ix_stream stream) {
    const char *const function = __func__;
    IX_REQUIRE(keys, "keys must be given");
    IX_REQUIRE(keys->count >= 0 && keys->bins >= 0 && keys->bins <= INT32_MAX,
               "count or bins is out of range");
    IX_REQUIRE(keys->key_bytes == 4 || keys->key_bytes == 8, "key_bytes must be 4 or 8");
    IX_REQUIRE(keys->count == 0 || (keys->key && (keys->counts || keys->bins == 0)),
               "key and counts must be given");
    const auto count = [&](auto key) { // of its type
        distwar::key_counts<decltype(key), unsigned long long> given;
        given.count = keys->count, given.bins = keys->bins;
        given.key = static_cast<const decltype(key) *>(keys->key);
        given.counts = reinterpret_cast<unsigned long long *>(keys->counts);
        given.report = keys->report;
        return distwar::histogram(given, stream);
    };
    return status_of(function, keys->key_bytes == 8 ? count(0ll) : count(0));
}
