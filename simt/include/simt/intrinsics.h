// SPDX-License-Identifier: MIT
// CUDA's arithmetic intrinsics. The _rn forms round once and are never fused with another operation: the simt
// target compiles kernels with -ffp-contract=off. The fast forms (__expf, ...) are the exact functions here.
#pragma once

#include "lanes.h"
#include <cassert>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
// for the names in the global namespace
#include <math.h>

// ---- bits

SIMT_OF_ONE(int, __popc, unsigned, __builtin_popcount(x))
SIMT_OF_ONE(int, __popcll, unsigned long long, __builtin_popcountll(x))
SIMT_OF_ONE(int, __ffs, int, __builtin_ffs(x))
SIMT_OF_ONE(int, __ffsll, long long, __builtin_ffsll(x))
SIMT_OF_ONE(int, __clz, int, x ? __builtin_clz(unsigned(x)) : 32)
SIMT_OF_ONE(int, __clzll, long long, x ? __builtin_clzll((unsigned long long)x) : 64)
inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}

SIMT_OF_TWO(int, __mulhi, int((long long)x *y >> 32))
SIMT_OF_TWO(unsigned, __umulhi, unsigned((unsigned long long)x *y >> 32))
// of the low 24 bits
SIMT_OF_TWO(int, __mul24, int(unsigned(int(unsigned(x) << 8) >> 8) * unsigned(int(unsigned(y) << 8) >> 8)))
SIMT_OF_TWO(unsigned, __umul24, (x & 0xffffff) * (y & 0xffffff))
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    __extension__ typedef unsigned __int128 Wide;
    return (unsigned long long)(Wide(x) * y >> 64);
}
// The high and the low half of high:low after a shift by shift % 32.
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return unsigned((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}
// Byte i of the result is that of y:x which bits 4i to 4i + 2 of the selector name; bit 4i + 3 spreads its
// sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned choice = selector >> 4 * i & 15;
        unsigned byte = unsigned(bytes >> 8 * (choice & 7)) & 255;
        if (choice & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}

namespace simt {
template <typename To, typename From>
To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same size");
    return from_bits<To>(to_bits(from));
}
} // namespace simt

#define SIMT_SAME_BITS(To, name, From) SIMT_OF_ONE(To, name, From, simt::bit_cast<To>(x))
SIMT_SAME_BITS(unsigned, __float_as_uint, float)
SIMT_SAME_BITS(int, __float_as_int, float)
SIMT_SAME_BITS(float, __uint_as_float, unsigned)
SIMT_SAME_BITS(float, __int_as_float, int)
SIMT_SAME_BITS(long long, __double_as_longlong, double)
SIMT_SAME_BITS(double, __longlong_as_double, long long)
#undef SIMT_SAME_BITS

// ---- arithmetic

SIMT_OF_TWO(float, __fadd_rn, x + y)
SIMT_OF_TWO(float, __fsub_rn, x - y)
SIMT_OF_TWO(float, __fmul_rn, x *y)
SIMT_OF_TWO(float, __fdiv_rn, x / y)
SIMT_OF_THREE(float, __fmaf_rn, std::fma(x, y, z))
SIMT_OF_ONE(float, __frcp_rn, float, 1 / x)
SIMT_OF_ONE(float, __fsqrt_rn, float, std::sqrt(x))
SIMT_OF_TWO(double, __dadd_rn, x + y)
SIMT_OF_TWO(double, __dsub_rn, x - y)
SIMT_OF_TWO(double, __dmul_rn, x *y)
SIMT_OF_THREE(double, __fma_rn, std::fma(x, y, z))
SIMT_OF_TWO(float, __fdividef, x / y)
SIMT_OF_TWO(float, fdividef, x / y)
SIMT_OF_ONE(float, __saturatef, float, x > 0 ? (x < 1 ? x : 1.0f) : 0.0f) // NaN gives 0
SIMT_OF_ONE(float, rsqrtf, float, 1 / std::sqrt(x))
SIMT_OF_ONE(double, rsqrt, double, 1 / std::sqrt(x))
SIMT_OF_ONE(float, __frsqrt_rn, float, float(1 / std::sqrt(double(x))))
SIMT_OF_TWO(double, __ddiv_rn, x / y)
SIMT_OF_ONE(double, __dsqrt_rn, double, std::sqrt(x))
SIMT_OF_THREE(float, norm3df, float(std::sqrt(double(x) * x + double(y) * y + double(z) * z)))
SIMT_OF_THREE(float, rnorm3df, float(1 / std::sqrt(double(x) * x + double(y) * y + double(z) * z)))
SIMT_OF_ONE(float, normcdff, float, float(0.5 * std::erfc(-double(x) * 0.70710678118654752440)))
inline void sincospif(float x, float *sine, float *cosine) {
    *sine = float(std::sin(double(x) * 3.14159265358979323846));
    *cosine = float(std::cos(double(x) * 3.14159265358979323846));
}

// glibc declares these names for itself, so they are macros.
#define __expf(x) (std::exp(static_cast<float>(x)))
#define __exp10f(x) (::exp10f(x))
#define __logf(x) (std::log(static_cast<float>(x)))
#define __log2f(x) (std::log2(static_cast<float>(x)))
#define __log10f(x) (std::log10(static_cast<float>(x)))
#define __sinf(x) (std::sin(static_cast<float>(x)))
#define __cosf(x) (std::cos(static_cast<float>(x)))
#define __tanf(x) (std::tan(static_cast<float>(x)))
#define __sincosf(x, sine, cosine) (::sincosf(x, sine, cosine))
#define __powf(x, y) (std::pow(static_cast<float>(x), static_cast<float>(y)))

// ---- conversions: rounded as the name says; values out of range saturate, NaN gives 0, as on a GPU

namespace simt {
template <typename T>
T saturated(double x) {
    using Limits = std::numeric_limits<T>;
    if (x != x) return 0;
    return x >= double(Limits::max()) ? Limits::max() : x <= double(Limits::min()) ? Limits::min() : T(x);
}
} // namespace simt

#define SIMT_ROUNDED(Result, name)                                                                           \
    SIMT_OF_ONE(Result, name##_rn, float, simt::saturated<Result>(std::nearbyint(x)))                        \
    SIMT_OF_ONE(Result, name##_rz, float, simt::saturated<Result>(std::trunc(x)))                            \
    SIMT_OF_ONE(Result, name##_rd, float, simt::saturated<Result>(std::floor(x)))                            \
    SIMT_OF_ONE(Result, name##_ru, float, simt::saturated<Result>(std::ceil(x)))
SIMT_ROUNDED(int, __float2int)
SIMT_ROUNDED(unsigned, __float2uint)
#undef SIMT_ROUNDED
SIMT_OF_ONE(int, __double2int_rn, double, simt::saturated<int>(std::nearbyint(x)))
SIMT_OF_ONE(int, __double2int_rz, double, simt::saturated<int>(std::trunc(x)))
SIMT_OF_ONE(float, __double2float_rn, double, float(x))
inline long long __double2ll_rn(double x) {
    if (x != x) return LLONG_MIN; // as on a GPU, where only this conversion does not give 0
    return simt::saturated<long long>(std::nearbyint(x));
}
SIMT_OF_ONE(long long, __float2ll_rn, float, __double2ll_rn(double(x)))
SIMT_OF_ONE(float, __ll2float_rn, long long, float(x))
SIMT_OF_ONE(double, __ll2double_rn, long long, double(x))
SIMT_OF_ONE(float, __int2float_rn, int, float(x))
SIMT_OF_ONE(float, __uint2float_rn, unsigned, float(x))

// ---- loads and stores with a cache hint

#define SIMT_LOAD(name)                                                                                      \
    template <typename T>                                                                                    \
    T name(const T *address) {                                                                               \
        return *address;                                                                                     \
    }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_LOAD(__ldcv)
#undef SIMT_LOAD
#define SIMT_STORE(name)                                                                                     \
    template <typename T>                                                                                    \
    void name(T *address, T value) {                                                                         \
        *address = value;                                                                                    \
    }
SIMT_STORE(__stwb)
SIMT_STORE(__stwt)
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
#undef SIMT_STORE

// ---- min and max

// If one operand is NaN: the other one.
#define SIMT_MIN_MAX(T, x_is_nan)                                                                            \
    constexpr T min(T x, T y) {                                                                              \
        return y < x || x_is_nan ? y : x;                                                                    \
    }                                                                                                        \
    constexpr T max(T x, T y) {                                                                              \
        return x < y || x_is_nan ? y : x;                                                                    \
    }
SIMT_MIN_MAX(int, false)
SIMT_MIN_MAX(unsigned, false)
SIMT_MIN_MAX(long, false)
SIMT_MIN_MAX(unsigned long, false)
SIMT_MIN_MAX(long long, false)
SIMT_MIN_MAX(unsigned long long, false)
SIMT_MIN_MAX(float, x != x)
SIMT_MIN_MAX(double, x != x)
#undef SIMT_MIN_MAX
// CUDA's overloads for operands of two types
#define SIMT_MIN_MAX(A, B, T)                                                                                \
    constexpr T min(A x, B y) {                                                                              \
        return min(T(x), T(y));                                                                              \
    }                                                                                                        \
    constexpr T max(A x, B y) {                                                                              \
        return max(T(x), T(y));                                                                              \
    }
SIMT_MIN_MAX(int, unsigned, unsigned)
SIMT_MIN_MAX(unsigned, int, unsigned)
SIMT_MIN_MAX(float, double, double)
SIMT_MIN_MAX(double, float, double)
#undef SIMT_MIN_MAX
