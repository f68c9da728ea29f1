// SPDX-License-Identifier: MIT
// Atomic updates of one value in memory: the GPU's native add, and any operator by compare-and-swap.
//
// All updates are relaxed: atomic among the threads of the scope, with no order on other memory accesses.
// Every address is aligned to its type, in global or shared memory.
#ifndef DISTWAR_ATOMIC_CUH
#define DISTWAR_ATOMIC_CUH

#include "warp.cuh"

namespace distwar {

// The threads among which an update is atomic: those of a block, of the GPU, or of all GPUs and the CPU. Each
// scope includes the smaller ones. It is the first template argument of every call,
// atomic_add<scope::block>(...), and the last of a sink, record<float, add, scope::system>.
enum class scope { block, device, system };

namespace detail {

template <scope S>
inline constexpr bool is_scope = S == scope::block || S == scope::device || S == scope::system;

// CUDA's atomic, or the statement of PTX, for scope S.
#define DISTWAR_NATIVE(name, call)                                                                           \
    template <scope S, typename T>                                                                           \
    __device__ __forceinline__ auto name(T *address, T given) {                                              \
        if constexpr (S == scope::block)                                                                     \
            return call##_block(address, given);                                                             \
        else if constexpr (S == scope::device)                                                               \
            return call(address, given);                                                                     \
        else                                                                                                 \
            return call##_system(address, given);                                                            \
    }
DISTWAR_NATIVE(native_add, atomicAdd)
DISTWAR_NATIVE(native_minimum, atomicMin)
DISTWAR_NATIVE(native_maximum, atomicMax)
DISTWAR_NATIVE(native_and, atomicAnd)
DISTWAR_NATIVE(native_or, atomicOr)
DISTWAR_NATIVE(native_xor, atomicXor)
#undef DISTWAR_NATIVE
#define DISTWAR_AT_SCOPE(S, STATEMENT)                                                                       \
    if constexpr (S == scope::block) {                                                                       \
        STATEMENT("cta");                                                                                    \
    } else if constexpr (S == scope::device) {                                                               \
        STATEMENT("gpu");                                                                                    \
    } else {                                                                                                 \
        STATEMENT("sys");                                                                                    \
    }

// Adds 8 bytes in shared memory as two halves with a carry. GPUs add 4 bytes there by one instruction and 8 by a loop
// of compare-and-swaps, which is 2 to 11 times as slow. The upper half is left alone where it gets nothing.
__device__ __forceinline__ void add_halves(unsigned long long *address, unsigned long long given) {
    unsigned *const halves = reinterpret_cast<unsigned *>(address);
    const unsigned low = unsigned(given);
    const unsigned high = unsigned(given >> 32) + (atomicAdd_block(halves, low) + low < low ? 1 : 0);
    if (high != 0) atomicAdd_block(halves + 1, high);
}

// The types in memory that atomic_add supports. `value` is the type of the values added to a T, void if T is not
// supported; stored(given) is the value as a T; add<scope>(address, given) adds. half.cuh has more types.
template <typename T, typename Integer = integer_of<T>>
struct destination {
    using value = T;
    static __device__ __forceinline__ T stored(T given) { return given; }
    template <scope S>
    static __device__ __forceinline__ void add(T *address, T given) {
        if constexpr (sizeof(T) == 4) {
            detail::native_add<S>(reinterpret_cast<Integer *>(address), Integer(given));
        } else {
            using bits = unsigned long long;
#if DISTWAR_PTX
            if (__isShared(address)) {
                detail::add_halves(reinterpret_cast<bits *>(address), bits(given));
                return;
            }
#endif
            detail::native_add<S>(reinterpret_cast<bits *>(address), bits(given));
        }
    }
};
template <typename T>
struct destination<T, void> {
    using value = void;
};
template <typename T>
struct native_destination {
    using value = T;
    static __device__ __forceinline__ T stored(T given) { return given; }
    template <scope S>
    static __device__ __forceinline__ void add(T *address, T given) {
        detail::native_add<S>(address, given);
    }
};
template <>
struct destination<float> : native_destination<float> {};
template <>
struct destination<double> : native_destination<double> {};

template <typename T>
using value_of = typename destination<T>::value;
template <typename T>
inline constexpr bool is_destination = !is_same<value_of<T>, void>;
// Whether T is the type of a single value: one that a warp can sum.
template <typename T>
inline constexpr bool is_value = is_same<value_of<T>, T>;
// Whether values of type V are added to a T. Sums of floats may lie in doubles.
template <typename T, typename V>
inline constexpr bool takes_values = is_same<V, value_of<T>> || (is_same<T, double> && is_same<V, float>) ||
                                     (is_integer<T> && is_same<integer_of<T>, integer_of<V>>);

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
#if DISTWAR_PTX
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}

// *address += value by the native instruction. Returns nothing, so that the compiler can use a reduction
// (RED), for which no result travels back. T is float, double or an integer of 4 or 8 bytes (integers wrap);
// half.cuh adds 16-bit types. A float add in global memory treats subnormal inputs and results as zero.
// Cost: one atomic. An integer of 8 bytes in shared memory: two of 4 bytes, or one if the upper half gets nothing. The
// sum is right once all have added; who reads before may miss a carry, so another operator must not meet it there.
// Example (one warp, `lane` its lane, arrays of zeros):
//     distwar::atomic_add(sums, float(lane));
//     // sums: 496
template <scope S = scope::device, typename T>
__device__ __forceinline__ void atomic_add(T *address, detail::value_of<T> given) {
    detail::destination<T>::template add<S>(address, given);
}

namespace detail {

#if DISTWAR_HAS_VECTOR_RED && DISTWAR_PTX
// `address` is in global memory. PTX, because nvcc warns about atomicAdd(float2 *) wherever a call is inlined
// with an address in shared memory, even if the call is never reached.
template <scope S>
__device__ __forceinline__ void add_to_global(float2 *address, float2 given) {
    const size_t global = __cvta_generic_to_global(address);
#define DISTWAR_ADD_AT(scope)                                                                                \
    asm volatile("red.relaxed." scope ".global.add.v2.f32 [%0], {%1, %2};"                                   \
                 :                                                                                           \
                 : "l"(global), "f"(given.x), "f"(given.y)                                                   \
                 : "memory")
    DISTWAR_AT_SCOPE(S, DISTWAR_ADD_AT)
#undef DISTWAR_ADD_AT
}
template <scope S>
__device__ __forceinline__ void add_to_global(float4 *address, float4 given) {
    const size_t global = __cvta_generic_to_global(address);
#define DISTWAR_ADD_AT(scope)                                                                                \
    asm volatile("red.relaxed." scope ".global.add.v4.f32 [%0], {%1, %2, %3, %4};"                           \
                 :                                                                                           \
                 : "l"(global), "f"(given.x), "f"(given.y), "f"(given.z), "f"(given.w)                       \
                 : "memory")
    DISTWAR_AT_SCOPE(S, DISTWAR_ADD_AT)
#undef DISTWAR_ADD_AT
}
#endif

// Adds by one instruction and returns true. Returns false and adds nothing in shared memory and on GPUs
// without the instruction.
template <scope S, typename Vector>
__device__ __forceinline__ bool add_vector(Vector *address, Vector value) {
#if !DISTWAR_PTX
    detail::native_add<S>(address, value);
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

// The operations of the operators below on a T, and the numbers that change nothing. half.cuh has its own for 16-bit
// types.
template <typename T>
struct arithmetic {
    static __host__ __device__ __forceinline__ T sum(T a, T b) { return a + b; }
    static __host__ __device__ __forceinline__ T product(T a, T b) { return a * b; }
    static __host__ __device__ __forceinline__ T lesser(T old, T given) { return given < old ? given : old; }
    static __host__ __device__ __forceinline__ T greater(T old, T given) { return old < given ? given : old; }
    static __host__ __device__ __forceinline__ bool is_zero(T a) { return a == T(0); }
    static __device__ __forceinline__ T zero() { return T(0); }
    static __device__ __forceinline__ T one() { return T(1); }
    // The largest value of T, or infinity; the smallest, or -infinity.
    static __device__ __forceinline__ T highest() {
        if constexpr (is_same<T, float>)
            return __int_as_float(0x7f800000);
        else if constexpr (is_same<T, double>)
            return __longlong_as_double(0x7ff0000000000000);
        else if constexpr (T(-1) < T(0))
            return T(~(1ull << (8 * sizeof(T) - 1)));
        else
            return T(-1);
    }
    static __device__ __forceinline__ T lowest() {
        if constexpr (is_same<T, float> || is_same<T, double>)
            return -highest();
        else
            return T(~highest());
    }
};

} // namespace detail

// Operators: (value in memory, argument) -> new value. neutral<T>() is the value that changes nothing.
//   add, multiply     NaN if either value is NaN
//   minimum, maximum  the argument if it is strictly smaller (larger), else the value in memory. So a NaN
//                     argument changes nothing, a NaN in memory stays, and a zero never replaces a zero of
//                     the other sign.
//   bit_and, ...      of integers
#define DISTWAR_OPERATOR(name, result, nothing)                                                              \
    struct name {                                                                                            \
        template <typename T>                                                                                \
        __host__ __device__ __forceinline__ T operator()(T old, T given) const {                             \
            return result;                                                                                   \
        }                                                                                                    \
        template <typename T>                                                                                \
        static __device__ __forceinline__ T neutral() {                                                      \
            return nothing;                                                                                  \
        }                                                                                                    \
    };
DISTWAR_OPERATOR(add, detail::arithmetic<T>::sum(old, given), detail::arithmetic<T>::zero())
DISTWAR_OPERATOR(multiply, detail::arithmetic<T>::product(old, given), detail::arithmetic<T>::one())
DISTWAR_OPERATOR(minimum, detail::arithmetic<T>::lesser(old, given), detail::arithmetic<T>::highest())
DISTWAR_OPERATOR(maximum, detail::arithmetic<T>::greater(old, given), detail::arithmetic<T>::lowest())
DISTWAR_OPERATOR(bit_and, old &given, T(~T(0)))
DISTWAR_OPERATOR(bit_or, old | given, T(0))
DISTWAR_OPERATOR(bit_xor, old ^ given, T(0))
#undef DISTWAR_OPERATOR

namespace detail {

// Converts a T to the word with the same bits and back.
template <typename T>
struct swappable {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "distwar: atomic_update needs a type of 2, 4 or 8 bytes");
    static_assert(alignof(T) == sizeof(T),
                  "distwar: atomic_update needs a type aligned to its size (alignas)");
    static_assert(__is_trivially_copyable(T), "distwar: atomic_update needs a trivially copyable type");
    using word = typename sized<sizeof(T) == 2 || sizeof(T) == 8 ? int(sizeof(T)) : 4>::bits;

    static __device__ __forceinline__ T back(word bits) {
        T result;
        ::memcpy(&result, &bits, sizeof(T));
        return result;
    }
    static __device__ __forceinline__ word bits(T given) {
        word result;
        ::memcpy(&result, &given, sizeof(T));
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
#if DISTWAR_PTX
    unsigned short found;
#define DISTWAR_SWAP_AT(scope)                                                                               \
    asm volatile("atom.relaxed." scope ".cas.b16 %0, [%1], %2, %3;"                                          \
                 : "=h"(found)                                                                               \
                 : "l"(address), "h"(expected), "h"(wanted)                                                  \
                 : "memory")
    DISTWAR_AT_SCOPE(S, DISTWAR_SWAP_AT)
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
        if (detail::arithmetic<T>::is_zero(value)) return as::back(seen);
    for (;;) {
        const T old = as::back(seen);
        const typename as::word wanted = as::bits(op(old, value));
        if (wanted == seen) return old;
        const typename as::word found = detail::compare_and_swap<S>(word, seen, wanted);
        if (found == seen) return old;
        seen = found;
    }
}

namespace detail {

// *address = op(*address, value), indivisibly, by one native atomic where there is one. Nothing is returned.
//
// Minima and maxima of floats are those of their bits as integers. Bits of numbers >= 0 rise with the number;
// as signed integers all of them are above those of negative numbers. Bits of negative numbers, as unsigned
// integers, rise as the number falls, and all of them are above those of numbers >= 0. So a minimum with a
// value >= 0 is a signed minimum, with a negative value an unsigned maximum; likewise for the maximum. -0.0
// counts as below 0.0. A NaN that is given changes nothing; in memory there must be none.
template <scope S, typename Op, typename T, typename V>
__device__ __forceinline__ void update_in_memory(T *address, V given, Op op) {
    static_assert(takes_values<T, V>,
                  "distwar: the values have another type than the sink: an integer of the same size and "
                  "sign, float for float and 16-bit types, float or double for double");
    const value_of<T> own = value_of<T>(given);
    using bits = bits_of<T>;
    bits *const word = reinterpret_cast<bits *>(address);
    if constexpr (is_same<Op, add>) {
        distwar::atomic_add<S>(address, own);
    } else if constexpr (is_integer<T> && (is_same<Op, minimum> || is_same<Op, maximum>)) {
        integer_of<T> *const place = reinterpret_cast<integer_of<T> *>(address);
        if constexpr (is_same<Op, minimum>)
            detail::native_minimum<S>(place, integer_of<T>(own));
        else
            detail::native_maximum<S>(place, integer_of<T>(own));
    } else if constexpr (is_same<Op, bit_and> || is_same<Op, bit_or> || is_same<Op, bit_xor>) {
        static_assert(is_integer<T>, "distwar: bitwise operators take integers");
        if constexpr (is_same<Op, bit_and>)
            detail::native_and<S>(word, static_cast<bits>(own));
        else if constexpr (is_same<Op, bit_or>)
            detail::native_or<S>(word, static_cast<bits>(own));
        else
            detail::native_xor<S>(word, static_cast<bits>(own));
    } else if constexpr ((is_same<T, float> || is_same<T, double>)&&(is_same<Op, minimum> ||
                                                                     is_same<Op, maximum>)) {
        using number = typename sized<int(sizeof(T))>::number;
        constexpr bits infinity = bits(sizeof(T) == 4 ? 0x7f800000 : 0x7ff0000000000000);
        bits own_bits;
        ::memcpy(&own_bits, &own, sizeof own_bits);
        if (bits(own_bits << 1) > bits(infinity << 1)) return; // a NaN
        const number own_number = static_cast<number>(own_bits);
        number *const place = reinterpret_cast<number *>(address);
        if constexpr (is_same<Op, minimum>) {
            if (own_number < 0)
                detail::native_maximum<S>(word, own_bits);
            else
                detail::native_minimum<S>(place, own_number);
        } else {
            if (own_number < 0)
                detail::native_minimum<S>(word, own_bits);
            else
                detail::native_maximum<S>(place, own_number);
        }
    } else {
        distwar::atomic_update<S>(address, destination<T>::stored(own), op);
    }
}

} // namespace detail

} // namespace distwar

#endif
