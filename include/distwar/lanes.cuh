// SPDX-License-Identifier: MIT
// The lanes of a warp: the caller's lane, the lanes that share a key, the largest value over the lanes.
//
// `lanes` is always an explicit mask of the lanes that make the call together. Each of them is in the mask,
// passes the same mask and makes the same call. Anything else is undefined.
#ifndef DISTWAR_LANES_CUH
#define DISTWAR_LANES_CUH

#include "push_macros.h"

#include "compiler.cuh"

namespace distwar {

inline constexpr unsigned all_lanes = 0xffffffff;

// A mask of lanes as the parameter of a call. Under simt it also tells refusals the line of the caller.
#if defined(__SIMT__)
using lane_mask = simt::Call_lanes;
#else
using lane_mask = unsigned;
#endif

// Whether T can be a key: true for integers of 4 and 8 bytes.
template <typename T>
inline constexpr bool is_key = false;
template <>
inline constexpr bool is_key<int> = true;
template <>
inline constexpr bool is_key<unsigned> = true;
template <>
inline constexpr bool is_key<long> = true;
template <>
inline constexpr bool is_key<unsigned long> = true;
template <>
inline constexpr bool is_key<long long> = true;
template <>
inline constexpr bool is_key<unsigned long long> = true;

// A key that all of `lanes` hold, inactive lanes included. The caller guarantees this. A call with a
// uniform_key does not search for groups: this saves one shuffle, one vote and the code for several keys.
template <typename Key>
struct uniform_key {
    Key key;
};
template <typename Key>
__host__ __device__ uniform_key(Key)->uniform_key<Key>;
template <typename Key>
inline constexpr bool is_key<uniform_key<Key>> = is_key<Key>;

namespace detail {

template <typename Key>
inline constexpr bool is_uniform = false;
template <typename Key>
inline constexpr bool is_uniform<uniform_key<Key>> = true;

// The key as an integer, in the form that sinks take.
template <typename Key>
__device__ __forceinline__ Key plain_key(Key key) {
    return key;
}
template <typename Key>
__device__ __forceinline__ Key plain_key(uniform_key<Key> key) {
    return key.key;
}

// Under simt a uniform_key that differs between the lanes of a call is refused.
template <typename Key>
__device__ __forceinline__ void check_key(Key) {}
template <typename Key>
__device__ __forceinline__ void check_key([[maybe_unused]] uniform_key<Key> key) {
#if defined(__SIMT__)
    simt::promise({"a uniform_key differs between lanes of a call", 0, std::uint64_t(key.key), false});
#endif
}

} // namespace detail

// The caller's lane in its warp, 0..31.
__device__ __forceinline__ unsigned lane_id() {
#if !defined(__SIMT__)
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
#else
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
#endif
}

namespace detail {

// The form in which a T moves between lanes and through selects: itself. packed.cuh has the bits of a pair of
// 16-bit values, as a float.
template <typename T>
struct moved {
    using type = T;
    static __device__ __forceinline__ T form(T value) { return value; }
    static __device__ __forceinline__ T value(T form) { return form; }
};
// Whether T is a pair of 16-bit values.
template <typename T>
inline constexpr bool is_packed = false;

// The shuffles of a T. Cost: one; of 8 bytes two.
template <typename T>
__device__ __forceinline__ T shuffle(unsigned lanes, T value, int source) {
    return moved<T>::value(__shfl_sync(lanes, moved<T>::form(value), source));
}
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int distance) {
    return moved<T>::value(__shfl_xor_sync(all_lanes, moved<T>::form(value), distance));
}
template <typename T>
__device__ __forceinline__ T shuffle_down(T value, unsigned distance) {
    return moved<T>::value(__shfl_down_sync(all_lanes, moved<T>::form(value), distance));
}

// select       returns a if condition != 0, else b.
// add_selected adds a to sum if condition != 0, else b.
//
// Both without a branch. For `condition ? a : b` a compiler may emit a branch and then duplicate the shuffles
// that follow it, once for each side. add_selected is two predicated additions: those run on the
// floating-point pipe, while a select runs on the pipe of integers and comparisons, which is half as wide.
#if !defined(__SIMT__)
#define DISTWAR_WITHOUT_BRANCH(T, letter, bits, addition)                                                    \
    __device__ __forceinline__ T select(unsigned condition, T a, T b) {                                      \
        T chosen;                                                                                            \
        asm("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %3, 0;\n\tselp." bits " %0, %1, %2, p;\n\t}"               \
            : "=" letter(chosen)                                                                             \
            : letter(a), letter(b), "r"(condition));                                                         \
        return chosen;                                                                                       \
    }                                                                                                        \
    __device__ __forceinline__ void add_selected(unsigned condition, T &sum, T a, T b) {                     \
        asm("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %3, 0;\n\t@p " addition " %0, %0, %1;\n\t@!p " addition    \
            " %0, %0, %2;\n\t}"                                                                              \
            : "+" letter(sum)                                                                                \
            : letter(a), letter(b), "r"(condition));                                                         \
    }
DISTWAR_WITHOUT_BRANCH(float, "f", "f32", "add.f32")
DISTWAR_WITHOUT_BRANCH(double, "d", "f64", "add.f64")
DISTWAR_WITHOUT_BRANCH(int, "r", "b32", "add.s32")
DISTWAR_WITHOUT_BRANCH(unsigned, "r", "b32", "add.u32")
DISTWAR_WITHOUT_BRANCH(long long, "l", "b64", "add.s64")
DISTWAR_WITHOUT_BRANCH(unsigned long long, "l", "b64", "add.u64")
#undef DISTWAR_WITHOUT_BRANCH
template <typename T>
__device__ __forceinline__ T select(unsigned condition, T a, T b) {
    static_assert(is_packed<T>, "distwar: the values have no type that a warp can sum");
    return moved<T>::value(detail::select(condition, moved<T>::form(a), moved<T>::form(b)));
}
#else
template <typename T>
T select(unsigned condition, T a, T b) {
    return condition != 0 ? a : b;
}
template <typename T>
void add_selected(unsigned condition, T &sum, T a, T b) {
    sum += condition != 0 ? a : b;
}
#endif

// The low half of the pair (low, high) after a right shift by `bits`: low for 0, high for 32, 0 for 64. For
// floats this is one 64-bit shift.
#if !defined(__SIMT__)
__device__ __forceinline__ float shift_pair(unsigned bits, float low, float high) {
    float shifted;
    asm("{\n\t.reg .b64 pair;\n\t.reg .b32 rest;\n\tmov.b64 pair, {%1, %2};\n\tshr.b64 pair, pair, "
        "%3;\n\tmov.b64 {%0, rest}, pair;\n\t}"
        : "=f"(shifted)
        : "f"(low), "f"(high), "r"(bits));
    return shifted;
}
#else
inline float shift_pair(unsigned bits, float low, float high) {
    const unsigned long long pair = (unsigned long long)(__float_as_uint(high)) << 32 | __float_as_uint(low);
    return __uint_as_float(unsigned(bits < 64 ? pair >> bits : 0));
}
#endif
template <typename T>
__device__ __forceinline__ T shift_pair(unsigned bits, T low, T high) {
    if constexpr (is_packed<T>) {
        return moved<T>::value(detail::shift_pair(bits, moved<T>::form(low), moved<T>::form(high)));
    } else {
        const T shifted = detail::select(bits, high, low);
        return bits < 64 ? shifted : T(0);
    }
}

} // namespace detail

// The lowest lane of the set, which must not be empty.
__device__ __forceinline__ unsigned lowest_lane(unsigned set) {
    return unsigned(__ffs(int(set))) - 1;
}

// The highest lane of the set, which must not be empty.
__device__ __forceinline__ unsigned highest_lane(unsigned set) {
    return 31 - unsigned(__clz(int(set)));
}

// The lanes of the set below the caller.
__device__ __forceinline__ unsigned lanes_below(unsigned set) {
    return set & ((1u << lane_id()) - 1);
}

__device__ __forceinline__ int count_lanes(unsigned set) {
    return __popc(set);
}

// The mask of those of `lanes` that hold the caller's key, the caller included. Cost: one match; nothing for
// a uniform_key.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const unsigned group = distwar::lanes_with_key(distwar::all_lanes, lane % 16);
//     if (lane < 2) found[lane] = group; // 0x10001, 0x20002
//     // found: 65537, 131074
template <typename Key>
__device__ __forceinline__ unsigned lanes_with_key(unsigned lanes, Key key) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    return __match_any_sync(lanes, key);
}
template <typename Key>
__device__ __forceinline__ unsigned lanes_with_key(unsigned lanes, uniform_key<Key>) {
    return lanes;
}

// Whether all active lanes hold the same key.
//   active_lanes  the mask of the lanes that pass `active`, the same in all lanes, not empty
//   key           ignored in inactive lanes
//   shared        out, in all of `lanes`: the key of the lowest active lane
// Returns the same value in all of `lanes`. Cost: one shuffle (8-byte keys: two) and one vote; nothing for a
// uniform_key.
// Example (one warp, `lane` its lane, arrays of zeros):
//     int shared;
//     const bool one = distwar::share_one_key(distwar::all_lanes, 0xff00, lane / 8 == 1, lane / 8 + 4, shared);
//     if (lane == 31) found[0] = one, found[1] = shared;
//     // found: 1, 5
template <typename Key>
__device__ __forceinline__ bool share_one_key(unsigned lanes, unsigned active_lanes, bool active, Key key,
                                              Key &shared) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    shared = __shfl_sync(lanes, key, int(lowest_lane(active_lanes)));
    return __all_sync(lanes, key == shared || !active);
}
template <typename Key>
__device__ __forceinline__ bool share_one_key(unsigned, unsigned, bool, uniform_key<Key> key, Key &shared) {
    shared = key.key;
    return true;
}

namespace detail {

// The maximum of `value` (0..63) over `lanes`, in all of them. Cost: six votes.
__device__ __forceinline__ unsigned largest_by_votes(unsigned lanes, unsigned value) {
    unsigned largest = 0;
    bool leads = true; // the bits so far equal those of the maximum
    DISTWAR_UNROLL
    for (int bit = 5; bit >= 0; --bit) {
        const bool set = value >> bit & 1;
        const bool any = __any_sync(lanes, leads && set);
        leads = leads && set == any;
        largest |= unsigned(any) << bit;
    }
    return largest;
}

} // namespace detail

// The maximum of `value` (0..63) over `lanes`, in all of them. Cost: one redux; six votes before compute
// capability 8.0.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const unsigned most = distwar::largest(distwar::all_lanes, unsigned(lane * 7 % 32));
//     if (lane == 0) found[0] = int(most);
//     // found: 31
__device__ __forceinline__ unsigned largest(unsigned lanes, unsigned value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return detail::largest_by_votes(lanes, value);
#elif defined(__clang__) && defined(__CUDA__)
    unsigned result; // PTX, because clang 16 has no __reduce_max_sync
    asm volatile("redux.sync.max.u32 %0, %1, %2;" : "=r"(result) : "r"(value), "r"(lanes) : "memory");
    return result;
#else
    return __reduce_max_sync(lanes, value);
#endif
}

} // namespace distwar

#include "pop_macros.h"

#endif
