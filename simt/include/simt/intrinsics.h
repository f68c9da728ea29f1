// SPDX-License-Identifier: MIT
// CUDA's arithmetic intrinsics. The _rn forms round once and are never fused with another operation: the simt
// target compiles kernels with -ffp-contract=off. The fast forms (__expf, ...) are the exact functions here.
#ifndef SIMT_INTRINSICS_H
#define SIMT_INTRINSICS_H

#include <cassert>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
// for the names in the global namespace
#include <math.h>

// ---- bits

inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
inline int __clz(int x) {
    return x ? __builtin_clz(unsigned(x)) : 32;
}
inline int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}

inline int __mulhi(int x, int y) {
    return int((long long)x * y >> 32);
}
inline unsigned __umulhi(unsigned x, unsigned y) {
    return unsigned((unsigned long long)x * y >> 32);
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    __extension__ typedef unsigned __int128 Wide;
    return (unsigned long long)(Wide(x) * y >> 64);
}
inline int __mul24(int x, int y) { // of the low 24 bits
    return int(unsigned(int(unsigned(x) << 8) >> 8) * unsigned(int(unsigned(y) << 8) >> 8));
}
inline unsigned __umul24(unsigned x, unsigned y) {
    return (x & 0xffffff) * (y & 0xffffff);
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
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
} // namespace simt

inline unsigned __float_as_uint(float x) {
    return simt::bit_cast<unsigned>(x);
}
inline int __float_as_int(float x) {
    return simt::bit_cast<int>(x);
}
inline float __uint_as_float(unsigned x) {
    return simt::bit_cast<float>(x);
}
inline float __int_as_float(int x) {
    return simt::bit_cast<float>(x);
}
inline long long __double_as_longlong(double x) {
    return simt::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
    return simt::bit_cast<double>(x);
}

// ---- arithmetic

inline float __fadd_rn(float x, float y) {
    return x + y;
}
inline float __fsub_rn(float x, float y) {
    return x - y;
}
inline float __fmul_rn(float x, float y) {
    return x * y;
}
inline float __fdiv_rn(float x, float y) {
    return x / y;
}
inline float __fmaf_rn(float x, float y, float z) {
    return std::fma(x, y, z);
}
inline float __frcp_rn(float x) {
    return 1 / x;
}
inline float __fsqrt_rn(float x) {
    return std::sqrt(x);
}
inline double __dadd_rn(double x, double y) {
    return x + y;
}
inline double __dsub_rn(double x, double y) {
    return x - y;
}
inline double __dmul_rn(double x, double y) {
    return x * y;
}
inline double __fma_rn(double x, double y, double z) {
    return std::fma(x, y, z);
}
inline float __fdividef(float x, float y) {
    return x / y;
}
inline float fdividef(float x, float y) {
    return x / y;
}
inline float __saturatef(float x) {
    return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
} // NaN gives 0
inline float rsqrtf(float x) {
    return 1 / std::sqrt(x);
}
inline double rsqrt(double x) {
    return 1 / std::sqrt(x);
}

inline float __frsqrt_rn(float x) {
    return float(1 / std::sqrt(double(x)));
}
inline double __ddiv_rn(double x, double y) {
    return x / y;
}
inline double __dsqrt_rn(double x) {
    return std::sqrt(x);
}
inline float norm3df(float x, float y, float z) {
    return float(std::sqrt(double(x) * x + double(y) * y + double(z) * z));
}
inline float rnorm3df(float x, float y, float z) {
    return float(1 / std::sqrt(double(x) * x + double(y) * y + double(z) * z));
}
inline float normcdff(float x) {
    return float(0.5 * std::erfc(-double(x) * 0.70710678118654752440));
}
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
inline int to_int(double x) {
    if (!(x == x)) return 0;
    return x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? -2147483647 - 1 : int(x);
}
inline unsigned to_unsigned(double x) {
    return !(x > 0) ? 0 : x >= 4294967295.0 ? 4294967295u : unsigned(x);
}
} // namespace simt

inline int __float2int_rn(float x) {
    return simt::to_int(std::nearbyint(x));
}
inline int __float2int_rz(float x) {
    return simt::to_int(std::trunc(x));
}
inline int __float2int_rd(float x) {
    return simt::to_int(std::floor(x));
}
inline int __float2int_ru(float x) {
    return simt::to_int(std::ceil(x));
}
inline unsigned __float2uint_rn(float x) {
    return simt::to_unsigned(std::nearbyint(x));
}
inline unsigned __float2uint_rz(float x) {
    return simt::to_unsigned(std::trunc(x));
}
inline unsigned __float2uint_rd(float x) {
    return simt::to_unsigned(std::floor(x));
}
inline unsigned __float2uint_ru(float x) {
    return simt::to_unsigned(std::ceil(x));
}
inline int __double2int_rn(double x) {
    return simt::to_int(std::nearbyint(x));
}
inline int __double2int_rz(double x) {
    return simt::to_int(std::trunc(x));
}
inline float __double2float_rn(double x) {
    return float(x);
}
inline long long __double2ll_rn(double x) {
    if (!(x == x)) return LLONG_MIN; // as on a GPU, where only this conversion does not give 0
    x = std::nearbyint(x);
    return x >= 0x1p63 ? LLONG_MAX : x <= -0x1p63 ? LLONG_MIN : (long long)x;
}
inline long long __float2ll_rn(float x) {
    return __double2ll_rn(double(x));
}
inline float __ll2float_rn(long long x) {
    return float(x);
}
inline double __ll2double_rn(long long x) {
    return double(x);
}
inline float __int2float_rn(int x) {
    return float(x);
}
inline float __uint2float_rn(unsigned x) {
    return float(x);
}

// ---- loads and stores with a cache hint

#define SIMT_LOAD(name)                                                                                      \
    template <typename T>                                                                                    \
    inline T name(const T *address) {                                                                        \
        return *address;                                                                                     \
    }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_LOAD(__ldcv)
#undef SIMT_LOAD
template <typename T>
inline void __stwb(T *address, T value) {
    *address = value;
}
template <typename T>
inline void __stwt(T *address, T value) {
    *address = value;
}
template <typename T>
inline void __stcg(T *address, T value) {
    *address = value;
}
template <typename T>
inline void __stcs(T *address, T value) {
    *address = value;
}

// ---- min and max

#define SIMT_MIN_MAX(T)                                                                                      \
    constexpr T min(T a, T b) {                                                                              \
        return b < a ? b : a;                                                                                \
    }                                                                                                        \
    constexpr T max(T a, T b) {                                                                              \
        return a < b ? b : a;                                                                                \
    }
SIMT_MIN_MAX(int)
SIMT_MIN_MAX(unsigned)
SIMT_MIN_MAX(long)
SIMT_MIN_MAX(unsigned long)
SIMT_MIN_MAX(long long)
SIMT_MIN_MAX(unsigned long long)
#undef SIMT_MIN_MAX
// If one operand is NaN: the other one.
#define SIMT_MIN_MAX(T)                                                                                      \
    constexpr T min(T a, T b) {                                                                              \
        return b < a || a != a ? b : a;                                                                      \
    }                                                                                                        \
    constexpr T max(T a, T b) {                                                                              \
        return a < b || a != a ? b : a;                                                                      \
    }
SIMT_MIN_MAX(float)
SIMT_MIN_MAX(double)
#undef SIMT_MIN_MAX
// CUDA's overloads for operands of two types
#define SIMT_MIN_MAX(A, B, T)                                                                                \
    constexpr T min(A a, B b) {                                                                              \
        return min(T(a), T(b));                                                                              \
    }                                                                                                        \
    constexpr T max(A a, B b) {                                                                              \
        return max(T(a), T(b));                                                                              \
    }
SIMT_MIN_MAX(int, unsigned, unsigned)
SIMT_MIN_MAX(unsigned, int, unsigned)
SIMT_MIN_MAX(float, double, double)
SIMT_MIN_MAX(double, float, double)
#undef SIMT_MIN_MAX

#endif
