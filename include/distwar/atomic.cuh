// SPDX-License-Identifier: MIT
// Atomic updates of one value in memory: the GPU's own add, and any operator by compare-and-swap.
//
// All are relaxed and of device scope: each update is indivisible among the threads of one GPU, and orders
// nothing else.
#ifndef DISTWAR_ATOMIC_CUH
#define DISTWAR_ATOMIC_CUH

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

namespace distwar {

// *address += value by the native instruction; nothing is returned, so the GPU need not answer. address is
// aligned to its type, in global or shared memory. The float add on global memory takes subnormal inputs and
// results as zero.
__device__ __forceinline__ void atomic_add(float *address, float value) {
    atomicAdd(address, value);
}
__device__ __forceinline__ void atomic_add(double *address, double value) {
    atomicAdd(address, value);
}

// Operators for atomic_update: (value in memory, value given) -> new value.
//
// minimum and maximum replace what is in memory only if the given value is strictly smaller (larger). So a
// NaN that is given changes nothing, a NaN in memory stays, and a zero does not replace a zero of the other
// sign.
struct add {
    template <typename T>
    __device__ __forceinline__ T operator()(T old, T value) const {
        return old + value;
    }
};
struct minimum {
    template <typename T>
    __device__ __forceinline__ T operator()(T old, T value) const {
        return value < old ? value : old;
    }
};
struct maximum {
    template <typename T>
    __device__ __forceinline__ T operator()(T old, T value) const {
        return old < value ? value : old;
    }
};

namespace detail {

template <int Size>
struct word; // the unsigned integer that compare-and-swap takes
template <>
struct word<4> {
    using type = unsigned;
};
template <>
struct word<8> {
    using type = unsigned long long;
};

// A value that can be swapped as a word, and the same bits as either.
template <typename T>
struct swappable {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "distwar: atomic_update needs a type of 4 or 8 bytes");
    static_assert(alignof(T) == sizeof(T),
                  "distwar: atomic_update needs a type aligned to its size (alignas)");
    static_assert(__is_trivially_copyable(T), "distwar: atomic_update needs a trivially copyable type");
    using word = typename word<sizeof(T) == 8 ? 8 : 4>::type;

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
    // What is in memory now, never a copy that a cache or a register kept.
    static __device__ __forceinline__ word load(const T *address) {
        return *reinterpret_cast<const volatile word *>(address);
    }
};

} // namespace detail

// *address = op(*address, value), indivisibly; returns what was there before. T is any trivially copyable
// type of 4 or 8 bytes aligned to its size. op is called as op(T, T) -> T, perhaps several times with
// different old values, and must have no side effects. If it leaves the bits as they are, nothing is written.
// NaN is like any other value: values are compared by their bits. Cost: one read, and one compare-and-swap
// for every attempt.
template <typename T, typename Op>
__device__ __forceinline__ T atomic_update(T *address, T value, Op op) {
    using as = detail::swappable<T>;
    typename as::word *const word = reinterpret_cast<typename as::word *>(address);
    typename as::word seen = as::load(address);
    for (;;) {
        const T old = as::value(seen);
        const typename as::word wanted = as::bits(op(old, value));
        if (wanted == seen) return old;
        const typename as::word found = atomicCAS(word, seen, wanted);
        if (found == seen) return old;
        seen = found;
    }
}

// The same for add, which skips a zero of either sign: memory is read and not written, so even -0.0 stays as
// it is. A NaN on either side gives NaN.
template <typename T>
__device__ __forceinline__ T atomic_update(T *address, T value, add) {
    using as = detail::swappable<T>;
    if (value == T(0)) return as::value(as::load(address));
    return atomic_update(address, value, [](T old, T more) { return old + more; });
}

} // namespace distwar

#endif
