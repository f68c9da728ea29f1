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
    inline T operator op(T x, T y) {                                                                         \
        return T(float(x) op float(y));                                                                      \
    }                                                                                                        \
    inline T __h##name(T x, T y) {                                                                           \
        return x op y;                                                                                       \
    }                                                                                                        \
    inline T2 operator op(T2 a, T2 b) {                                                                      \
        return {a.x op b.x, a.y op b.y};                                                                     \
    }                                                                                                        \
    inline T &operator op##=(T &a, T b) {                                                                    \
        return a = a op b;                                                                                   \
    }
#define SIMT_SMALL_COMPARISON(T, op)                                                                         \
    inline bool operator op(T a, T b) {                                                                      \
        return float(a) op float(b);                                                                         \
    }
// Conversions, whose names hold the type's: half or bfloat16, and the pair's.
#define SIMT_SMALL_CONVERSIONS(T, T2, name, name2)                                                           \
    inline T __float2##name##_rn(float x) {                                                                  \
        return T(x);                                                                                         \
    }                                                                                                        \
    inline T __float2##name(float x) {                                                                       \
        return T(x);                                                                                         \
    }                                                                                                        \
    inline float __##name##2float(T x) {                                                                     \
        return float(x);                                                                                     \
    }                                                                                                        \
    inline T __low2##name(T2 x) {                                                                            \
        return x.x;                                                                                          \
    }                                                                                                        \
    inline T __high2##name(T2 x) {                                                                           \
        return x.y;                                                                                          \
    }                                                                                                        \
    inline T2 __floats2##name2##_rn(float x, float y) {                                                      \
        return {T(x), T(y)};                                                                                 \
    }                                                                                                        \
    inline T2 __float22##name2##_rn(float2 x) {                                                              \
        return {T(x.x), T(x.y)};                                                                             \
    }                                                                                                        \
    inline T2 __##name##2##name2(T x) {                                                                      \
        return {x, x};                                                                                       \
    }                                                                                                        \
    inline T2 __halves2##name2(T x, T y) {                                                                   \
        return {x, y};                                                                                       \
    }                                                                                                        \
    inline float2 __##name2##2float2(T2 x) {                                                                 \
        return {float(x.x), float(x.y)};                                                                     \
    }
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
    inline T operator-(T x) {                                                                                \
        return T(-float(x));                                                                                 \
    }                                                                                                        \
    inline T __hmin(T x, T y) {                                                                              \
        return T(std::fmin(float(x), float(y)));                                                             \
    }                                                                                                        \
    inline T __hmax(T x, T y) {                                                                              \
        return T(std::fmax(float(x), float(y)));                                                             \
    }                                                                                                        \
    inline T __habs(T x) {                                                                                   \
        return T(std::fabs(float(x)));                                                                       \
    }                                                                                                        \
    inline bool __hisnan(T x) {                                                                              \
        return float(x) != float(x);                                                                         \
    }                                                                                                        \
    /* exact in double but for sums of far apart sizes */                                                    \
    inline T __hfma(T a, T b, T c) {                                                                         \
        return T(double(float(a)) * float(b) + float(c));                                                    \
    }                                                                                                        \
    inline T2 __hadd2(T2 x, T2 y) {                                                                          \
        return x + y;                                                                                        \
    }                                                                                                        \
    inline T2 __hsub2(T2 x, T2 y) {                                                                          \
        return x - y;                                                                                        \
    }                                                                                                        \
    inline T2 __hmul2(T2 x, T2 y) {                                                                          \
        return x * y;                                                                                        \
    }                                                                                                        \
    inline T2 __hfma2(T2 a, T2 b, T2 c) {                                                                    \
        return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                               \
    }                                                                                                        \
    inline float __low2float(T2 x) {                                                                         \
        return float(x.x);                                                                                   \
    }                                                                                                        \
    inline float __high2float(T2 x) {                                                                        \
        return float(x.y);                                                                                   \
    }                                                                                                        \
    SIMT_SHUFFLES(T)                                                                                         \
    SIMT_SHUFFLES(T2)                                                                                        \
    inline T atomicAdd(T *address, T value, SIMT_HERE) {                                                     \
        return simt::update(address, place, [value](T old) -> T { return old + value; });                    \
    }                                                                                                        \
    inline T2 atomicAdd(T2 *address, T2 value, SIMT_HERE) {                                                  \
        return simt::add_each<2>(address, &T2::x, value, place);                                             \
    }
