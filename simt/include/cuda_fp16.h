// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: the part that kernels use most.
#pragma once

#include "simt/small_floats.h"

SIMT_SMALL_FLOAT(__half, __half2, half_bits, half_value)
SIMT_SMALL_CONVERSIONS(__half, __half2, half, half2)
using half = __half;
using half2 = __half2;

SIMT_OF_ONE(__half, __double2half, double, __half(x))
SIMT_OF_ONE(__half, __int2half_rn, int, __half(x))
inline __half2 __float2half2_rn(float x) {
    return {__half(x), __half(x)};
}
inline __half2 make_half2(__half x, __half y) {
    return {x, y};
}
SIMT_OF_ONE(unsigned short, __half_as_ushort, __half, x.bits)
SIMT_OF_ONE(__half, __ushort_as_half, unsigned short, simt::from_bits<__half>(x))
SIMT_OF_ONE(__half, hsqrt, __half, __half(std::sqrt(float(x))))
SIMT_OF_ONE(__half, hexp, __half, __half(std::exp(float(x))))
