// SPDX-License-Identifier: MIT
// Operators on float3, as code bases bring them: only for nvcc, which has min, max and rsqrtf in device code.
#ifndef VECTOR_MATH_H
#define VECTOR_MATH_H

#ifdef __CUDACC__
#define DEVICE_INLINE __host__ __device__ __forceinline__
#else
#error "kernels are compiled by nvcc"
#endif

DEVICE_INLINE float3 operator+(const float3 &a, const float3 &b) {
    return make_float3(a.x + b.x, a.y + b.y, a.z + b.z);
}
DEVICE_INLINE float3 operator-(const float3 &a, const float3 &b) {
    return make_float3(a.x - b.x, a.y - b.y, a.z - b.z);
}
DEVICE_INLINE float3 operator*(float s, const float3 &a) {
    return make_float3(s * a.x, s * a.y, s * a.z);
}
DEVICE_INLINE void operator+=(float3 &a, const float3 &b) {
    a = a + b;
}
DEVICE_INLINE float dot(const float3 &a, const float3 &b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

#endif
