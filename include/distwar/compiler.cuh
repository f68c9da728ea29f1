// SPDX-License-Identifier: MIT
// What distwar asks of the compiler, and differences between compilers. docs/reference.md lists what is
// tested.
#ifndef DISTWAR_COMPILER_CUH
#define DISTWAR_COMPILER_CUH

#include "version.h"

#if defined(__HIPCC__) || defined(__HIP__)
#error "distwar does not support HIP: its lane masks have 32 bits and its warps 32 lanes"
#endif

#ifndef __CUDACC_RTC__
#if defined(__has_include)
#if !__has_include(<cuda_runtime.h>)
#error                                                                                                       \
    "distwar: this header is CUDA code. Compile with nvcc, NVRTC or clang -x cuda; for a CPU with -Isimt/include"
#endif
#endif
#include <cuda_runtime.h>
#endif
#if !defined(__CUDACC__) && !defined(__SIMT__)
#error                                                                                                       \
    "distwar: this header is CUDA code. Compile with nvcc, NVRTC or clang -x cuda; for a CPU with -Isimt/include"
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "distwar needs compute capability 7.0 or later: masked collectives and warp match"
#endif

// The version of CUDA, 12010 for 12.1; 0 without CUDA. clang and simt have no __CUDACC_VER_MAJOR__.
#if defined(__CUDACC_VER_MAJOR__)
#define DISTWAR_CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
#elif !defined(__SIMT__) && defined(CUDART_VERSION)
#define DISTWAR_CUDA_VERSION CUDART_VERSION
#else
#define DISTWAR_CUDA_VERSION 0
#endif
#if !defined(__SIMT__) && DISTWAR_CUDA_VERSION < 11080
#error "distwar needs CUDA 11.8 or later"
#endif
#if !defined(__SIMT__) && defined(__CUDA__) && defined(__clang_major__) && __clang_major__ < 16
#error "distwar needs clang 16 or later as CUDA compiler"
#endif

// Whether PTX has red.v2.f32 and red.v4.f32: compute capability 9.0, and PTX 8.1 of CUDA 12.1, which clang
// writes from version 17 on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && DISTWAR_CUDA_VERSION >= 12010 &&                       \
    !(defined(__clang__) && defined(__CUDA__) && __clang_major__ < 17)
#define DISTWAR_HAS_VECTOR_RED 1
#else
#define DISTWAR_HAS_VECTOR_RED 0
#endif

// Unrolls the loop that follows. With a compile-time trip count the arrays it indexes stay in registers.
#if defined(__SIMT__)
#define DISTWAR_UNROLL
#elif defined(_MSC_VER) && !defined(__clang__)
#define DISTWAR_UNROLL __pragma(unroll)
#else
#define DISTWAR_UNROLL _Pragma("unroll")
#endif

#endif
