// SPDX-License-Identifier: MIT
// 16-bit types: half and bfloat16 in memory, and their pairs. Opt-in, because cuda_fp16.h and cuda_bf16.h take longer to
// compile than all of distwar. With this header atomic_add and all sinks also take __half, __nv_bfloat16, __half2 and
// __nv_bfloat162; the type of the values says how a warp sums:
//
//     values           sink                                    sums in the warp
//     ---------------  --------------------------------------  --------------------------------------------------------
//     float            record<__half>, planes, pointers,       in float, rounded once. Each value is a compare-and-swap
//                      fields                                  loop in memory, on every GPU up to 9.0
//     float            record_of_halves<__half>                the same; each value a native atomic of a pair whose other
//                                                              value gets -0.0
//     float            record_of_pairs<__half2>                the same; two values a native atomic, if one lane commits
//     __half2          record<__half2>, planes, pointers,      in 16 bits: each addition rounds. Half the shuffles
//                      fields
//     __half2          aligned_record<__half2>                 the same; up to 4 pairs an atomic, if one lane commits
//
// Rounding: to nearest even. A sum of floats rounds once when it is committed, and once in memory after each addition:
// few large commits lose less than many small ones. In the warp a sum of pairs rounds at each addition, with u = 2^-11
// (half) or 2^-8 (bfloat16). With S the sum of the absolute values of n lanes its error is to first order at most 5 u S
// (reduce_tree, reduce_bfly) or (n - 1) u S (reduce_serial). Overflow gives infinity, NaN stays NaN.
// Cost: pairs take a native atomic in global memory from compute capability 7.0 (half) and 9.0 (bfloat16) on; before
// that, and in shared memory, a compare-and-swap loop.
// Operators: add; minimum, maximum and multiply by compare-and-swap, each value of a pair for itself. Which zero is
// kept of 0.0 and -0.0 is not defined. 16-bit types are refused by bitwise operators, by reduce_fixed, which rounds to
// integers, and by hot_slots and accumulators, whose sums of many warps need more digits.
#ifndef DISTWAR_HALF_CUH
#define DISTWAR_HALF_CUH

#include "sink.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace distwar {

namespace detail {

// A 16-bit type: its pair, and the conversions of a value and of a pair.
template <typename>
struct half_type {};
#define DISTWAR_HALF_TYPE(single, two, to_float, from_float, from_floats)                                    \
    template <>                                                                                              \
    inline constexpr int halves_in<single> = 1;                                                              \
    template <>                                                                                              \
    inline constexpr int halves_in<two> = 2;                                                                 \
    template <>                                                                                              \
    struct half_type<single> {                                                                               \
        using half = single;                                                                                 \
        using pair = two;                                                                                    \
        static __host__ DISTWAR_DEVICE float wide(half a) { return to_float(a); }                            \
        static __host__ DISTWAR_DEVICE half stored(float a) { return from_float(a); }                        \
        static DISTWAR_DEVICE pair rounded(float2 a) { return from_floats(a.x, a.y); }                       \
    };
DISTWAR_HALF_TYPE(__half, __half2, __half2float, __float2half_rn, __floats2half2_rn)
DISTWAR_HALF_TYPE(__nv_bfloat16, __nv_bfloat162, __bfloat162float, __float2bfloat16_rn, __floats2bfloat162_rn)
#undef DISTWAR_HALF_TYPE
template <typename Half>
using pair_of = typename half_type<Half>::pair;
template <typename Pair>
using half_of = typename half_type<decltype(Pair::x)>::half; // of each value of a pair

// Whether CUDA's atomicAdd adds a T natively. For bfloat16 before compute capability 9.0 it is a
// compare-and-swap loop, or missing: CUDA 11.8 to 12.1 have none before 8.0, clang up to 19 has none.
template <typename T>
inline constexpr bool has_native_add =
    is_same<T, __half> || is_same<T, __half2> || architecture == 0 || architecture >= 900;

// Adds a 16-bit value or a pair. Memory that is not global is of one block: there atomicAdd serves every scope. PTX, because
// CUDA's atomicAdd of these types has device scope only and returns the old value.
template <scope S, typename T>
DISTWAR_DEVICE void add_rounded(T *address, T value) {
#if DISTWAR_PTX
    if constexpr (!has_native_add<T>) { // not by `add`: this changes -0.0 to 0.0, as atomicAdd does
        distwar::atomic_update<S>(address, value, [](T a, T b) { return destination<T>::sum(a, b); });
        return;
    } else if (__isGlobal(address)) {
        const size_t global = __cvta_generic_to_global(address);
        const auto bits = detail::bits_as<bits_of<T>>(value);
        if constexpr (is_same<T, __half>) {
            DISTWAR_RED(S, ".noftz.f16 [%0], %1;" ::"l"(global), "h"(bits));
        } else if constexpr (is_same<T, __half2>) {
            DISTWAR_RED(S, ".noftz.f16x2 [%0], %1;" ::"l"(global), "r"(bits));
        } else if constexpr (is_same<T, __nv_bfloat16>) {
            DISTWAR_RED(S, ".noftz.bf16 [%0], %1;" ::"l"(global), "h"(bits));
        } else {
            DISTWAR_RED(S, ".noftz.bf16x2 [%0], %1;" ::"l"(global), "r"(bits));
        }
        return;
    }
#endif
    if constexpr (has_native_add<T>) atomicAdd(address, value);
}

// Single values, in float and rounded once: the same results as 16-bit instructions, because a float has more than
// twice the digits. The operators of __half can be disabled (__CUDA_NO_HALF_OPERATORS__), and bfloat16 has no
// instructions before compute capability 8.0.
template <typename Half>
struct destination<Half, 1> : half_type<Half>, arithmetic<Half, half_type<Half>> {
    static constexpr bool is_float = false;
    using value = float;
    using half_type<Half>::stored;
    template <scope S>
    static DISTWAR_DEVICE void add(Half *address, float given) {
        detail::add_rounded<S>(address, stored(given));
    }
};

// An operation on both values of a pair, each rounded once: by one instruction from compute capability 8.0 on, or
// `since` for half, else one by one.
#define DISTWAR_PAIR_OPERATION(name, since, of_half, of_bfloat)                                              \
    static __host__ DISTWAR_DEVICE Pair name(Pair a, Pair b) {                                               \
        if constexpr (architecture >= (is_half ? since : 800)) {                                             \
            const unsigned first = detail::bits_as<unsigned>(a), second = detail::bits_as<unsigned>(b);      \
            unsigned result;                                                                                 \
            if constexpr (is_half)                                                                           \
                asm(of_half : "=r"(result) : "r"(first), "r"(second));                                       \
            else                                                                                             \
                asm(of_bfloat : "=r"(result) : "r"(first), "r"(second));                                     \
            return detail::bits_as<Pair>(result);                                                            \
        } else {                                                                                             \
            return {each::name(a.x, b.x), each::name(a.y, b.y)};                                             \
        }                                                                                                    \
    }
// bfloat16 is added and multiplied by a fused multiply-add with 1 and -0.
#define DISTWAR_PAIR_FMA(number, operands)                                                                   \
    "{\n\t.reg .b32 other;\n\tmov.b32 other, " number ";\n\tfma.rn.bf16x2 %0, " operands ";\n\t}"
// The lesser of the two; a if either is NaN, for which the second instruction is there.
#define DISTWAR_PAIR_EXTREME(name, type)                                                                     \
    "{\n\t.reg .b32 other;\n\t" name type " other, %1, %2;\n\t" name ".NaN" type " %0, %1, other;\n\t}"
template <typename Pair>
struct destination<Pair, 2> {
    static constexpr bool is_float = false, is_half = is_same<Pair, __half2>;
    using value = Pair;
    using each = destination<half_of<Pair>>;
    static DISTWAR_DEVICE Pair stored(Pair given) { return given; }
    DISTWAR_PAIR_OPERATION(sum, 700, "add.rn.f16x2 %0, %1, %2;",
                           DISTWAR_PAIR_FMA("0x3f803f80", "%1, other, %2"))
    DISTWAR_PAIR_OPERATION(product, 700, "mul.rn.f16x2 %0, %1, %2;",
                           DISTWAR_PAIR_FMA("0x80008000", "%1, %2, other"))
    DISTWAR_PAIR_OPERATION(lesser, 800, DISTWAR_PAIR_EXTREME("min", ".f16x2"),
                           DISTWAR_PAIR_EXTREME("min", ".bf16x2"))
    DISTWAR_PAIR_OPERATION(greater, 800, DISTWAR_PAIR_EXTREME("max", ".f16x2"),
                           DISTWAR_PAIR_EXTREME("max", ".bf16x2"))
    static __host__ DISTWAR_DEVICE bool is_zero(Pair a) { return each::is_zero(a.x) && each::is_zero(a.y); }
    static DISTWAR_DEVICE Pair both(unsigned bits) { return detail::bits_as<Pair>(bits << 16 | bits); }
    static DISTWAR_DEVICE Pair zero() { return both(0); }
    static DISTWAR_DEVICE Pair one() { return both(is_half ? 0x3c00 : 0x3f80); }
    static DISTWAR_DEVICE Pair highest() { return both(is_half ? 0x7c00 : 0x7f80); }
    static DISTWAR_DEVICE Pair lowest() { return both(is_half ? 0xfc00 : 0xff80); }
    template <scope S>
    static DISTWAR_DEVICE void add(Pair *address, Pair given) {
        detail::add_rounded<S>(address, given);
    }
    template <scope S, int Count>
    static DISTWAR_DEVICE bool add_vector([[maybe_unused]] Pair *address,
                                          [[maybe_unused]] const Pair *values) {
#if !DISTWAR_PTX
        detail::add_parts<half_of<Pair>, 2 * Count>(address, values);
#elif DISTWAR_HAS_VECTOR_RED
        if (!__isGlobal(address)) return false;
        unsigned bits[Count];
        DISTWAR_UNROLL
        for (int i = 0; i < Count; ++i) bits[i] = detail::bits_as<unsigned>(values[i]);
        if constexpr (is_half) {
            DISTWAR_RED_VECTOR(S, ".noftz", ".f16x2", address, "r", bits);
        } else {
            DISTWAR_RED_VECTOR(S, ".noftz", ".bf16x2", address, "r", bits);
        }
#endif
        return !DISTWAR_PTX || DISTWAR_HAS_VECTOR_RED;
    }
};
#undef DISTWAR_PAIR_EXTREME
#undef DISTWAR_PAIR_FMA
#undef DISTWAR_PAIR_OPERATION

} // namespace detail

// Adds two values, rounded to 16 bits. Each of the two additions is atomic, both together need not be. Cost: one atomic.
template <scope S = scope::device, typename Pair, typename Half = detail::half_of<Pair>>
DISTWAR_DEVICE void atomic_add(Pair *address, float2 value) {
    detail::add_rounded<S>(address, detail::half_type<Half>::rounded(value));
}

// A sink of records of pairs (__half2, __nv_bfloat162): adds values 2i and 2i + 1 to base[key * stride + i].
//   stride   >= ceil(K / 2) pairs
//   Aligned  4 or 8: base and stride are aligned to so many values, which one atomic adds as by aligned_record
// Where one value of a pair is added, -0.0 is added to the other: a number stays the same, NaN stays NaN. Cost, if one lane
// adds all values: ceil(K / 2) atomics; if each lane adds one: one atomic per value, native where that of the pair is.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::record_of_pairs<__half2> sink = {sums, 1};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(1.0f, 2.0f), sink);
//     // sums: 16, 32, 16, 32
template <typename Pair, scope S = scope::device, int Aligned = 2>
struct record_of_pairs {
    static_assert(detail::is_packed<Pair>, "distwar: a sink of pairs takes __half2 or __nv_bfloat162");
    Pair *base;
    detail::stride_type stride;
    static constexpr int values_of_a_request = Aligned > 2 ? Aligned : 1; // see tree.cuh

    template <typename Key, int K>
    DISTWAR_DEVICE void add(Key key, const float (&values)[K]) const {
        if constexpr (Aligned > 2 && K % 2 == 0) {
            Pair pairs[K / 2];
            DISTWAR_UNROLL
            for (int i = 0; i < K / 2; ++i)
                pairs[i] =
                    detail::half_type<detail::half_of<Pair>>::rounded({values[2 * i], values[2 * i + 1]});
            aligned_record<Pair, S>{base, stride}.add(key, pairs);
            return;
        }
        Pair *const first = base + size_t(key) * stride;
        DISTWAR_UNROLL
        for (int i = 0; i < K / 2; ++i)
            distwar::atomic_add<S>(first + i, float2{values[2 * i], values[2 * i + 1]});
        if constexpr (K % 2 == 1) add_one(key, K - 1, values[K - 1]);
    }
    // As a pair with -0.0, which changes nothing: GPUs add pairs, but no single 16-bit value.
    template <typename Key>
    DISTWAR_DEVICE void add_one(Key key, int k, float value) const {
        const bool is_second = k % 2 != 0;
        distwar::atomic_add<S>(base + size_t(key) * stride + k / 2,
                               float2{is_second ? -0.0f : value, is_second ? value : -0.0f});
    }
    // The sink of the values from `first` on, an even number.
    DISTWAR_DEVICE record_of_pairs from(int first) const { return {base + first / 2, stride}; }
    __device__ bool has_room(int count) const { return 2 * stride >= size_t(count); }
};
template <typename Pair, typename Stride>
__host__ __device__ record_of_pairs(Pair *, Stride)->record_of_pairs<Pair>;
// A sink of records of single halves: adds value k to base[key * stride + k] by the native atomic of the pair that this
// value belongs to, -0.0 to the other. For one value at a time, and for records of any alignment. A value whose pair reaches
// beyond the array takes a compare-and-swap of its own 2 bytes.
//   count  all values of the array, which are of this type; the same in all lanes
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::record_of_halves<__half> sink = {sums, 1, 4};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane / 16 + 1), sink);
//     // sums: 16, 32
template <typename Half, scope S = scope::device>
struct record_of_halves {
    using pair = detail::pair_of<Half>;
    using memory = typename detail::sink_of<Half, S>::memory;
    Half *base;
    detail::stride_type stride;
    long long count;

    template <typename Key, int K>
    DISTWAR_DEVICE void add(Key key, const float (&values)[K]) const {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) add_one(key, k, values[k]);
    }
    template <typename Key>
    DISTWAR_DEVICE void add_one(Key key, int k, float given) const {
        const size_t place = size_t(key) * stride + k;
        Half *const at = base + place;
        const bool is_second = reinterpret_cast<size_t>(at) % 4 != 0;
        if (is_second ? place > 0 : place + 1 < size_t(count))
            distwar::atomic_add<S>(reinterpret_cast<pair *>(is_second ? at - 1 : at),
                                   float2{is_second ? -0.0f : given, is_second ? given : -0.0f});
        else
            distwar::atomic_update<S>(at, detail::destination<Half>::stored(given), distwar::add{});
    }
    __device__ bool has_room(int count) const { return stride >= size_t(count); }
};

} // namespace distwar

#endif
