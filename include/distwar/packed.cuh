// SPDX-License-Identifier: MIT
// Pairs of 16-bit values, __half2 and __nv_bfloat162, as the values of a call. A shuffle moves 32 bits, so a
// pair costs one shuffle and one atomic, as a float does. Opt-in, as half.cuh.
//
//     __half2 val[5]; // ten values
//     distwar::reduce_tree(lanes, active, key, val, distwar::record<__half2>{gradient, 8});
//
// K counts pairs. Calls: reduce_atomic, reduce_serial, reduce_bfly, reduce_tree, reduce_runs, group_lanes and
// tree_total. Sinks: record, planes, pointers and fields of pairs, and aligned_pairs below. Operators: add,
// minimum, maximum and multiply, each on the first values and on the second values. Which zero is kept of 0.0
// and -0.0 is not defined.
//
// Accuracy: what a shuffle moves is 16 bits per value, so each addition rounds, by at most u = 2^-11 (half) or
// 2^-8 (bfloat16) of its result. With S the sum of the absolute values of n lanes, the error of the sum in
// the warp is at most, to first order,
//     reduce_tree, reduce_bfly, reduce_runs   5 u S: each value goes through 5 additions or fewer
//     reduce_serial                           (n - 1) u S
//     float values into record_of_pairs       u S: sums in float, rounds once (half.cuh); twice the shuffles
// A commit rounds once more, in memory. reduce_atomic rounds n times in memory. Overflow gives infinity.
//
// Not for pairs, each refused by a static assertion: reduce_fixed, which rounds to integers; hot_slots and
// the accumulators, whose sums of many warps need more digits; bitwise operators.
#ifndef DISTWAR_PACKED_CUH
#define DISTWAR_PACKED_CUH

#include "push_macros.h"

#include "atomic.cuh"
#include "half.cuh"
#include "lanes.cuh"
#include "sink.cuh"

namespace distwar {

namespace detail {

template <>
inline constexpr bool is_packed<__half2> = true;
template <>
inline constexpr bool is_packed<__nv_bfloat162> = true;

template <typename Pair>
struct moved_pair {
    using type = float;
    static __device__ __forceinline__ float form(Pair value) {
        float bits;
        ::memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    static __device__ __forceinline__ Pair value(float bits) {
        Pair result;
        ::memcpy(static_cast<void *>(&result), &bits, sizeof bits);
        return result;
    }
};
template <>
struct moved<__half2> : moved_pair<__half2> {};
template <>
struct moved<__nv_bfloat162> : moved_pair<__nv_bfloat162> {};

template <typename Pair>
struct packed_destination {
    using value = Pair;
    static __device__ __forceinline__ Pair stored(Pair value) { return value; }
    template <scope S>
    static __device__ __forceinline__ void add(Pair *address, Pair value) {
        detail::add_rounded<S>(address, value);
    }
};
template <>
struct destination<__half2> : packed_destination<__half2> {};
template <>
struct destination<__nv_bfloat162> : packed_destination<__nv_bfloat162> {};

#define DISTWAR_CONSTANT(name, half_bits, bfloat16_bits)                                                     \
    template <>                                                                                              \
    __device__ __forceinline__ __half2 name<__half2>() {                                                     \
        return detail::pair_from<__half2>(half_bits * 0x10001u);                                             \
    }                                                                                                        \
    template <>                                                                                              \
    __device__ __forceinline__ __nv_bfloat162 name<__nv_bfloat162>() {                                       \
        return detail::pair_from<__nv_bfloat162>(bfloat16_bits * 0x10001u);                                  \
    }
DISTWAR_CONSTANT(zero, 0, 0)
DISTWAR_CONSTANT(one, 0x3c00u, 0x3f80u)
DISTWAR_CONSTANT(highest, 0x7c00u, 0x7f80u)
DISTWAR_CONSTANT(lowest, 0xfc00u, 0xff80u)
#undef DISTWAR_CONSTANT

// Adds Count pairs, 2 or 4, at an address aligned to their size. Returns false and adds nothing in shared
// memory and on GPUs without the instruction.
template <scope S, int Count, typename Pair, int K>
__device__ __forceinline__ bool add_pairs(Pair *address, const Pair (&values)[K], int first) {
#if DISTWAR_HAS_VECTOR_RED
    if (!__isGlobal(address)) return false;
    const size_t global = __cvta_generic_to_global(address);
    unsigned bits[Count];
    DISTWAR_UNROLL
    for (int i = 0; i < Count; ++i) bits[i] = detail::pair_bits(values[first + i]);
#define DISTWAR_ADD_AT(scope, type)                                                                          \
    if constexpr (Count == 4)                                                                                \
        asm volatile("red.relaxed." scope ".global.add.noftz.v4." type " [%0], {%1, %2, %3, %4};"            \
                     :                                                                                       \
                     : "l"(global), "r"(bits[0]), "r"(bits[1]), "r"(bits[Count - 2]), "r"(bits[Count - 1])   \
                     : "memory");                                                                            \
    else                                                                                                     \
        asm volatile("red.relaxed." scope ".global.add.noftz.v2." type " [%0], {%1, %2};"                    \
                     :                                                                                       \
                     : "l"(global), "r"(bits[0]), "r"(bits[1])                                               \
                     : "memory")
#define DISTWAR_ADD(type)                                                                                    \
    if constexpr (S == scope::block) {                                                                       \
        DISTWAR_ADD_AT("cta", type);                                                                         \
    } else if constexpr (S == scope::device) {                                                               \
        DISTWAR_ADD_AT("gpu", type);                                                                         \
    } else {                                                                                                 \
        DISTWAR_ADD_AT("sys", type);                                                                         \
    }
    if constexpr (is_same<Pair, __half2>)
        DISTWAR_ADD("f16x2")
    else
        DISTWAR_ADD("bf16x2")
#undef DISTWAR_ADD
#undef DISTWAR_ADD_AT
    return true;
#elif defined(__SIMT__) // the path of a GPU that has the instruction
    struct vector {
        decltype(Pair::x) first, rest[2 * Count - 1];
    } sum;
    ::memcpy(static_cast<void *>(&sum), values + first, sizeof sum);
    simt::add_each<2 * Count>(reinterpret_cast<vector *>(address), &vector::first, sum, {__FILE__, __LINE__});
    return true;
#else
    (void)address, (void)values, (void)first;
    return false;
#endif
}

} // namespace detail

// A record of pairs, added by vector atomics of 4 and 2 pairs: pair k to base[key * stride + k].
//   base    in global or shared memory, aligned to 16 bytes; for K = 2 to 8
//   stride  in pairs, >= K, a multiple of 4; for K = 2 of 2
// Cost, if one lane adds all pairs in global memory from compute capability 9.0 and CUDA 12.1 on: one atomic
// for each vector, 2 for K = 5 (4 + 1). In shared memory, on older GPUs, and if each lane adds one pair
// (reduce_tree at one key): as record<Pair>.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const __half2 val[2] = {__floats2half2_rn(1, 2), __floats2half2_rn(3, 4)};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, val, distwar::aligned_pairs<__half2>{sums, 2});
//     // sums: 16, 32, 48, 64, 16, 32, 48, 64
template <typename Pair, scope S = scope::device>
struct aligned_pairs {
    static_assert(detail::is_packed<Pair>, "distwar: a sink of pairs takes __half2 or __nv_bfloat162");
    static_assert(detail::is_scope<S>, "distwar: the scope of a sink is block, device or system");
    Pair *base;
    size_t stride;
#if defined(__SIMT__) || DISTWAR_HAS_VECTOR_RED
    static constexpr int values_of_a_request = 4; // see tree.cuh
#endif

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        static_assert(detail::is_same<V, Pair>, "distwar: the values have another type than the sink");
        Pair *const first = base + size_t(key) * stride;
        DISTWAR_UNROLL
        for (int k = 0; k + 4 <= K; k += 4) add_vector<4>(first + k, values, k);
        if constexpr (K % 4 >= 2) add_vector<2>(first + K / 4 * 4, values, K / 4 * 4);
        if constexpr (K % 2 == 1) distwar::atomic_add<S>(first + K - 1, values[K - 1]);
    }
    template <typename Key, typename V>
    __device__ __forceinline__ void add_one(Key key, int k, V value) const {
        static_assert(detail::is_same<V, Pair>, "distwar: the values have another type than the sink");
        distwar::atomic_add<S>(base + size_t(key) * stride + k, value);
    }
    // The sink of the values from `first` on, a multiple of 4.
    __device__ __forceinline__ aligned_pairs from(int first) const {
        return {base + first, stride};
    }

  private:
    template <int Count, int K>
    static __device__ __forceinline__ void add_vector(Pair *address, const Pair (&values)[K], int first) {
        if (detail::add_pairs<S, Count>(address, values, first)) return;
        DISTWAR_UNROLL
        for (int i = 0; i < Count; ++i) distwar::atomic_add<S>(address + i, values[first + i]);
    }
};
template <typename Pair>
__host__ __device__ aligned_pairs(Pair *, size_t)->aligned_pairs<Pair>;
template <scope S, typename Pair>
using aligned_pairs_at = aligned_pairs<Pair, S>;
namespace detail {
template <typename Pair, scope S>
inline constexpr int values_of_stride<aligned_pairs<Pair, S>> = 1;
} // namespace detail

} // namespace distwar

#include "pop_macros.h"

#endif
