// SPDX-License-Identifier: MIT
// CUDA's half and bfloat16: 16 bits in memory, arithmetic in float, rounded to nearest even. This rounds a
// sum or product correctly, because float has more than twice their digits.
#ifndef SIMT_SMALL_FLOATS_H
#define SIMT_SMALL_FLOATS_H

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

} // namespace simt

// Defines the type, the pair of two, and the functions that have the same name in both headers.
#define SIMT_SMALL_FLOAT(T, T2, bits_of, value_of)                                                           \
    struct T {                                                                                               \
        std::uint16_t bits;                                                                                  \
        T() = default;                                                                                       \
        T(float x) : bits(simt::bits_of(x)) {}                                                               \
        T(int x) : T(float(x)) {}                                                                            \
        operator float() const { return simt::value_of(bits); }                                              \
    };                                                                                                       \
    struct alignas(4) T2 {                                                                                   \
        T x, y;                                                                                              \
    };                                                                                                       \
    inline T operator+(T a, T b) {                                                                           \
        return T(float(a) + float(b));                                                                       \
    }                                                                                                        \
    inline T operator-(T a, T b) {                                                                           \
        return T(float(a) - float(b));                                                                       \
    }                                                                                                        \
    inline T operator*(T a, T b) {                                                                           \
        return T(float(a) * float(b));                                                                       \
    }                                                                                                        \
    inline bool operator==(T a, T b) {                                                                       \
        return float(a) == float(b);                                                                         \
    }                                                                                                        \
    inline bool operator!=(T a, T b) {                                                                       \
        return float(a) != float(b);                                                                         \
    }                                                                                                        \
    inline bool operator<(T a, T b) {                                                                        \
        return float(a) < float(b);                                                                          \
    }                                                                                                        \
    inline bool operator>(T a, T b) {                                                                        \
        return float(a) > float(b);                                                                          \
    }                                                                                                        \
    inline T __hadd(T a, T b) {                                                                              \
        return a + b;                                                                                        \
    }                                                                                                        \
    namespace simt {                                                                                         \
    template <>                                                                                              \
    struct Bits<T> {                                                                                         \
        using type = std::uint16_t;                                                                          \
    };                                                                                                       \
    }                                                                                                        \
    inline T atomicAdd(T *address, T value, SIMT_HERE) {                                                     \
        return simt::update(address, place, [value](T old) -> T { return old + value; });                    \
    }                                                                                                        \
    inline T2 atomicAdd(T2 *address, T2 value, SIMT_HERE) {                                                  \
        return simt::add_each<2>(address, &T2::x, value, place);                                             \
    }

#endif
