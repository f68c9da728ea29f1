// SPDX-License-Identifier: MIT
// CUDA's half and bfloat16: 16 bits in memory, arithmetic in float, rounded to nearest even. This rounds a
// sum or product correctly, because float has more than twice their digits.
#pragma once

#include "../cuda_runtime.h"

namespace simt {

inline std::uint16_t half_bits(float x) {
    const std::uint32_t bits = bit_cast<std::uint32_t>(x), size = bits & 0x7fffffff;
    const std::uint32_t sign = bits >> 16 & 0x8000;
    if (size > 0x7f800000) return 0x7fff;                        // NaN
    if (size >= 0x477ff000) return std::uint16_t(sign | 0x7c00); // 65520 and more round to infinity
    if (size < 0x38800000)                                       // subnormal: multiples of 2^-24
        return std::uint16_t(sign | std::uint32_t(std::nearbyint(bit_cast<float>(size) * 0x1p24f)));
    return std::uint16_t(sign | (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13);
}
inline float half_value(std::uint16_t bits) {
    const std::uint32_t sign = std::uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
                        fraction = bits & 0x3ff;
    if (exponent == 0) return bit_cast<float>(sign | bit_cast<std::uint32_t>(float(fraction) * 0x1p-24f));
    return bit_cast<float>(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

inline std::uint16_t bfloat16_bits(float x) {
    const std::uint32_t bits = bit_cast<std::uint32_t>(x);
    if (!(x == x)) return 0x7fff;
    return std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float bfloat16_value(std::uint16_t bits) {
    return bit_cast<float>(std::uint32_t(bits) << 16);
}

// x as a float that rounds to the same T as x itself: where x is not a float, the last bit is odd, so that no
// tie appears.
inline float round_to_odd(double x) {
    float nearest = float(x);
    if (double(nearest) == x || !std::isfinite(nearest)) return nearest;
    if (std::fabs(double(nearest)) > std::fabs(x)) nearest = std::nextafter(nearest, 0.0f);
    return bit_cast<float>(bit_cast<std::uint32_t>(nearest) | 1);
}

} // namespace simt

#define SIMT_SMALL_ARITHMETIC(T, T2, op, name)                                                               \
    SIMT_OF_TWO(T, operator op, T(float(x) op float(y)))                                                     \
    SIMT_OF_TWO(T, __h##name, x op y)                                                                        \
    SIMT_OF_TWO(T2, operator op, (T2{x.x op y.x, x.y op y.y}))                                               \
    inline T &operator op##=(T &a, T b) {                                                                    \
        return a = a op b;                                                                                   \
    }
#define SIMT_SMALL_COMPARISON(T, op) SIMT_FUNCTION(bool, operator op, (T x, T y), float(x) op float(y))
// Conversions, whose names hold the type's: half or bfloat16, and the pair's.
#define SIMT_SMALL_CONVERSIONS(T, T2, name, name2)                                                           \
    SIMT_OF_ONE(T, __float2##name##_rn, float, T(x))                                                         \
    SIMT_OF_ONE(T, __float2##name, float, T(x))                                                              \
    SIMT_OF_ONE(float, __##name##2float, T, float(x))                                                        \
    SIMT_OF_ONE(T, __low2##name, T2, x.x)                                                                    \
    SIMT_OF_ONE(T, __high2##name, T2, x.y)                                                                   \
    SIMT_FUNCTION(T2, __floats2##name2##_rn, (float x, float y), (T2{T(x), T(y)}))                           \
    SIMT_OF_ONE(T2, __float22##name2##_rn, float2, (T2{T(x.x), T(x.y)}))                                     \
    SIMT_OF_ONE(T2, __##name##2##name2, T, (T2{x, x}))                                                       \
    SIMT_FUNCTION(T2, __halves2##name2, (T x, T y), (T2{x, y}))                                              \
    SIMT_OF_ONE(float2, __##name2##2float2, T2, (float2{float(x.x), float(x.y)}))
// Defines the type, the pair of two, and the functions that have the same name in both headers.
#define SIMT_SMALL_FLOAT(T, T2, bits_of, value_of)                                                           \
    struct T {                                                                                               \
        std::uint16_t bits;                                                                                  \
        T() = default;                                                                                       \
        T(float x) : bits(simt::bits_of(x)) {}                                                               \
        template <typename Number, typename = std::enable_if_t<std::is_arithmetic<Number>::value>>           \
        T(Number x) : T(simt::round_to_odd(double(x))) {}                                                    \
        operator float() const { return simt::value_of(bits); }                                              \
    };                                                                                                       \
    struct alignas(4) T2 {                                                                                   \
        T x, y;                                                                                              \
    };                                                                                                       \
    SIMT_SMALL_ARITHMETIC(T, T2, +, add)                                                                     \
    SIMT_SMALL_ARITHMETIC(T, T2, -, sub)                                                                     \
    SIMT_SMALL_ARITHMETIC(T, T2, *, mul)                                                                     \
    SIMT_SMALL_ARITHMETIC(T, T2, /, div)                                                                     \
    SIMT_SMALL_COMPARISON(T, ==)                                                                             \
    SIMT_SMALL_COMPARISON(T, !=)                                                                             \
    SIMT_SMALL_COMPARISON(T, <)                                                                              \
    SIMT_SMALL_COMPARISON(T, >)                                                                              \
    SIMT_SMALL_COMPARISON(T, <=)                                                                             \
    SIMT_SMALL_COMPARISON(T, >=)                                                                             \
    SIMT_OF_ONE(T, operator-, T, T(-float(x)))                                                               \
    SIMT_OF_TWO(T, __hmin, T(std::fmin(float(x), float(y))))                                                 \
    SIMT_OF_TWO(T, __hmax, T(std::fmax(float(x), float(y))))                                                 \
    SIMT_OF_ONE(T, __habs, T, T(std::fabs(float(x))))                                                        \
    SIMT_OF_ONE(bool, __hisnan, T, float(x) != float(x))                                                     \
    /* exact in double but for sums of far apart sizes */                                                    \
    SIMT_OF_THREE(T, __hfma, T(double(float(x)) * float(y) + float(z)))                                      \
    SIMT_OF_TWO(T2, __hadd2, x + y)                                                                          \
    SIMT_OF_TWO(T2, __hsub2, x - y)                                                                          \
    SIMT_OF_TWO(T2, __hmul2, x *y)                                                                           \
    SIMT_OF_THREE(T2, __hfma2, (T2{__hfma(x.x, y.x, z.x), __hfma(x.y, y.y, z.y)}))                           \
    SIMT_OF_ONE(float, __low2float, T2, float(x.x))                                                          \
    SIMT_OF_ONE(float, __high2float, T2, float(x.y))                                                         \
    SIMT_SHUFFLES(T)                                                                                         \
    SIMT_SHUFFLES(T2)                                                                                        \
    inline T atomicAdd(T *address, T value, SIMT_HERE) {                                                     \
        return simt::update(address, place, [value](T old) -> T { return old + value; });                    \
    }                                                                                                        \
    inline T2 atomicAdd(T2 *address, T2 value, SIMT_HERE) {                                                  \
        return simt::add_each<2>(address, &T2::x, value, place);                                             \
    }
