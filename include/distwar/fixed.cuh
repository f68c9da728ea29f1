// SPDX-License-Identifier: MIT
// reduce_fixed: sums that are the same to the last bit in every run.
//
// Sums of floats depend on the order of the additions, and atomics come in any order. Here each value becomes
// a 64-bit integer, a multiple of 1/scale, and integers are added: in the warp and in memory, with the same
// result in any order.
//
//     long long *sums; // [primitives][12], zeroed, as is *flag
//     const distwar::fixed_format<9> format = {{0x1p20f, ...}, flag};
//     distwar::reduce_fixed(lanes, active, key, val, distwar::record<long long>{sums, 12}, format);
//     ... later, or by the kernel fixed_convert:
//     float sum = distwar::fixed_to_float(sums[12 * i + k], format.scale[k]);
//
// Error: with n adds and no flag raised, |fixed_to_float(sum) - exact| <= n / (2 scale), and then its own
// rounding to T. That holds if the scale is a power of two; any other adds the rounding of value * scale, at
// most half an ulp of each.
#ifndef DISTWAR_FIXED_CUH
#define DISTWAR_FIXED_CUH

#include "tree.cuh"

namespace distwar {

// Bits of the flag word.
enum fixed_flag : unsigned {
    fixed_nan = 1,      // a NaN was given; it was counted as 0
    fixed_saturated = 2 // a value was too large for its scale; the largest was counted in its place
};

// How K values become integers. Fewer than 2^Log2Adds adds to one sum cannot overflow it, because no value
// counts for more than 2^(63 - Log2Adds) units: at the default 2^39, 5.5e11, and 16 million adds.
template <int K, typename T = float, int Log2Adds = 24>
struct fixed_format {
    static_assert(Log2Adds >= 6 && Log2Adds <= 62, "distwar: fixed_format counts 2^6 to 2^62 adds");
    T scale[K];     // units per 1.0, > 0; powers of two are exact
    unsigned *flag; // one word in device memory; bits of fixed_flag are set in it, never cleared
};

// The value in units of 1/scale, rounded to nearest even; may set bits in `flags`, a register.
template <int Log2Adds = 24, typename T>
__device__ __forceinline__ long long to_fixed(T value, T scale, unsigned &flags) {
    constexpr long long largest = 1ll << (63 - Log2Adds);
    const T units = value * scale;
    if (units >= -T(largest) && units <= T(largest)) {
        if constexpr (detail::is_same<T, float>)
            return __float2ll_rn(units);
        else
            return __double2ll_rn(units);
    }
    flags |= units == units ? fixed_saturated : fixed_nan;
    return units > 0 ? largest : units < 0 ? -largest : 0;
}

// The sum as a float or double, by the type of the scale; rounded to nearest even twice, which is once if the
// scale is a power of two.
template <typename T>
__device__ __forceinline__ T fixed_to_float(long long sum, T scale) {
    if constexpr (detail::is_same<T, float>)
        return __ll2float_rn(sum) / scale;
    else
        return __ll2double_rn(sum) / scale;
}

// For any keys and any `lanes`; the contract is in reduce.cuh, with these differences: the sink is one of
// `long long`, and what is added to it are the values in units of 1/scale[k]. `format` is the same in all
// lanes. Cost: that of reduce_tree on 8-byte values; the conversions; one atomic by each lane that raises a
// flag.
template <int K, typename T, int Log2Adds, typename Key, typename Sink>
__device__ __forceinline__ void reduce_fixed(unsigned lanes, bool active, Key key, const T (&val)[K],
                                             const Sink &sink, const fixed_format<K, T, Log2Adds> &format,
                                             int balance_threshold = 0) {
    static_assert(detail::is_same<T, float> || detail::is_same<T, double>,
                  "distwar: reduce_fixed takes float or double");
    long long units[K] = {};
    if (active) {
        unsigned flags = 0;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) units[k] = to_fixed<Log2Adds>(val[k], format.scale[k], flags);
        if (flags != 0) atomicOr(format.flag, flags);
    }
    reduce_tree(lanes, active, key, units, sink, balance_threshold);
}

// Kernels to launch, with any one-dimensional grid.

// Zeroes `count` sums and the flag.
template <typename Sum>
__global__ void fixed_clear(Sum *sums, size_t count, unsigned *flag) {
    const size_t first = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (size_t i = first; i < count; i += size_t(gridDim.x) * blockDim.x) sums[i] = 0;
    if (first == 0) *flag = 0;
}

// result[i * result_stride + k] = sums[i * stride + k] as T, for i < keys and k < K.
template <int K, typename T, int Log2Adds>
__global__ void fixed_convert(const long long *sums, size_t stride, size_t keys,
                              fixed_format<K, T, Log2Adds> format, T *result, size_t result_stride) {
    const size_t first = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (size_t i = first; i < keys; i += size_t(gridDim.x) * blockDim.x) {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k)
            result[i * result_stride + k] = fixed_to_float(sums[i * stride + k], format.scale[k]);
    }
}

} // namespace distwar

#endif
