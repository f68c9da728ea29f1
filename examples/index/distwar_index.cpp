// SPDX-License-Identifier: MIT
// The C calls: sums_by_key and histogram of the library by type.
#include "types.h"

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

#define IX_REQUIRE(condition, text)                                                                          \
    do {                                                                                                     \
        if (!(condition)) return fail(IX_INVALID_ARGUMENT, "%s: %s", function, text);                        \
    } while (0)

// *calls = those of the types.
ix_status check(const char *function, const ix_rows *rows, bool arrays, const ix_calls **calls) {
    IX_REQUIRE(rows, "rows must be given");
    IX_REQUIRE(rows->index_bytes == 4 || rows->index_bytes == 8, "index_bytes must be 4 or 8");
    IX_REQUIRE(unsigned(rows->type) < IX_TYPES, "type must be an ix_type");
    IX_REQUIRE(unsigned(rows->way) < IX_WAYS, "way must be an ix_way");
    IX_REQUIRE(rows->type != IX_FLOAT64 || !rows->float_sums, "float_sums of float64 would lose digits");
    const auto of = rows->type == IX_FLOAT32    ? ix_float32
                    : rows->type == IX_FLOAT16  ? ix_float16
                    : rows->type == IX_BFLOAT16 ? ix_bfloat16
                                                : ix_float64;
    *calls = of(*rows);
    const char *const fault = (*calls)->fault(*rows, arrays);
    IX_REQUIRE(!fault, fault);
    return IX_OK;
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
    const ix_calls *calls = nullptr;
    const ix_status status = check(function, rows, false, &calls);
    if (status != IX_OK) return status;
    IX_REQUIRE(bytes, "bytes must be given");
    return status_of(function, calls->bytes(*rows, bytes));
}

ix_status ix_add(const ix_rows *rows, ix_stream stream) {
    const char *const function = __func__;
    const ix_calls *calls = nullptr;
    const ix_status status = check(function, rows, true, &calls);
    return status == IX_OK ? status_of(function, calls->add(*rows, stream)) : status;
}

ix_status ix_reduce(const ix_rows *rows, ix_operation operation, ix_stream stream) {
    const char *const function = __func__;
    IX_REQUIRE(rows, "rows must be given");
    IX_REQUIRE(unsigned(operation) < IX_OPERATIONS, "operation must be an ix_operation");
    ix_rows plain = *rows; // the checks of a way without a workspace
    plain.way = IX_ATOMIC, plain.float_sums = 0, plain.bound = 0;
    const ix_calls *calls;
    const ix_status status = check(function, &plain, true, &calls);
    IX_REQUIRE(status != IX_OK || rows->count <= (int64_t(1) << 38) / rows->width,
               "count times width is too large");
    return status == IX_OK ? status_of(function, ix_reduce_rows(plain, operation, stream)) : status;
}

ix_status ix_histogram(const ix_keys *keys, ix_stream stream) {
    const char *const function = __func__;
    IX_REQUIRE(keys, "keys must be given");
    IX_REQUIRE(keys->count >= 0 && keys->bins >= 0 && keys->bins <= INT32_MAX,
               "count or bins is out of range");
    IX_REQUIRE(keys->key_bytes == 4 || keys->key_bytes == 8, "key_bytes must be 4 or 8");
    IX_REQUIRE(keys->count == 0 || (keys->key && (keys->counts || keys->bins == 0)),
               "key and counts must be given");
    return status_of(function, ix_count(*keys, stream));
}
