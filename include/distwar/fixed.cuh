// SPDX-License-Identifier: MIT
// reduce_fixed: sums that are bitwise reproducible.
//
// It rounds each value to a multiple of 1 / scale, and adds 64-bit integers in the warp and in memory, in any order.
//
// Error after n additions, if the scale is a power of two and no flag is set: |sum - exact| <= n / (2 scale), plus the
// rounding of the result to T. Another scale adds the rounding of value * scale, at most half an ulp of each product.
#ifndef DISTWAR_FIXED_CUH
#define DISTWAR_FIXED_CUH

#include "reduce.cuh"

namespace distwar {

// Bits of the flag word.
enum fixed_flag : unsigned {
    fixed_nan = 1,      // a value was NaN; 0 was added in its place
    fixed_saturated = 2 // a value was too large for its scale; the largest one was added in its place
};

// How K values become integers. A value is limited to 2^(63 - Log2Adds) units, so a sum of fewer than 2^Log2Adds values
// cannot overflow. At the default of 24: values up to 2^39 = 5.5e11 units, sums of up to 16 million values.
template <int K, typename T = float, int Log2Adds = 24>
struct fixed_format {
    static_assert(Log2Adds >= 6 && Log2Adds <= 62, "distwar: fixed_format counts 2^6 to 2^62 adds");
    T scale[K];     // units per 1.0, > 0; a power of two is exact
    unsigned *flag; // one word in memory of this GPU, set at device scope whatever the scope of the sink; the
                    // calls set bits of fixed_flag in it and clear none
};

namespace detail {

// The operations of IEEE 754, with subnormal numbers: --use_fast_math and -ffast-math do not change them.
#if DISTWAR_PTX
#define DISTWAR_EXACT(name, type, instruction, letter)                                                       \
    DISTWAR_DEVICE type name(type a, type b) {                                                               \
        type result;                                                                                         \
        asm(instruction " %0, %1, %2;" : "=" letter(result) : letter(a), letter(b));                         \
        return result;                                                                                       \
    }
DISTWAR_EXACT(exact_product, float, "mul.rn.f32", "f")
DISTWAR_EXACT(exact_product, double, "mul.rn.f64", "d")
DISTWAR_EXACT(exact_quotient, float, "div.rn.f32", "f")
DISTWAR_EXACT(exact_quotient, double, "div.rn.f64", "d")
#undef DISTWAR_EXACT
#else
template <typename T>
T exact_product(T a, T b) {
    return a * b;
}
template <typename T>
T exact_quotient(T a, T b) {
    const volatile T divisor = b; // else -ffast-math multiplies by a reciprocal
    return a / divisor;
}
#endif

} // namespace detail

// The value in units of 1/scale, rounded to nearest even. Sets bits of fixed_flag in `flags` if needed.
template <int Log2Adds = 24, typename T>
DISTWAR_DEVICE long long to_fixed(T value, T scale, unsigned &flags) {
    constexpr long long largest = 1ll << (63 - Log2Adds);
    const T units = detail::exact_product(value, scale);
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ // -ffast-math: the comparisons below ignore NaN
    if (detail::has_nan_bits(units)) {
        flags |= fixed_nan;
        return 0;
    }
#endif
    if (units >= -T(largest) && units <= T(largest)) {
        if constexpr (detail::is_same<T, float>)
            return __float2ll_rn(units);
        else
            return __double2ll_rn(units);
    }
    flags |= units == units ? fixed_saturated : fixed_nan;
    return units > 0 ? largest : units < 0 ? -largest : 0;
}

// The sum in the type of the scale. Rounded to nearest even by the conversion, and by the division if the scale is no
// power of two.
template <typename T>
DISTWAR_DEVICE T fixed_to_float(long long sum, T scale) {
    if constexpr (detail::is_same<T, float>)
        return detail::exact_quotient(__ll2float_rn(sum), scale);
    else
        return detail::exact_quotient(__ll2double_rn(sum), scale);
}

// reduce_tree of values in units of 1 / scale[k], into a sink of an integer of 8 bytes; `format` is the same in all lanes.
// Cost: the conversions, reduce_tree on 8-byte values, and one atomic by each lane that sets a flag.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::fixed_format<1> format = {{0x1p20f}, flag};
//     const float val[1] = {0.5f * float(lane)};
//     distwar::reduce_fixed(distwar::all_lanes, true, lane / 16, val, distwar::record<long long>{sums, 1},
//                           format);
//     __syncthreads();
//     if (lane < 2) result[lane] = distwar::fixed_to_float(sums[lane], format.scale[0]);
//     // sums: 62914560, 197132288; result: 60, 188
template <int K, typename T, int Log2Adds, typename Key, typename Sink>
DISTWAR_DEVICE void reduce_fixed(detail::lane_mask lanes, bool active, Key key, const T (&val)[K],
                                 const Sink &sink, const fixed_format<K, T, Log2Adds> &format,
                                 int balance_threshold = 0) {
    static_assert(detail::is_same<T, float> || detail::is_same<T, double>,
                  "distwar: reduce_fixed takes float or double");
    unsigned flags = 0;
    long long units[K] = {};
    if (active) {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) units[k] = distwar::to_fixed<Log2Adds>(val[k], format.scale[k], flags);
        if (flags != 0) atomicOr(format.flag, flags);
    }
    distwar::reduce_tree(lanes, active, key, units, sink, balance_threshold);
}

} // namespace distwar

#endif
