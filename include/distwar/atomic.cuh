// SPDX-License-Identifier: MIT
// Atomic updates of one value in memory: the GPU's native add, and any operator by compare-and-swap. All
// differences between architectures are in this file and in lanes.cuh.
//
// All updates are relaxed: atomic among the threads of the scope, with no order on other memory accesses.
// Every address is aligned to its type, in global or shared memory.
#ifndef DISTWAR_ATOMIC_CUH
#define DISTWAR_ATOMIC_CUH

#include "version.h"
#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

namespace distwar {

// The threads among which an update is atomic: those of a block, of the GPU, or of all GPUs and the CPU. Each
// scope includes the smaller ones. It is the first template argument of every call:
// atomic_add<scope::block>(...).
enum class scope { block, device, system };

namespace detail {

template <typename A, typename B>
inline constexpr bool is_same = false;
template <typename A>
inline constexpr bool is_same<A, A> = true;

// The types in memory that atomic_add supports. `value` is the type of the values added to a T, void if T is
// not supported; add<scope>(address, value) adds. half.cuh adds more types.
template <typename T>
struct destination {
    using value = void;
};

template <typename T>
struct native_destination {
    using value = T;
    template <scope S>
    static __device__ __forceinline__ void add(T *address, T value) {
        if constexpr (S == scope::block)
            atomicAdd_block(address, value);
        else if constexpr (S == scope::device)
            atomicAdd(address, value);
        else
            atomicAdd_system(address, value);
    }
};
template <>
struct destination<float> : native_destination<float> {};
template <>
struct destination<double> : native_destination<double> {};
template <>
struct destination<unsigned long long> : native_destination<unsigned long long> {};
template <>
struct destination<long long> {
    using value = long long;
    template <scope S>
    static __device__ __forceinline__ void add(long long *address, long long value) {
        destination<unsigned long long>::add<S>(reinterpret_cast<unsigned long long *>(address),
                                                static_cast<unsigned long long>(value));
    }
};

template <typename T>
using value_of = typename destination<T>::value;
template <typename T>
inline constexpr bool is_destination = !is_same<value_of<T>, void>;

} // namespace detail

// *address += value by the native instruction. Returns nothing, so that the compiler can use a reduction
// (RED), for which no result travels back. T is float, double, long long or unsigned long long (integers
// wrap); half.cuh adds 16-bit types. A float add in global memory treats subnormal inputs and results as
// zero. Cost: one atomic.
template <scope S = scope::device, typename T>
__device__ __forceinline__ void atomic_add(T *address, detail::value_of<T> value) {
    detail::destination<T>::template add<S>(address, value);
}

namespace detail {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// `address` is in global memory. PTX, because nvcc warns about atomicAdd(float2 *) wherever a call is inlined
// with an address in shared memory, even if the call is never reached.
template <scope S>
__device__ __forceinline__ void add_to_global(float2 *address, float2 value) {
    const size_t global = __cvta_generic_to_global(address);
#define DISTWAR_ADD_AT(scope)                                                                                \
    asm volatile("red.relaxed." scope ".global.add.v2.f32 [%0], {%1, %2};"                                   \
                 :                                                                                           \
                 : "l"(global), "f"(value.x), "f"(value.y)                                                   \
                 : "memory")
    if constexpr (S == scope::block)
        DISTWAR_ADD_AT("cta");
    else if constexpr (S == scope::device)
        DISTWAR_ADD_AT("gpu");
    else
        DISTWAR_ADD_AT("sys");
#undef DISTWAR_ADD_AT
}
template <scope S>
__device__ __forceinline__ void add_to_global(float4 *address, float4 value) {
    const size_t global = __cvta_generic_to_global(address);
#define DISTWAR_ADD_AT(scope)                                                                                \
    asm volatile("red.relaxed." scope ".global.add.v4.f32 [%0], {%1, %2, %3, %4};"                           \
                 :                                                                                           \
                 : "l"(global), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)                       \
                 : "memory")
    if constexpr (S == scope::block)
        DISTWAR_ADD_AT("cta");
    else if constexpr (S == scope::device)
        DISTWAR_ADD_AT("gpu");
    else
        DISTWAR_ADD_AT("sys");
#undef DISTWAR_ADD_AT
}
#endif

// Adds by one instruction and returns true. Returns false and adds nothing in shared memory and on GPUs
// without the instruction.
template <scope S, typename Vector>
__device__ __forceinline__ bool add_vector(Vector *address, Vector value) {
#if defined(__SIMT__)
    native_destination<Vector>::template add<S>(address, value);
    return true;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (!__isGlobal(address)) return false;
    add_to_global<S>(address, value);
    return true;
#else
    (void)address, (void)value;
    return false;
#endif
}

} // namespace detail

// Adds two or four neighbouring floats, aligned to 8 or 16 bytes. Each float is added atomically, the vector
// as a whole is not. Cost: one atomic in global memory from compute capability 9.0 on; otherwise one for each
// float.
template <scope S = scope::device>
__device__ __forceinline__ void atomic_add(float2 *address, float2 value) {
    if (detail::add_vector<S>(address, value)) return;
    atomic_add<S>(&address->x, value.x);
    atomic_add<S>(&address->y, value.y);
}
template <scope S = scope::device>
__device__ __forceinline__ void atomic_add(float4 *address, float4 value) {
    if (detail::add_vector<S>(address, value)) return;
    atomic_add<S>(&address->x, value.x);
    atomic_add<S>(&address->y, value.y);
    atomic_add<S>(&address->z, value.z);
    atomic_add<S>(&address->w, value.w);
}

// Operators for atomic_update: (value in memory, argument) -> new value.
//   add, multiply     NaN if either value is NaN
//   minimum, maximum  the argument if it is strictly smaller (larger), else the value in memory. So a NaN
//                     argument changes nothing, a NaN in memory stays, and a zero never replaces a zero of
//                     the other sign.
struct add {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return old + value;
    }
};
struct multiply {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return old * value;
    }
};
struct minimum {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return value < old ? value : old;
    }
};
struct maximum {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return old < value ? value : old;
    }
};

namespace detail {

template <int Size>
struct word; // the unsigned integer of Size bytes, for compare-and-swap
template <>
struct word<2> {
    using type = unsigned short;
};
template <>
struct word<4> {
    using type = unsigned;
};
template <>
struct word<8> {
    using type = unsigned long long;
};

// Converts a T to the word with the same bits and back.
template <typename T>
struct swappable {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "distwar: atomic_update needs a type of 2, 4 or 8 bytes");
    static_assert(alignof(T) == sizeof(T),
                  "distwar: atomic_update needs a type aligned to its size (alignas)");
    static_assert(__is_trivially_copyable(T), "distwar: atomic_update needs a trivially copyable type");
    using word = typename word<sizeof(T) == 2 || sizeof(T) == 8 ? int(sizeof(T)) : 4>::type;

    static __device__ __forceinline__ T value(word bits) {
        T result;
        memcpy(&result, &bits, sizeof(T));
        return result;
    }
    static __device__ __forceinline__ word bits(T value) {
        word result;
        memcpy(&result, &value, sizeof(T));
        return result;
    }
    // Reads memory, never a copy in a register or in the L1 cache.
    static __device__ __forceinline__ word load(const T *address) {
        return *reinterpret_cast<const volatile word *>(address);
    }
};

template <scope S, typename Word>
__device__ __forceinline__ Word compare_and_swap(Word *address, Word expected, Word wanted) {
    if constexpr (S == scope::block)
        return atomicCAS_block(address, expected, wanted);
    else if constexpr (S == scope::device)
        return atomicCAS(address, expected, wanted);
    else
        return atomicCAS_system(address, expected, wanted);
}
// CUDA has the 2-byte form at device scope only, which includes block scope.
template <scope S>
__device__ __forceinline__ unsigned short compare_and_swap(unsigned short *address, unsigned short expected,
                                                           unsigned short wanted) {
#if !defined(__SIMT__)
    if constexpr (S == scope::system) {
        unsigned short found;
        asm volatile("atom.relaxed.sys.cas.b16 %0, [%1], %2, %3;"
                     : "=h"(found)
                     : "l"(address), "h"(expected), "h"(wanted)
                     : "memory");
        return found;
    }
#endif
    return atomicCAS(address, expected, wanted);
}

} // namespace detail

// *address = op(*address, value), atomically. Returns the old value.
//   T   trivially copyable, 2, 4 or 8 bytes, aligned to its size
//   op  op(T old, T value) -> T, without side effects; may be called several times with different old values
// Values are compared by their bits, so NaN needs no special case. If op leaves the bits unchanged, nothing
// is written. With `add`, adding a zero of either sign writes nothing, so a -0.0 in memory stays -0.0.
// Cost: one read, and one compare-and-swap for each attempt.
template <scope S = scope::device, typename T, typename Op>
__device__ __forceinline__ T atomic_update(T *address, T value, Op op) {
    using as = detail::swappable<T>;
    typename as::word *const word = reinterpret_cast<typename as::word *>(address);
    typename as::word seen = as::load(address);
    if constexpr (detail::is_same<Op, add>)
        if (value == T(0)) return as::value(seen);
    for (;;) {
        const T old = as::value(seen);
        const typename as::word wanted = as::bits(op(old, value));
        if (wanted == seen) return old;
        const typename as::word found = detail::compare_and_swap<S>(word, seen, wanted);
        if (found == seen) return old;
        seen = found;
    }
}

} // namespace distwar

#endif
