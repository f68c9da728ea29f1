// SPDX-License-Identifier: MIT
// CUDA's vector types, with CUDA's sizes and alignments, and their make_ functions.
#pragma once

// clang-format off
#define SIMT_VECTOR(type, name, align2, align4)                                                                \
    typedef struct name##1 { type x; } name##1;                                                               \
    typedef struct __attribute__((aligned(align2))) name##2 { type x, y; } name##2;                           \
    typedef struct name##3 { type x, y, z; } name##3;                                                         \
    typedef struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; } name##4;                     \
    static inline name##1 make_##name##1(type x) { name##1 v = {x}; return v; }                               \
    static inline name##2 make_##name##2(type x, type y) { name##2 v = {x, y}; return v; }                    \
    static inline name##3 make_##name##3(type x, type y, type z) { name##3 v = {x, y, z}; return v; }         \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { name##4 v = {x, y, z, w}; return v; }

SIMT_VECTOR(signed char, char, 2, 4)
SIMT_VECTOR(unsigned char, uchar, 2, 4)
SIMT_VECTOR(short, short, 4, 8)
SIMT_VECTOR(unsigned short, ushort, 4, 8)
SIMT_VECTOR(int, int, 8, 16)
SIMT_VECTOR(unsigned int, uint, 8, 16)
SIMT_VECTOR(long long, longlong, 16, 16)
SIMT_VECTOR(unsigned long long, ulonglong, 16, 16)
SIMT_VECTOR(float, float, 8, 16)
SIMT_VECTOR(double, double, 16, 16)
#undef SIMT_VECTOR
// clang-format on

typedef struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const {
        return uint3{x, y, z};
    }
#endif
} dim3;
