// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: the part that this project uses.
#ifndef SIMT_CUDA_FP16_H
#define SIMT_CUDA_FP16_H

#include "simt/small_floats.h"

SIMT_SMALL_FLOAT(__half, __half2, half_bits, half_value)
using half = __half;
using half2 = __half2;

inline __half __float2half_rn(float x) {
    return __half(x);
}
inline float __half2float(__half x) {
    return float(x);
}
inline __half2 __floats2half2_rn(float x, float y) {
    return {__half(x), __half(y)};
}
inline float2 __half22float2(__half2 x) {
    return {float(x.x), float(x.y)};
}

#endif
