// SPDX-License-Identifier: MIT
// ix_reduce: minima, maxima and products of rows by index. A warp combines the values that meet before it updates memory.
#include "types.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <distwar/half.cuh>
#include <distwar/device/launch.cuh>
#include <distwar/reduce.cuh>
#include <math.h>
#include <type_traits>

namespace {

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

template <typename T>
cudaError_t reduce(const ix_rows &rows, ix_operation operation, cudaStream_t stream) {
    const int64_t blocks = (rows.count * rows.width + reduce_block - 1) / reduce_block;
    const auto kernel = operation == IX_MINIMUM   ? reduce_rows<T, extreme<true>>
                        : operation == IX_MAXIMUM ? reduce_rows<T, extreme<false>>
                        : rows.deterministic      ? multiply_runs<T>
                                                  : reduce_rows<T, distwar::multiply>;
    if (blocks == 0) return cudaSuccess;
    return distwar::detail::launch_kernel(stream, unsigned(blocks), reduce_block, 0, kernel, rows);
}

} // namespace

cudaError_t ix_reduce_rows(const ix_rows &rows, ix_operation operation, cudaStream_t stream) {
    switch (rows.type) {
    case IX_FLOAT32:
        return reduce<float>(rows, operation, stream);
    case IX_FLOAT16:
        return reduce<__half>(rows, operation, stream);
    case IX_BFLOAT16:
        return reduce<__nv_bfloat16>(rows, operation, stream);
    default:
        return reduce<double>(rows, operation, stream);
    }
}
