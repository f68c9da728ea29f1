// SPDX-License-Identifier: MIT
// The C calls: sums_by_key and histogram of the library by type; minima, maxima and products of rows by index.
#include "distwar_index.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <distwar/device/histogram.cuh>
#include <distwar/device/launch.cuh>
#include <distwar/device/sorted_sums_by_key.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <type_traits>

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

// ---- sums

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
auto with_index(const ix_rows &rows, const Call &call) {
    return rows.index_bytes == 8 ? call(sums_of<T, long long, Out>(rows)) : call(sums_of<T, int, Out>(rows));
}

// call(key_sums of the types).
template <typename Call>
auto with_types(const ix_rows &rows, const Call &call) {
    switch (rows.type) {
    case IX_FLOAT32:
        return with_index<float, float>(rows, call);
    case IX_FLOAT16:
        return rows.float_sums ? with_index<__half, float>(rows, call)
                               : with_index<__half, __half>(rows, call);
    case IX_BFLOAT16:
        return rows.float_sums ? with_index<__nv_bfloat16, float>(rows, call)
                               : with_index<__nv_bfloat16, __nv_bfloat16>(rows, call);
    default:
        return with_index<double, double>(rows, call);
    }
}

ix_status check(const char *function, const ix_rows *rows, bool arrays) {
    IX_REQUIRE(rows, "rows must be given");
    IX_REQUIRE(rows->index_bytes == 4 || rows->index_bytes == 8, "index_bytes must be 4 or 8");
    IX_REQUIRE(unsigned(rows->type) < IX_TYPES, "type must be an ix_type");
    IX_REQUIRE(unsigned(rows->way) < IX_WAYS, "way must be an ix_way");
    IX_REQUIRE(rows->type != IX_FLOAT64 || !rows->float_sums, "float_sums of float64 would lose digits");
    const char *const fault =
        with_types(*rows, [&](const auto &sums) { return distwar::key_sums_fault<sort>(sums, arrays); });
    IX_REQUIRE(!fault, fault);
    return IX_OK;
}

// ---- minima, maxima, products: a warp combines the values that meet before it updates memory

constexpr int reduce_block = 256;

// The number closer to -infinity (Least) or to infinity; -0.0 is below 0.0. NaN if either is.
template <bool Least>
struct extreme {
    template <typename T>
    __device__ T operator()(T old, T value) const {
        using number = std::conditional_t<sizeof(T) == 8, double, float>;
        const number a = number(old), b = number(value);
        if (b != b) return value;
        const bool below = b < a || (a == b && signbit(b)), above = a < b || (a == b && !signbit(b));
        return (Least ? below : above) ? value : old;
    }
    template <typename T>
    static __device__ T neutral() {
        return T(Least ? INFINITY : -INFINITY);
    }
};

// The row of entry i; -1: none, because it is left out.
__device__ int64_t row_of(const ix_rows &in, int64_t i) {
    const int64_t row = in.index_bytes == 8 ? static_cast<const int64_t *>(in.index)[i]
                                            : static_cast<const int32_t *>(in.index)[i];
    if (row == in.skipped) return -1;
    if (row >= 0 && row < in.rows) return row;
    if (in.report) *reinterpret_cast<volatile uint8_t *>(in.report) = 1;
    return -1;
}

template <typename T, typename Op>
__global__ void __launch_bounds__(reduce_block) reduce_rows(ix_rows in) {
    using number = std::conditional_t<sizeof(T) == 8, double, float>;
    const int64_t at = int64_t(blockIdx.x) * reduce_block + threadIdx.x;
    const bool inside = at < in.count * in.width;
    const int64_t i = inside ? at / in.width : 0, k = at - i * in.width;
    const int64_t row = inside ? row_of(in, i) : -1;
    const long long key = row < 0 ? 0 : row * in.width + k;
    const number value = row < 0 ? number(0) : number(static_cast<const T *>(in.source)[at]);
    distwar::reduce(distwar::all_lanes, row >= 0, key, value,
                    distwar::record<T, Op>{static_cast<T *>(in.out), 1});
}

// Multiplies the rows of each run of equal indices, in their order.
template <typename T>
__global__ void __launch_bounds__(reduce_block) multiply_runs(ix_rows in) {
    using number = std::conditional_t<sizeof(T) == 8, double, float>;
    const int64_t at = int64_t(blockIdx.x) * reduce_block + threadIdx.x;
    if (at >= in.count * in.width) return;
    const int64_t i = at / in.width, k = at - i * in.width, row = row_of(in, i);
    if (row < 0 || (i > 0 && row_of(in, i - 1) == row)) return;
    T *const out = static_cast<T *>(in.out) + row * in.width + k;
    number product = number(*out);
    for (int64_t j = i; j < in.count && row_of(in, j) == row; j++)
        product *= number(static_cast<const T *>(in.source)[j * in.width + k]);
    *out = T(product);
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
    const ix_status status = check(function, rows, false);
    if (status != IX_OK) return status;
    IX_REQUIRE(bytes, "bytes must be given");
    return status_of(function, with_types(*rows, [&](const auto &sums) {
                         return distwar::sums_by_key_bytes<sort>(sums, bytes);
                     }));
}

ix_status ix_add(const ix_rows *rows, ix_stream stream) {
    const ix_status status = check(__func__, rows, true);
    if (status != IX_OK) return status;
    return status_of(__func__, with_types(*rows, [&](const auto &sums) {
                         return distwar::sums_by_key<sort>(sums, stream);
                     }));
}

ix_status ix_reduce(const ix_rows *rows, ix_operation operation, ix_stream stream) {
    const char *const function = __func__;
    IX_REQUIRE(rows, "rows must be given");
    IX_REQUIRE(unsigned(operation) < IX_OPERATIONS, "operation must be an ix_operation");
    ix_rows plain = *rows; // the checks of a way without a workspace
    plain.way = IX_ATOMIC, plain.float_sums = 0;
    const ix_status status = check(function, &plain, true);
    if (status != IX_OK) return status;
    IX_REQUIRE(rows->count <= (int64_t(1) << 38) / rows->width, "count times width is too large");
    return status_of(function, with_types(plain, [&](const auto &sums) {
                         using T = std::decay_t<decltype(*sums.out)>;
                         const auto kernel = operation == IX_MINIMUM   ? reduce_rows<T, extreme<true>>
                                             : operation == IX_MAXIMUM ? reduce_rows<T, extreme<false>>
                                             : plain.deterministic     ? multiply_runs<T>
                                                                       : reduce_rows<T, distwar::multiply>;
                         const int64_t blocks = (plain.count * plain.width + reduce_block - 1) / reduce_block;
                         return distwar::detail::launch_kernel(stream, unsigned(blocks), reduce_block, 0,
                                                               kernel, plain);
                     }));
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
