// SPDX-License-Identifier: MIT
// Atomic updates of one value in memory: the GPU's native add, and any operator by compare-and-swap.
//
// All updates are relaxed: atomic among the threads of the scope, with no order on other memory accesses.
// Every address is aligned to its type, in global or shared memory.
#ifndef DISTWAR_ATOMIC_CUH
#define DISTWAR_ATOMIC_CUH

#include "warp.cuh"

namespace distwar {

// The threads among which an update is atomic: those of a block, of the GPU, or of all GPUs and the CPU. The first template
// argument of every call, atomic_add<scope::block>(...), and the last of a sink, record<float, add, scope::system>.
enum class scope { block, device, system };

namespace detail {

// The call of CUDA's atomic, or the statement of PTX, for scope S.
#define DISTWAR_CALL_AT(S, call, ...)                                                                        \
    if constexpr (S == scope::block)                                                                         \
        return call##_block(__VA_ARGS__);                                                                    \
    else if constexpr (S == scope::device)                                                                   \
        return call(__VA_ARGS__);                                                                            \
    else                                                                                                     \
        return call##_system(__VA_ARGS__);
#define DISTWAR_AT_SCOPE(S, STATEMENT, ...)                                                                  \
    if constexpr (S == scope::block) {                                                                       \
        STATEMENT("cta", __VA_ARGS__);                                                                       \
    } else if constexpr (S == scope::device) {                                                               \
        STATEMENT("gpu", __VA_ARGS__);                                                                       \
    } else {                                                                                                 \
        STATEMENT("sys", __VA_ARGS__);                                                                       \
    }
// An addition in global memory: the text of the instruction from its type on, and its operands.
#define DISTWAR_RED_AT(scope, ...) asm volatile("red.relaxed." scope ".global.add" __VA_ARGS__ : "memory")
#define DISTWAR_RED(S, ...) DISTWAR_AT_SCOPE(S, DISTWAR_RED_AT, __VA_ARGS__)
// The same of Count values, 2 or 4: `letter` is the constraint of their registers.
#define DISTWAR_RED_VECTOR(S, rounding, type, address, letter, of)                                           \
    if constexpr (Count == 4) {                                                                              \
        DISTWAR_RED(S,                                                                                       \
                    rounding ".v4" type " [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(address)), \
                    letter(of[0]), letter(of[1]), letter(of[Count - 2]), letter(of[Count - 1]));             \
    } else {                                                                                                 \
        DISTWAR_RED(S, rounding ".v2" type " [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(address)),      \
                    letter(of[0]), letter(of[1]));                                                           \
    }

template <scope S, typename Word>
DISTWAR_DEVICE Word compare_and_swap(Word *address, Word expected, Word wanted) {
    DISTWAR_CALL_AT(S, atomicCAS, address, expected, wanted)
}
#if DISTWAR_PTX // because CUDA has the 2-byte form at device scope only, and clang up to 19 has none
template <scope S>
DISTWAR_DEVICE unsigned short compare_and_swap(unsigned short *address, unsigned short expected,
                                               unsigned short wanted) {
    unsigned short found;
#define DISTWAR_SWAP_AT(scope, result)                                                                       \
    asm volatile("atom.relaxed." scope ".cas.b16 %0, [%1], %2, %3;"                                          \
                 : "=h"(result)                                                                              \
                 : "l"(address), "h"(expected), "h"(wanted)                                                  \
                 : "memory")
    DISTWAR_AT_SCOPE(S, DISTWAR_SWAP_AT, found);
#undef DISTWAR_SWAP_AT
    return found;
}
#endif

template <scope S, typename T>
DISTWAR_DEVICE auto native_add(T *address, T given){DISTWAR_CALL_AT(S, atomicAdd, address, given)}

// Adds 8 bytes in shared memory as two halves with a carry. GPUs add 4 bytes there by one instruction and 8 by a loop
// of compare-and-swaps, which is 2 to 11 times as slow. The upper half is left alone where it gets nothing.
DISTWAR_DEVICE void add_halves(unsigned long long *address, unsigned long long given) {
    unsigned *const halves = reinterpret_cast<unsigned *>(address);
    const unsigned low = unsigned(given);
    const unsigned high = unsigned(given >> 32) + (atomicAdd_block(halves, low) + low < low ? 1 : 0);
    if (high != 0) atomicAdd_block(halves + 1, high);
}

template <bool Holds, typename T>
__host__ __device__ constexpr auto value_in() {
    if constexpr (Holds) return T{};
}
// What the operators below do with two T, as numbers of the type of Form::wide().
template <typename T, typename Form>
struct arithmetic {
    static __host__ DISTWAR_DEVICE T sum(T a, T b) { return Form::stored(Form::wide(a) + Form::wide(b)); }
    static __host__ DISTWAR_DEVICE T product(T a, T b) { return Form::stored(Form::wide(a) * Form::wide(b)); }
    static __host__ DISTWAR_DEVICE T lesser(T old, T given) {
        return Form::wide(given) < Form::wide(old) ? given : old;
    }
    static __host__ DISTWAR_DEVICE T greater(T old, T given) {
        return Form::wide(old) < Form::wide(given) ? given : old;
    }
    static __host__ DISTWAR_DEVICE bool is_zero(T a) { return Form::wide(a) == 0; }
};
// A type in memory. half.cuh has those of 16 bits.
//   value        the type of the values that are added to a T; void if T is not supported
//   stored       such a value as a T
//   add          adds one value by the native atomic
//   add_vector   adds Count values, 2 or 4, at an address aligned to their size by one instruction. Returns false
//                and adds nothing in shared memory and on GPUs without the instruction
//   zero, ...    what changes nothing in the operators below
template <typename T, int Halves = halves_in<T>>
struct destination : arithmetic<T, destination<T, Halves>> {
    static constexpr bool is_float = is_same<T, float> || is_same<T, double>;
    using value = decltype(detail::value_in < is_float || is_integer<T>, T > ());

    static __host__ DISTWAR_DEVICE T wide(T a) { return a; }
    static __host__ DISTWAR_DEVICE T stored(T a) { return a; }
    static DISTWAR_DEVICE T zero() { return T(0); }
    static DISTWAR_DEVICE T one() { return T(1); }
    // The largest value of T, or infinity; the smallest, or -infinity.
    static DISTWAR_DEVICE T highest() {
        if constexpr (is_float)
            return T(__int_as_float(0x7f800000));
        else if constexpr (T(-1) < T(0))
            return T(~(1ull << (8 * sizeof(T) - 1)));
        else
            return T(-1);
    }
    static DISTWAR_DEVICE T lowest() {
        if constexpr (is_float)
            return -highest();
        else
            return T(~highest());
    }
    template <scope S>
    static DISTWAR_DEVICE void add(T *address, T given) {
        if constexpr (is_float) {
            detail::native_add<S>(address, given);
        } else {
            bits_of<T> *const word = reinterpret_cast<bits_of<T> *>(address);
#if DISTWAR_PTX
            if constexpr (sizeof(T) == 8)
                if (__isShared(address)) return detail::add_halves(word, bits_of<T>(given));
#endif
            detail::native_add<S>(word, bits_of<T>(given));
        }
    }
    // PTX, because nvcc warns about atomicAdd(float2 *) wherever a call is inlined with an address in shared memory, even
    // if the call is never reached.
    template <scope S, int Count>
    static DISTWAR_DEVICE bool add_vector([[maybe_unused]] T *address, [[maybe_unused]] const T *values) {
        static_assert(is_same<T, float>);
#if !DISTWAR_PTX
        detail::add_parts<T, Count>(address, values);
#elif DISTWAR_HAS_VECTOR_RED
        if (!__isGlobal(address)) return false;
        DISTWAR_RED_VECTOR(S, "", ".f32", address, "f", values);
#endif
        return !DISTWAR_PTX || DISTWAR_HAS_VECTOR_RED;
    }
};

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

// Adds Count values, 2 or 4, at an address aligned to their size: by one atomic where there is one.
template <scope S, int Count, typename T>
DISTWAR_DEVICE void add_vector(T *address, const T *values) {
    if (destination<T>::template add_vector<S, Count>(address, values)) return;
    DISTWAR_UNROLL
    for (int i = 0; i < Count; ++i) destination<T>::template add<S>(address + i, values[i]);
}

} // namespace detail

// Returns the pointer with the promise that it points to global memory. Any thread calls. Cost: none.
// Undefined: a pointer to other memory, anywhere in the kernel.
// A kernel with inline PTX, as of most calls here, does not know the memory of a pointer that it has loaded. Each
// atomic to it, the kernel's own too, then tests the kind and carries compare-and-swap loops: reduce_tree with K = 9, a
// record and any keys has 446 instructions, 191 with in_global. Arguments of the kernel need no promise.
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ float *from_memory;
//     if (lane == 0) from_memory = sums;
//     __syncthreads();
//     float *const known = distwar::in_global(from_memory);
//     distwar::reduce(distwar::all_lanes, true, 0, float(lane), distwar::record<float>{known, 1});
//     // sums: 496
template <typename T>
DISTWAR_DEVICE T *in_global(T *pointer) {
#if DISTWAR_PTX
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}

// *address += value by the native instruction, a reduction (RED) that returns nothing. T is float, double or an integer
// of 4 or 8 bytes, which wraps; with half.cuh also a 16-bit type. Cost: one atomic.
// A float add in global memory takes subnormal inputs and results for zero.
// An integer of 8 bytes in shared memory: two atomics of 4 bytes, or one if the upper half gets nothing. A read before
// a barrier may miss a carry, so no other operator may be used on it there.
// Example (one warp, `lane` its lane, arrays of zeros):
//     distwar::atomic_add(sums, float(lane));
//     // sums: 496
template <scope S = scope::device, typename T>
DISTWAR_DEVICE void atomic_add(T *address, detail::value_of<T> given) {
    detail::destination<T>::template add<S>(address, given);
}

// Operators: (value in memory, argument) -> new value. neutral<T>() is the value that changes nothing.
//   add, multiply     NaN if either value is NaN
//   minimum, maximum  the argument if it is strictly smaller (larger), else the value in memory: a NaN argument changes
//                     nothing, a NaN in memory stays, and a zero never replaces one of the other sign
//   bit_and, ...      of integers
#define DISTWAR_OPERATOR(name, result, nothing)                                                              \
    struct name {                                                                                            \
        template <typename T>                                                                                \
        __host__ DISTWAR_DEVICE T operator()(T old, T given) const {                                         \
            return result;                                                                                   \
        }                                                                                                    \
        template <typename T>                                                                                \
        static DISTWAR_DEVICE T neutral() {                                                                  \
            return nothing;                                                                                  \
        }                                                                                                    \
    };
DISTWAR_OPERATOR(add, detail::destination<T>::sum(old, given), detail::destination<T>::zero())
DISTWAR_OPERATOR(multiply, detail::destination<T>::product(old, given), detail::destination<T>::one())
DISTWAR_OPERATOR(minimum, detail::destination<T>::lesser(old, given), detail::destination<T>::highest())
DISTWAR_OPERATOR(maximum, detail::destination<T>::greater(old, given), detail::destination<T>::lowest())
DISTWAR_OPERATOR(bit_and, old &given, T(~T(0)))
DISTWAR_OPERATOR(bit_or, old | given, T(0))
DISTWAR_OPERATOR(bit_xor, old ^ given, T(0))
#undef DISTWAR_OPERATOR

// *address = op(*address, value), atomically. Returns the old value.
//   T   trivially copyable, 2, 4 or 8 bytes, aligned to its size
//   op  op(T old, T value) -> T, without side effects; may be called several times with different old values
// It compares bits, so NaN needs no special case, and writes nothing if op leaves the bits unchanged. `add` of a zero
// of either sign writes nothing: a -0.0 in memory stays.
// Cost: one read, and one compare-and-swap for each attempt.
// Example (one warp, `lane` its lane, arrays of zeros):
//     distwar::atomic_update(highest, lane, distwar::maximum{});
//     // highest: 31
template <scope S = scope::device, typename T, typename Op>
DISTWAR_DEVICE T atomic_update(T *address, T value, Op op) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "distwar: atomic_update needs a type of 2, 4 or 8 bytes");
    static_assert(alignof(T) == sizeof(T),
                  "distwar: atomic_update needs a type aligned to its size (alignas)");
    // CUDA's pairs of 16-bit values are not trivially copyable.
    static_assert(detail::is_packed<T> || __is_trivially_copyable(T),
                  "distwar: atomic_update needs a trivially copyable type");
    using word = detail::bits_of<T>;
    word *const place = reinterpret_cast<word *>(address);
    word seen = *static_cast<const volatile word *>(place); // never a copy in a register or in the L1 cache
    if constexpr (detail::is_same<Op, add>)
        if (detail::destination<T>::is_zero(value)) return detail::bits_as<T>(seen);
    for (;;) {
        const T old = detail::bits_as<T>(seen), updated = op(old, value);
        const word wanted = detail::bits_as<word>(updated);
        if (wanted == seen) return old;
        const word found = detail::compare_and_swap<S>(place, seen, wanted);
        if (found == seen) return old;
        seen = found;
    }
}

namespace detail {

// The native atomic of an operator.
#define DISTWAR_NATIVE(Op, call)                                                                             \
    template <scope S, typename T>                                                                           \
    DISTWAR_DEVICE auto native(T *address, T given, Op) {                                                    \
        DISTWAR_CALL_AT(S, call, address, given)                                                             \
    }
DISTWAR_NATIVE(minimum, atomicMin)
DISTWAR_NATIVE(maximum, atomicMax)
DISTWAR_NATIVE(bit_and, atomicAnd)
DISTWAR_NATIVE(bit_or, atomicOr)
DISTWAR_NATIVE(bit_xor, atomicXor)
#undef DISTWAR_NATIVE

// Whether a number is NaN, by its bits: also where the compiler assumes that there is no NaN.
template <typename T>
DISTWAR_DEVICE bool has_nan_bits(T number) {
    using bits = bits_of<T>;
    constexpr bits infinity = bits(sizeof(T) == 4 ? 0x7f800000 : 0x7ff0000000000000);
    return bits(detail::bits_as<bits>(number) << 1) > bits(infinity << 1);
}

// *address = op(*address, value), indivisibly, by one native atomic where there is one. Nothing is returned.
//
// Minima and maxima of floats are those of their bits as integers. Bits of numbers >= 0 rise with the number, and as
// signed integers are above those of negative numbers. Bits of negative numbers rise as the number falls, and as
// unsigned integers are above the others. So a minimum with a value >= 0 is a signed minimum, with a negative value an
// unsigned maximum; likewise for the maximum. -0.0 counts as below 0.0. A NaN that is given changes nothing; in memory
// there must be none.
template <scope S, typename Op, typename T, typename V>
DISTWAR_DEVICE void update_in_memory(T *address, V given, Op op) {
    static_assert(takes_values<T, V>,
                  "distwar: the values have another type than the sink: an integer of the same size and "
                  "sign, float for float and 16-bit types, float or double for double");
    constexpr bool is_extreme = is_same<Op, minimum> || is_same<Op, maximum>;
    const value_of<T> own = value_of<T>(given);
    using bits = bits_of<T>;
    bits *const word = reinterpret_cast<bits *>(address);
    if constexpr (is_same<Op, add>) {
        distwar::atomic_add<S>(address, own);
    } else if constexpr (is_extreme && is_integer<T>) {
        detail::native<S>(reinterpret_cast<integer_of<T> *>(address), integer_of<T>(own), op);
    } else if constexpr (is_same<Op, bit_and> || is_same<Op, bit_or> || is_same<Op, bit_xor>) {
        static_assert(is_integer<T>, "distwar: bitwise operators take integers");
        detail::native<S>(word, static_cast<bits>(own), op);
    } else if constexpr (is_extreme && destination<T>::is_float) {
        using number = typename sized<int(sizeof(T))>::number;
        if (detail::has_nan_bits(own)) return;
        const bits own_bits = detail::bits_as<bits>(own);
        if (number(own_bits) < 0) {
            if constexpr (is_same<Op, minimum>)
                detail::native<S>(word, own_bits, maximum{});
            else
                detail::native<S>(word, own_bits, minimum{});
        } else {
            detail::native<S>(reinterpret_cast<number *>(address), number(own_bits), op);
        }
    } else {
        distwar::atomic_update<S>(address, destination<T>::stored(own), op);
    }
}

} // namespace detail

} // namespace distwar

#endif
