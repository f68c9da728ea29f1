// SPDX-License-Identifier: MIT
// Half and bfloat16 in memory. A warp sums in float, then rounds the sum once and adds it. Opt-in, because
// cuda_fp16.h and cuda_bf16.h take longer to compile than all of distwar.
//
// With this header atomic_add and the sinks `pointers`, `record` and `planes` also take __half and
// __nv_bfloat16. The values are float, in every reduce_*:
//
//     distwar::reduce_tree(lanes, active, key, val, distwar::record<__half>{gradient, 12}); // float val[9]
//
// Minima, maxima and products go the same way, by compare-and-swap: record<__half, minimum>. packed.cuh has
// sums of pairs that are already rounded.
//
// Rounding: to nearest even, once when a value is committed and once in memory after each addition. A few
// large commits therefore lose less than many small ones. Overflow gives infinity, NaN stays NaN.
// Cost: pairs take a native atomic from compute capability 7.0 (half) and 9.0 (bfloat16) on; before that, and
// in shared memory, a compare-and-swap loop. A single __half or __nv_bfloat16 takes a compare-and-swap loop in
// machine code on every GPU up to 9.0 (PTX has an instruction), so record_of_pairs is the faster sink.
#ifndef DISTWAR_HALF_CUH
#define DISTWAR_HALF_CUH

#include "push_macros.h"

#include "atomic.cuh"
#include "lanes.cuh"
#include "sink.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace distwar {

namespace detail {

// Arithmetic in float, rounded once: the same results as 16-bit instructions, because a float has more than
// twice the digits. The operators of __half can be disabled (__CUDA_NO_HALF_OPERATORS__), and bfloat16 has no
// instructions before compute capability 8.0.
template <>
struct arithmetic<__half> {
    static __host__ __device__ __forceinline__ __half sum(__half a, __half b) {
        return __float2half_rn(__half2float(a) + __half2float(b));
    }
    static __host__ __device__ __forceinline__ __half product(__half a, __half b) {
        return __float2half_rn(__half2float(a) * __half2float(b));
    }
    static __host__ __device__ __forceinline__ __half lesser(__half old, __half value) {
        return __half2float(value) < __half2float(old) ? value : old;
    }
    static __host__ __device__ __forceinline__ __half greater(__half old, __half value) {
        return __half2float(old) < __half2float(value) ? value : old;
    }
    static __host__ __device__ __forceinline__ bool is_zero(__half a) { return __half2float(a) == 0; }
};
template <>
struct arithmetic<__nv_bfloat16> {
    static __host__ __device__ __forceinline__ __nv_bfloat16 sum(__nv_bfloat16 a, __nv_bfloat16 b) {
        return __float2bfloat16_rn(__bfloat162float(a) + __bfloat162float(b));
    }
    static __host__ __device__ __forceinline__ __nv_bfloat16 product(__nv_bfloat16 a, __nv_bfloat16 b) {
        return __float2bfloat16_rn(__bfloat162float(a) * __bfloat162float(b));
    }
    static __host__ __device__ __forceinline__ __nv_bfloat16 lesser(__nv_bfloat16 old, __nv_bfloat16 value) {
        return __bfloat162float(value) < __bfloat162float(old) ? value : old;
    }
    static __host__ __device__ __forceinline__ __nv_bfloat16 greater(__nv_bfloat16 old, __nv_bfloat16 value) {
        return __bfloat162float(old) < __bfloat162float(value) ? value : old;
    }
    static __host__ __device__ __forceinline__ bool is_zero(__nv_bfloat16 a) {
        return __bfloat162float(a) == 0;
    }
};

template <typename T>
inline constexpr bool is_pair = false;
template <>
inline constexpr bool is_pair<__half2> = true;
template <>
inline constexpr bool is_pair<__nv_bfloat162> = true;
template <typename Pair>
struct pair_of; // the type of each half of a pair, and the conversion from two floats
template <>
struct pair_of<__half2> {
    using half = __half;
    static __device__ __forceinline__ __half2 rounded(float2 value) {
        return __floats2half2_rn(value.x, value.y);
    }
};
template <>
struct pair_of<__nv_bfloat162> {
    using half = __nv_bfloat16;
    static __device__ __forceinline__ __nv_bfloat162 rounded(float2 value) {
        return __floats2bfloat162_rn(value.x, value.y);
    }
};

// The bits of a pair, the first value in the low half. CUDA's pairs are not trivially copyable.
template <typename Pair>
__host__ __device__ __forceinline__ unsigned pair_bits(Pair pair) {
    unsigned bits;
    ::memcpy(&bits, &pair, sizeof bits);
    return bits;
}
template <typename Pair>
__host__ __device__ __forceinline__ Pair pair_from(unsigned bits) {
    Pair pair;
    ::memcpy(static_cast<void *>(&pair), &bits, sizeof bits);
    return pair;
}
template <typename Pair>
struct swappable_pair {
    using word = unsigned;
    static __device__ __forceinline__ Pair value(word bits) { return detail::pair_from<Pair>(bits); }
    static __device__ __forceinline__ word bits(Pair value) { return detail::pair_bits(value); }
    static __device__ __forceinline__ word load(const Pair *address) {
        return *reinterpret_cast<const volatile word *>(address);
    }
};
template <>
struct swappable<__half2> : swappable_pair<__half2> {};
template <>
struct swappable<__nv_bfloat162> : swappable_pair<__nv_bfloat162> {};

#if defined(__CUDA_ARCH__)
inline constexpr int architecture = __CUDA_ARCH__;
#else
inline constexpr int architecture = 0;
#endif

// Operations on both values of a pair, each rounded once: by one instruction from compute capability `since`
// on, else one by one. bfloat16 is added and multiplied by a fused multiply-add with 1 and -0.
#define DISTWAR_PAIR_OPERATION(name, since, instruction)                                                     \
    static __host__ __device__ __forceinline__ pair name(pair a, pair b) {                                   \
        if constexpr (architecture >= since) {                                                               \
            unsigned result;                                                                                 \
            asm(instruction : "=r"(result) : "r"(detail::pair_bits(a)), "r"(detail::pair_bits(b)));          \
            return detail::pair_from<pair>(result);                                                          \
        } else {                                                                                             \
            return {each::name(a.x, b.x), each::name(a.y, b.y)};                                             \
        }                                                                                                    \
    }
// The lesser of the two; a if either is NaN, for which the second instruction is there.
#define DISTWAR_PAIR_EXTREME(operation) "{\n\t.reg .b32 other;\n\t" operation " other, %1, %2;\n\t"
template <>
struct arithmetic<__half2> {
    using pair = __half2;
    using each = arithmetic<__half>;
    DISTWAR_PAIR_OPERATION(sum, 700, "add.rn.f16x2 %0, %1, %2;")
    DISTWAR_PAIR_OPERATION(product, 700, "mul.rn.f16x2 %0, %1, %2;")
    DISTWAR_PAIR_OPERATION(lesser, 800, DISTWAR_PAIR_EXTREME("min.f16x2") "min.NaN.f16x2 %0, %1, other;\n\t}")
    DISTWAR_PAIR_OPERATION(greater, 800,
                           DISTWAR_PAIR_EXTREME("max.f16x2") "max.NaN.f16x2 %0, %1, other;\n\t}")
    static __host__ __device__ __forceinline__ bool is_zero(pair a) {
        return each::is_zero(a.x) && each::is_zero(a.y);
    }
};
template <>
struct arithmetic<__nv_bfloat162> {
    using pair = __nv_bfloat162;
    using each = arithmetic<__nv_bfloat16>;
    DISTWAR_PAIR_OPERATION(sum, 800,
                           "{\n\t.reg .b32 one;\n\tmov.b32 one, 0x3f803f80;\n\t"
                           "fma.rn.bf16x2 %0, %1, one, %2;\n\t}")
    DISTWAR_PAIR_OPERATION(product, 800,
                           "{\n\t.reg .b32 zero;\n\tmov.b32 zero, 0x80008000;\n\t"
                           "fma.rn.bf16x2 %0, %1, %2, zero;\n\t}")
    DISTWAR_PAIR_OPERATION(lesser, 800,
                           DISTWAR_PAIR_EXTREME("min.bf16x2") "min.NaN.bf16x2 %0, %1, other;\n\t}")
    DISTWAR_PAIR_OPERATION(greater, 800,
                           DISTWAR_PAIR_EXTREME("max.bf16x2") "max.NaN.bf16x2 %0, %1, other;\n\t}")
    static __host__ __device__ __forceinline__ bool is_zero(pair a) {
        return each::is_zero(a.x) && each::is_zero(a.y);
    }
};
#undef DISTWAR_PAIR_EXTREME
#undef DISTWAR_PAIR_OPERATION

// Whether CUDA's atomicAdd adds a T natively. For bfloat16 before compute capability 9.0 it is a
// compare-and-swap loop, or missing: CUDA 11.8 to 12.1 have none before 8.0, clang up to 19 has none.
template <typename T>
inline constexpr bool has_native_add = true;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <>
inline constexpr bool has_native_add<__nv_bfloat16> = false;
template <>
inline constexpr bool has_native_add<__nv_bfloat162> = false;
#endif

// Operators for atomic_update. Unlike `add` they also change -0.0 to 0.0, as atomicAdd does.
struct add_always {
    template <typename T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return arithmetic<T>::sum(a, b);
    }
};

#if !defined(__SIMT__)
// Adds at an address in global memory. PTX, because CUDA's atomicAdd of these types has device scope only and
// returns the old value, which costs a way back.
template <scope S, typename T>
__device__ __forceinline__ void add_rounded_to_global(T *address, T value) {
    const size_t global = __cvta_generic_to_global(address);
    const auto bits = swappable<T>::bits(value);
#define DISTWAR_ADD_AT(scope, type, letter)                                                                  \
    asm volatile("red.relaxed." scope ".global.add.noftz." type " [%0], %1;"                                 \
                 :                                                                                           \
                 : "l"(global), letter(bits)                                                                 \
                 : "memory")
#define DISTWAR_ADD(type, letter)                                                                            \
    if constexpr (S == scope::block)                                                                         \
        DISTWAR_ADD_AT("cta", type, letter);                                                                 \
    else if constexpr (S == scope::device)                                                                   \
        DISTWAR_ADD_AT("gpu", type, letter);                                                                 \
    else                                                                                                     \
        DISTWAR_ADD_AT("sys", type, letter);
    if constexpr (is_same<T, __half>) {
        DISTWAR_ADD("f16", "h")
    } else if constexpr (is_same<T, __half2>) {
        DISTWAR_ADD("f16x2", "r")
    } else if constexpr (is_same<T, __nv_bfloat16>) {
        DISTWAR_ADD("bf16", "h")
    } else {
        DISTWAR_ADD("bf16x2", "r")
    }
#undef DISTWAR_ADD
#undef DISTWAR_ADD_AT
}
#endif

// Memory that is not global is of one block: there atomicAdd serves every scope.
template <scope S, typename T>
__device__ __forceinline__ void add_rounded(T *address, T value) {
#if defined(__SIMT__)
    atomicAdd(address, value);
#else
    if constexpr (!has_native_add<T>)
        distwar::atomic_update<S>(address, value, add_always{});
    else if (__isGlobal(address))
        detail::add_rounded_to_global<S>(address, value);
    else
        atomicAdd(address, value);
#endif
}

template <>
struct destination<__half> {
    using value = float;
    static __device__ __forceinline__ __half stored(float value) { return __float2half_rn(value); }
    template <scope S>
    static __device__ __forceinline__ void add(__half *address, float value) {
        detail::add_rounded<S>(address, stored(value));
    }
};
template <>
struct destination<__nv_bfloat16> {
    using value = float;
    static __device__ __forceinline__ __nv_bfloat16 stored(float value) { return __float2bfloat16_rn(value); }
    template <scope S>
    static __device__ __forceinline__ void add(__nv_bfloat16 *address, float value) {
        detail::add_rounded<S>(address, stored(value));
    }
};

} // namespace detail

// Adds two values, rounded to 16 bits. Pair is __half2 or __nv_bfloat162, aligned to 4 bytes. Each of the two
// additions is atomic, both together need not be. Cost: one atomic, as stated above.
template <scope S = scope::device, typename Pair, typename Half = typename detail::pair_of<Pair>::half>
__device__ __forceinline__ void atomic_add(Pair *address, float2 value) {
    detail::add_rounded<S>(address, detail::pair_of<Pair>::rounded(value));
}

// A sink of records of pairs (__half2, __nv_bfloat162): adds values 2i and 2i + 1 to base[key * stride + i].
//   base, stride  the same in all lanes; stride >= ceil(K / 2) pairs, key >= 0
// Where one value of a pair is added, -0.0 is added to the other: a number stays the same, NaN stays NaN.
// Cost, if one lane adds all values: ceil(K / 2) atomics. If each lane adds one: one atomic per value, native
// where that of the pair is. record<__half> takes K compare-and-swaps in both cases.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::record_of_pairs<__half2> sink = {sums, 1};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(1.0f, 2.0f), sink);
//     // sums: 16, 32, 16, 32
template <typename Pair, scope S = scope::device>
struct record_of_pairs {
    static_assert(detail::is_pair<Pair>, "distwar: a sink of pairs takes __half2 or __nv_bfloat162");
    static_assert(detail::is_scope<S>, "distwar: the scope of a sink is block, device or system");
    Pair *base;
    size_t stride;

    template <typename Key, int K>
    __device__ __forceinline__ void add(Key key, const float (&values)[K]) const {
        Pair *const first = base + size_t(key) * stride;
        DISTWAR_UNROLL
        for (int i = 0; i < K / 2; ++i)
            distwar::atomic_add<S>(first + i, float2{values[2 * i], values[2 * i + 1]});
        if constexpr (K % 2 == 1) add_one(key, K - 1, values[K - 1]);
    }
    // As a pair with -0.0, which changes nothing: GPUs add pairs, but no single 16-bit value.
    template <typename Key>
    __device__ __forceinline__ void add_one(Key key, int k, float value) const {
        const bool is_second = k % 2 != 0;
        distwar::atomic_add<S>(base + size_t(key) * stride + k / 2,
                               float2{is_second ? -0.0f : value, is_second ? value : -0.0f});
    }
    // The sink of the values from `first` on, an even number.
    __device__ __forceinline__ record_of_pairs from(int first) const { return {base + first / 2, stride}; }
};
namespace detail {
template <typename Pair, scope S>
inline constexpr int values_of_stride<record_of_pairs<Pair, S>> = 2;
} // namespace detail
template <typename Pair>
__host__ __device__ record_of_pairs(Pair *, size_t)->record_of_pairs<Pair>;
template <scope S, typename Pair>
using record_of_pairs_at = record_of_pairs<Pair, S>;

} // namespace distwar

#include "pop_macros.h"

#endif
