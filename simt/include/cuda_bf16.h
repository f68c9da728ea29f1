// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: the part that kernels use most.
#ifndef SIMT_CUDA_BF16_H
#define SIMT_CUDA_BF16_H

#include "simt/small_floats.h"

SIMT_SMALL_FLOAT(__nv_bfloat16, __nv_bfloat162, bfloat16_bits, bfloat16_value)

inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    return __nv_bfloat16(x);
}
inline __nv_bfloat16 __float2bfloat16(float x) {
    return __nv_bfloat16(x);
}
inline float __bfloat162float(__nv_bfloat16 x) {
    return float(x);
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 x) {
    return {__nv_bfloat16(x.x), __nv_bfloat16(x.y)};
}
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) {
    return {x, x};
}
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
    return {x, y};
}
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 x) {
    return x.x;
}
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 x) {
    return x.y;
}
inline float2 __bfloat1622float2(__nv_bfloat162 x) {
    return {float(x.x), float(x.y)};
}

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#endif
