// SPDX-License-Identifier: MIT
// Atomic updates of one value in memory: the GPU's native add, and any operator by compare-and-swap. All
// differences between architectures are in this file and in lanes.cuh.
//
// All updates are relaxed: atomic among the threads of the scope, with no order on other memory accesses.
// Every address is aligned to its type, in global or shared memory.
#ifndef DISTWAR_ATOMIC_CUH
#define DISTWAR_ATOMIC_CUH

#include "push_macros.h"

#include "compiler.cuh"

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
// not supported; stored(value) is the value as a T; add<scope>(address, value) adds. half.cuh and packed.cuh
// add more types.
template <typename T>
struct destination {
    using value = void;
};

template <typename T>
struct native_destination {
    using value = T;
    static __device__ __forceinline__ T stored(T value) { return value; }
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
struct destination<int> : native_destination<int> {};
template <>
struct destination<unsigned> : native_destination<unsigned> {};
template <>
struct destination<unsigned long long> : native_destination<unsigned long long> {};
template <>
struct destination<long long> {
    using value = long long;
    static __device__ __forceinline__ long long stored(long long value) { return value; }
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
// Whether values of type V are added to a T. Sums of floats may lie in doubles.
template <typename T, typename V>
inline constexpr bool takes_values = is_same<V, value_of<T>> || (is_same<T, double> && is_same<V, float>);

} // namespace detail

// Returns the pointer, which the compiler then takes for one to global memory.
//   who calls  any thread, where the pointer is known
//   pointer    to global memory, wherever in the kernel this value is used; anything else is undefined
// Cost: none. What for: nvcc takes a pointer that is loaded from memory for one to memory of any kind if the
// kernel contains inline PTX, which most calls of this library do. Each atomic to such a pointer then tests the
// kind of memory and carries compare-and-swap loops, in the kernel's own atomics too. Pointers that are
// arguments of the kernel are not affected.
//
//     float *const gradient = distwar::in_global(arguments->gradient); // `arguments` lies in device memory
//
// Example: reduce_tree with K = 9 and a record at such a pointer, any keys: 446 instructions, 191 with in_global.
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ float *from_memory;
//     if (lane == 0) from_memory = sums;
//     __syncthreads();
//     float *const known = distwar::in_global(from_memory);
//     distwar::reduce(distwar::all_lanes, true, 0, float(lane), distwar::record<float>{known, 1});
//     // sums: 496
template <typename T>
__device__ __forceinline__ T *in_global(T *pointer) {
#if !defined(__SIMT__)
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}

// *address += value by the native instruction. Returns nothing, so that the compiler can use a reduction
// (RED), for which no result travels back. T is float, double, int, unsigned, long long or unsigned long long
// (integers wrap); half.cuh adds 16-bit types. A float add in global memory treats subnormal inputs and
// results as zero. Cost: one atomic.
// Example (one warp, `lane` its lane, arrays of zeros):
//     distwar::atomic_add(sums, float(lane));
//     // sums: 496
template <scope S = scope::device, typename T>
__device__ __forceinline__ void atomic_add(T *address, detail::value_of<T> value) {
    detail::destination<T>::template add<S>(address, value);
}

namespace detail {

#if DISTWAR_HAS_VECTOR_RED
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
#elif DISTWAR_HAS_VECTOR_RED
    if (!__isGlobal(address)) return false;
    detail::add_to_global<S>(address, value);
    return true;
#else
    (void)address, (void)value;
    return false;
#endif
}

} // namespace detail

// Adds two or four neighbouring floats, aligned to 8 or 16 bytes. Each float is added atomically, the vector
// as a whole is not. Cost: one atomic in global memory from compute capability 9.0 and CUDA 12.1 on;
// otherwise one for each float.
// Example (one warp, `lane` its lane, arrays of zeros):
//     distwar::atomic_add(reinterpret_cast<float4 *>(sums), float4{1, 2, 3, float(lane)});
//     // sums: 32, 64, 96, 496
template <scope S = scope::device>
__device__ __forceinline__ void atomic_add(float2 *address, float2 value) {
    if (detail::add_vector<S>(address, value)) return;
    distwar::atomic_add<S>(&address->x, value.x);
    distwar::atomic_add<S>(&address->y, value.y);
}
template <scope S = scope::device>
__device__ __forceinline__ void atomic_add(float4 *address, float4 value) {
    if (detail::add_vector<S>(address, value)) return;
    distwar::atomic_add<S>(&address->x, value.x);
    distwar::atomic_add<S>(&address->y, value.y);
    distwar::atomic_add<S>(&address->z, value.z);
    distwar::atomic_add<S>(&address->w, value.w);
}

namespace detail {

// The operations of the operators below on a T. half.cuh has its own for 16-bit types.
template <typename T>
struct arithmetic {
    static __host__ __device__ __forceinline__ T sum(T a, T b) { return a + b; }
    static __host__ __device__ __forceinline__ T product(T a, T b) { return a * b; }
    static __host__ __device__ __forceinline__ T lesser(T old, T value) { return value < old ? value : old; }
    static __host__ __device__ __forceinline__ T greater(T old, T value) { return old < value ? value : old; }
    static __host__ __device__ __forceinline__ bool is_zero(T a) { return a == T(0); }
};

} // namespace detail

// Operators for atomic_update: (value in memory, argument) -> new value.
//   add, multiply     NaN if either value is NaN
//   minimum, maximum  the argument if it is strictly smaller (larger), else the value in memory. So a NaN
//                     argument changes nothing, a NaN in memory stays, and a zero never replaces a zero of
//                     the other sign.
struct add {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return detail::arithmetic<T>::sum(old, value);
    }
};
struct multiply {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return detail::arithmetic<T>::product(old, value);
    }
};
struct minimum {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return detail::arithmetic<T>::lesser(old, value);
    }
};
struct maximum {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return detail::arithmetic<T>::greater(old, value);
    }
};
// Bitwise, of integers.
struct bit_and {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return old & value;
    }
};
struct bit_or {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return old | value;
    }
};
struct bit_xor {
    template <typename T>
    __host__ __device__ __forceinline__ T operator()(T old, T value) const {
        return old ^ value;
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
        ::memcpy(&result, &bits, sizeof(T));
        return result;
    }
    static __device__ __forceinline__ word bits(T value) {
        word result;
        ::memcpy(&result, &value, sizeof(T));
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
// PTX, because CUDA has the 2-byte form at device scope only, and clang up to 19 has none.
template <scope S>
__device__ __forceinline__ unsigned short compare_and_swap(unsigned short *address, unsigned short expected,
                                                           unsigned short wanted) {
#if !defined(__SIMT__)
    unsigned short found;
#define DISTWAR_SWAP_AT(scope)                                                                               \
    asm volatile("atom.relaxed." scope ".cas.b16 %0, [%1], %2, %3;"                                          \
                 : "=h"(found)                                                                               \
                 : "l"(address), "h"(expected), "h"(wanted)                                                  \
                 : "memory")
    if constexpr (S == scope::block)
        DISTWAR_SWAP_AT("cta");
    else if constexpr (S == scope::device)
        DISTWAR_SWAP_AT("gpu");
    else
        DISTWAR_SWAP_AT("sys");
#undef DISTWAR_SWAP_AT
    return found;
#else
    return atomicCAS(address, expected, wanted);
#endif
}

} // namespace detail

// *address = op(*address, value), atomically. Returns the old value.
//   T   trivially copyable, 2, 4 or 8 bytes, aligned to its size
//   op  op(T old, T value) -> T, without side effects; may be called several times with different old values
// Values are compared by their bits, so NaN needs no special case. If op leaves the bits unchanged, nothing
// is written. With `add`, adding a zero of either sign writes nothing, so a -0.0 in memory stays -0.0.
// Cost: one read, and one compare-and-swap for each attempt.
// Example (one warp, `lane` its lane, arrays of zeros):
//     distwar::atomic_update(highest, lane, distwar::maximum{});
//     // highest: 31
template <scope S = scope::device, typename T, typename Op>
__device__ __forceinline__ T atomic_update(T *address, T value, Op op) {
    using as = detail::swappable<T>;
    typename as::word *const word = reinterpret_cast<typename as::word *>(address);
    typename as::word seen = as::load(address);
    if constexpr (detail::is_same<Op, add>)
        if (detail::arithmetic<T>::is_zero(value)) return as::value(seen);
    for (;;) {
        const T old = as::value(seen);
        const typename as::word wanted = as::bits(op(old, value));
        if (wanted == seen) return old;
        const typename as::word found = detail::compare_and_swap<S>(word, seen, wanted);
        if (found == seen) return old;
        seen = found;
    }
}

namespace detail {

template <typename T>
inline constexpr bool is_integer =
    is_same<T, int> || is_same<T, unsigned> || is_same<T, long long> || is_same<T, unsigned long long>;

#define DISTWAR_NATIVE(name, call)                                                                           \
    template <scope S, typename T>                                                                           \
    __device__ __forceinline__ void name(T *address, T value) {                                              \
        if constexpr (S == scope::block)                                                                     \
            call##_block(address, value);                                                                    \
        else if constexpr (S == scope::device)                                                               \
            call(address, value);                                                                            \
        else                                                                                                 \
            call##_system(address, value);                                                                   \
    }
DISTWAR_NATIVE(native_minimum, atomicMin)
DISTWAR_NATIVE(native_maximum, atomicMax)
DISTWAR_NATIVE(native_and, atomicAnd)
DISTWAR_NATIVE(native_or, atomicOr)
DISTWAR_NATIVE(native_xor, atomicXor)
#undef DISTWAR_NATIVE

template <int Size>
struct signed_word; // the signed twin of word
template <>
struct signed_word<4> {
    using type = int;
};
template <>
struct signed_word<8> {
    using type = long long;
};

// *address = op(*address, value), indivisibly, by one native atomic where there is one. Nothing is returned.
//
// Minima and maxima of floats are those of their bits as integers. Bits of numbers >= 0 rise with the number;
// as signed integers all of them are above those of negative numbers. Bits of negative numbers, as unsigned
// integers, rise as the number falls, and all of them are above those of numbers >= 0. So a minimum with a
// value >= 0 is a signed minimum, with a negative value an unsigned maximum; likewise for the maximum. -0.0
// counts as below 0.0. A NaN that is given changes nothing; in memory there must be none.
template <scope S, typename Op, typename T>
__device__ __forceinline__ void update_in_memory(T *address, value_of<T> value, Op op) {
    if constexpr (is_same<Op, add>) {
        distwar::atomic_add<S>(address, value);
    } else if constexpr (is_integer<T> && is_same<Op, minimum>) {
        detail::native_minimum<S>(address, value);
    } else if constexpr (is_integer<T> && is_same<Op, maximum>) {
        detail::native_maximum<S>(address, value);
    } else if constexpr (is_same<Op, bit_and> || is_same<Op, bit_or> || is_same<Op, bit_xor>) {
        static_assert(is_integer<T>, "distwar: bitwise operators take integers");
        using bits = typename word<int(sizeof(T))>::type;
        bits *const place = reinterpret_cast<bits *>(address);
        if constexpr (is_same<Op, bit_and>)
            detail::native_and<S>(place, static_cast<bits>(value));
        else if constexpr (is_same<Op, bit_or>)
            detail::native_or<S>(place, static_cast<bits>(value));
        else
            detail::native_xor<S>(place, static_cast<bits>(value));
    } else if constexpr ((is_same<T, float> || is_same<T, double>)&&(is_same<Op, minimum> ||
                                                                     is_same<Op, maximum>)) {
        using bits = typename word<int(sizeof(T))>::type;
        using signed_bits = typename signed_word<int(sizeof(T))>::type;
        constexpr bits infinity = bits(sizeof(T) == 4 ? 0x7f800000 : 0x7ff0000000000000);
        bits own;
        ::memcpy(&own, &value, sizeof own);
        if (bits(own << 1) > bits(infinity << 1)) return; // a NaN
        const signed_bits own_signed = static_cast<signed_bits>(own);
        bits *const place = reinterpret_cast<bits *>(address);
        signed_bits *const signed_place = reinterpret_cast<signed_bits *>(address);
        if constexpr (is_same<Op, minimum>) {
            if (own_signed < 0)
                detail::native_maximum<S>(place, own);
            else
                detail::native_minimum<S>(signed_place, own_signed);
        } else {
            if (own_signed < 0)
                detail::native_minimum<S>(place, own);
            else
                detail::native_maximum<S>(signed_place, own_signed);
        }
    } else {
        distwar::atomic_update<S>(address, destination<T>::stored(value), op);
    }
}

} // namespace detail

} // namespace distwar

#include "pop_macros.h"

#endif
