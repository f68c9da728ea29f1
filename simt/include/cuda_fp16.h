// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: the part that kernels use most.
#pragma once

#include "simt/small_floats.h"

SIMT_SMALL_FLOAT(__half, __half2, half_bits, half_value)
SIMT_SMALL_CONVERSIONS(__half, __half2, half, half2)
using half = __half;
using half2 = __half2;

inline __half __double2half(double x) {
    return __half(x);
}
inline __half __int2half_rn(int x) {
    return __half(x);
}
inline __half2 __float2half2_rn(float x) {
    return {__half(x), __half(x)};
}
inline __half2 make_half2(__half x, __half y) {
    return {x, y};
}
inline unsigned short __half_as_ushort(__half x) {
    return x.bits;
}
inline __half __ushort_as_half(unsigned short bits) {
    return simt::from_bits<__half>(bits);
}
inline __half hsqrt(__half x) {
    return __half(std::sqrt(float(x)));
}
inline __half hexp(__half x) {
    return __half(std::exp(float(x)));
}
