// SPDX-License-Identifier: MIT
// What distwar asks of the compiler, the differences between compilers, and all that it knows of simt, which runs
// kernels on a CPU. docs/reference.md lists what is tested.
#ifndef DISTWAR_CONFIG_CUH
#define DISTWAR_CONFIG_CUH

#include "version.h"

#if defined(__HIPCC__) || defined(__HIP__)
#error "distwar does not support HIP: its lane masks have 32 bits and its warps 32 lanes"
#endif

// C++17 for deduction guides, if constexpr and inline variables. MSVC keeps __cplusplus at 199711 and has _MSVC_LANG.
#if __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "distwar needs C++17: compile with -std=c++17 or later"
#endif

#ifndef __CUDACC_RTC__
#if !__has_include(<cuda_runtime.h>)
#error                                                                                                       \
    "distwar: this header is CUDA code. Compile with nvcc, NVRTC or clang -x cuda; for a CPU with -Isimt/include"
#endif
#include <cuda_runtime.h>
#endif
#if !defined(__CUDACC__) && !defined(__SIMT__)
#error "distwar: this header is CUDA code. Compile with nvcc, NVRTC or clang -x cuda"
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "distwar needs compute capability 7.0 or later: masked collectives and warp match"
#endif

// Macros that would change the names of template parameters and functions in these headers. They are refused by
// name, since nothing that NVRTC offers could set them aside.
#if defined(A)
#error "distwar: the macro A is defined: include distwar first, or rename it"
#elif defined(B)
#error "distwar: the macro B is defined: include distwar first, or rename it"
#elif defined(K)
#error "distwar: the macro K is defined: include distwar first, or rename it"
#elif defined(N)
#error "distwar: the macro N is defined: include distwar first, or rename it"
#elif defined(S)
#error "distwar: the macro S is defined: include distwar first, or rename it"
#elif defined(T)
#error "distwar: the macro T is defined: include distwar first, or rename it"
#elif defined(V)
#error "distwar: the macro V is defined: include distwar first, or rename it"
#elif defined(add)
#error "distwar: the macro add is defined: include distwar first, or rename it"
#elif defined(record)
#error "distwar: the macro record is defined: include distwar first, or rename it"
#elif defined(value)
#error "distwar: the macro value is defined: include distwar first, or rename it"
#endif

// The version of clang where it compiles CUDA, else 0.
#if defined(__clang__) && defined(__CUDA__) && !defined(__SIMT__)
#define DISTWAR_CLANG __clang_major__
#else
#define DISTWAR_CLANG 0
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
#if DISTWAR_CLANG != 0 && DISTWAR_CLANG < 16
#error "distwar needs clang 16 or later as CUDA compiler"
#endif

// Whether a float vector is added by one instruction. PTX has red.v2.f32 and red.v4.f32 from compute capability 9.0
// and PTX 8.1 of CUDA 12.1 on, which clang writes from version 17 on. simt has the same.
#if defined(__SIMT__) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && DISTWAR_CUDA_VERSION >= 12010 && \
                          (DISTWAR_CLANG == 0 || DISTWAR_CLANG >= 17))
#define DISTWAR_HAS_VECTOR_RED 1
#else
#define DISTWAR_HAS_VECTOR_RED 0
#endif

// A function of the device, written where it is called.
#define DISTWAR_DEVICE __device__ __forceinline__

// Unrolls the loop that follows. With a compile-time trip count the arrays it indexes stay in registers.
#if defined(__SIMT__)
#define DISTWAR_UNROLL
#elif defined(_MSC_VER) && !defined(__clang__)
#define DISTWAR_UNROLL __pragma(unroll)
#else
#define DISTWAR_UNROLL _Pragma("unroll")
#endif

// DISTWAR_PTX is 1 where code is for a GPU and may contain PTX, 0 under simt.
#if defined(__SIMT__)
#define DISTWAR_PTX 0
#define DISTWAR_DYNAMIC_SHARED(type, name) type *const name = static_cast<type *>(simt_dynamic_shared())
#else
#define DISTWAR_PTX 1
#define DISTWAR_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

namespace distwar::detail {

// A mask of lanes as the parameter of a call. Under simt it also tells refusals the line of the caller.
#if defined(__SIMT__)
using lane_mask = simt::Call_lanes;
#else
using lane_mask = unsigned;
#endif

#if defined(__CUDA_ARCH__)
inline constexpr int architecture = __CUDA_ARCH__;
#else
inline constexpr int architecture = 0;
#endif

// What simt checks, and a GPU does not:
//   promise      lanes of a call pass the same value, or lanes with equal keys do. A null text promises nothing
//   call_line    where a call stands; resumed_call makes what follows a part of that call
//   sync_block   the barrier of a call that all threads of the block make, none of which has exited
#if defined(__SIMT__)
inline void promise(const char *text, std::uint64_t key, std::uint64_t word, bool among_equal_keys) {
    simt::promise({text, key, word, among_equal_keys});
}
using call_line = simt::Place;
inline call_line this_call() {
    return simt::current->call;
}
using resumed_call = simt::Call_lanes;
inline void sync_block(SIMT_HERE) {
    const simt::Call_lanes call(~0u, place);
    __syncthreads(place);
}
// Adds Count values side by side as one atomic, as a GPU that has vector atomics does.
template <typename T, int Count>
void add_parts(void *address, const void *values) {
    struct vector {
        T first, rest[Count - 1];
    } sum;
    std::memcpy(static_cast<void *>(&sum), values, sizeof sum);
    simt::add_each<Count>(static_cast<vector *>(address), &vector::first, sum, {__FILE__, __LINE__});
}
#else
DISTWAR_DEVICE void promise(const char *, unsigned long long, unsigned long long, bool) {}
struct call_line {};
DISTWAR_DEVICE call_line this_call() {
    return {};
}
struct resumed_call {
    DISTWAR_DEVICE resumed_call(unsigned, call_line) {}
};
DISTWAR_DEVICE void sync_block() {
    __syncthreads();
}
#endif

} // namespace distwar::detail

#endif
