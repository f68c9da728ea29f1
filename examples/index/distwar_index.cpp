// SPDX-License-Identifier: MIT
// Checks the arguments of ix_add and chooses a way.
#include "ways.h"

#include <stdarg.h>
#include <stdio.h>

namespace {

thread_local char last_error[512];

__attribute__((format(printf, 2, 3))) ix_status fail(ix_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

ix_status status_of(const char *function, cudaError_t error) {
    return error == cudaSuccess ? IX_OK
                                : fail(IX_DEVICE_ERROR, "%s: %s", function, cudaGetErrorString(error));
}

int64_t value_bytes(ix_type type) {
    return type == IX_FLOAT32 ? 4 : 2;
}

bool is_aligned(const void *address, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(address) % uint64_t(bytes) == 0;
}

#define IX_REQUIRE(condition, text)                                                                          \
    do {                                                                                                     \
        if (!(condition)) return fail(IX_INVALID_ARGUMENT, "%s: %s", function, text);                        \
    } while (0)

ix_status check(const char *function, const ix_rows *rows) {
    IX_REQUIRE(rows, "rows must be given");
    IX_REQUIRE(rows->count >= 0 && rows->rows >= 0, "count and rows must not be negative");
    IX_REQUIRE(rows->width >= 1 && rows->width <= INT32_MAX, "width must be in 1..2^31 - 1");
    const int64_t most = INT64_MAX / 64 / rows->width;
    IX_REQUIRE(rows->count <= most && rows->rows <= most, "count or rows times width is too large");
    IX_REQUIRE(rows->index_bytes == 4 || rows->index_bytes == 8, "index_bytes must be 4 or 8");
    IX_REQUIRE(unsigned(rows->type) < IX_TYPES, "type must be an ix_type");
    IX_REQUIRE(unsigned(rows->way) < IX_WAYS, "way must be an ix_way");
    IX_REQUIRE(!rows->float_sums || rows->type == IX_FLOAT32 ||
                   !(rows->deterministic || rows->way == IX_FIXED || rows->way == IX_SORTED_FIXED),
               "float_sums of 16-bit rows are not deterministic");
    const bool sorts = rows->way == IX_SORTED || rows->way == IX_SORTED_FIXED;
    IX_REQUIRE(!sorts || (rows->count < INT32_MAX && rows->rows < INT32_MAX),
               "rows are sorted if there are fewer than 2^31 - 1");
    return IX_OK;
}

ix_way chosen_way(const ix_rows &rows) {
    if (rows.way != IX_CHOSEN) return rows.way;
    const bool may_sort = rows.count < INT32_MAX && rows.rows < INT32_MAX;
    const int64_t bytes = rows.width * value_bytes(rows.type);
    if (rows.deterministic) { // sums of 8 bytes, or a sort
        const bool fixed = rows.width <= 8 || (rows.width <= 16 && rows.rows <= rows.count / 8);
        return may_sort && (!fixed || rows.rows > 4 * rows.count) ? IX_SORTED_FIXED : IX_FIXED;
    }
    // A sort costs about as much as reading rows of 256 bytes.
    if (may_sort && ((bytes >= 512 && rows.count >= 400000) || (bytes >= 256 && rows.count >= 4000000)))
        return IX_SORTED;
    return IX_ADAPTIVE;
}

} // namespace

const char *ix_last_error(void) {
    return last_error;
}

const char *ix_backend(void) {
    return IX_BACKEND;
}

ix_status ix_add_bytes(const ix_rows *rows, size_t *bytes) {
    const char *const function = __func__;
    const ix_status status = check(function, rows);
    if (status != IX_OK) return status;
    IX_REQUIRE(bytes, "bytes must be given");
    return status_of(function, ix_way_bytes(*rows, chosen_way(*rows), bytes));
}

ix_status ix_add(const ix_rows *rows, ix_stream stream) {
    const char *const function = __func__;
    const ix_status status = check(function, rows);
    if (status != IX_OK) return status;
    if (rows->count == 0) return IX_OK;
    IX_REQUIRE(rows->index && rows->source, "index and source must be given");
    IX_REQUIRE(rows->out || rows->rows == 0, "out must be given");
    const int64_t value = value_bytes(rows->type), row = value * rows->width;
    const int64_t out_value = rows->float_sums ? 4 : value;
    IX_REQUIRE(is_aligned(rows->index, rows->index_bytes) && is_aligned(rows->source, value) &&
                   is_aligned(rows->out, out_value),
               "index, source and out must be aligned to their types");
    ix_plan plan = {chosen_way(*rows), int(value), 0, 0};
    const int sizes[] = {4, 8, 16};
    for (const int bytes : sizes)
        if (row % bytes == 0 && is_aligned(rows->source, bytes) &&
            is_aligned(rows->out, bytes * out_value / value < 16 ? bytes * out_value / value : 16))
            plan.vector_bytes = bytes;
    cudaError_t error = ix_way_bytes(*rows, plan.way, &plan.bytes);
    if (error == cudaSuccess && plan.bytes > 0 && (!rows->workspace || rows->workspace_bytes < plan.bytes))
        return fail(IX_INVALID_ARGUMENT, "%s: the workspace is NULL or smaller than %zu bytes", function,
                    plan.bytes);
    IX_REQUIRE(is_aligned(rows->workspace, 256), "the workspace must be aligned to 256 bytes");
    int device;
    if (error == cudaSuccess) error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&plan.multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (error != cudaSuccess) return status_of(function, error);
    const auto add = rows->type == IX_FLOAT32   ? ix_add_float32
                     : rows->type == IX_FLOAT16 ? ix_add_float16
                                                : ix_add_bfloat16;
    return status_of(function, add(*rows, plan, stream));
}
