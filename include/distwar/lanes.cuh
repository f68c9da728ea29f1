// SPDX-License-Identifier: MIT
// The lanes of a warp: who am I, which lanes share my key, the largest value among us.
//
// `lanes` is always an explicit mask of the lanes that make the call together. Each of them must be in it,
// pass the same mask and make the same call; anything else is undefined.
#ifndef DISTWAR_LANES_CUH
#define DISTWAR_LANES_CUH

#include "version.h"
#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "distwar needs compute capability 7.0 or later: masked collectives and warp match"
#endif

// Before a loop whose count is a compile-time constant, so that arrays it indexes stay in registers.
#if defined(__CUDACC__)
#define DISTWAR_UNROLL _Pragma("unroll")
#else
#define DISTWAR_UNROLL
#endif

namespace distwar {

inline constexpr unsigned all_lanes = 0xffffffff;

// Whether keys may have this type: the integers of 4 and 8 bytes.
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

// A key that the caller knows to be one: all of `lanes` hold it, inactive lanes included. The calls then do
// not look for others, which saves a shuffle and a vote, and the code for several keys.
template <typename Key>
struct uniform_key {
    Key key;
};
template <typename Key>
uniform_key(Key) -> uniform_key<Key>;
template <typename Key>
inline constexpr bool is_key<uniform_key<Key>> = is_key<Key>;

// The integer itself, as sinks take it.
template <typename Key>
__device__ __forceinline__ Key plain_key(Key key) {
    return key;
}
template <typename Key>
__device__ __forceinline__ Key plain_key(uniform_key<Key> key) {
    return key.key;
}

// The calling thread's place in its warp, 0..31.
__device__ __forceinline__ unsigned lane_id() {
#if defined(__CUDACC__)
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
#else
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
#endif
}

// Exchanges a and b if `condition`, by selects. Written as `condition ? a : b` compilers make a branch of it,
// and then copies of the shuffles behind it, one for each way that a lane may have come.
#if defined(__CUDACC__)
#define DISTWAR_SWAP_IF(T, letter, type)                                                                     \
    __device__ __forceinline__ void swap_if(bool condition, T &a, T &b) {                                    \
        T first, second;                                                                                     \
        asm("{\n\t.reg .pred p;\n\tsetp.ne.s32 p, %4, 0;\n\tselp." type " %0, %3, %2, p;\n\tselp." type      \
            " %1, %2, %3, p;\n\t}"                                                                           \
            : "=&" letter(first), "=&" letter(second)                                                        \
            : letter(a), letter(b), "r"(int(condition)));                                                    \
        a = first;                                                                                           \
        b = second;                                                                                          \
    }
DISTWAR_SWAP_IF(float, "f", "f32")
DISTWAR_SWAP_IF(double, "d", "f64")
DISTWAR_SWAP_IF(long long, "l", "b64")
DISTWAR_SWAP_IF(unsigned long long, "l", "b64")
#undef DISTWAR_SWAP_IF
#else
template <typename T>
void swap_if(bool condition, T &a, T &b) {
    const T first = condition ? b : a, second = condition ? a : b;
    a = first;
    b = second;
}
#endif

// The lowest of a set of lanes, which must not be empty.
__device__ __forceinline__ unsigned lowest_lane(unsigned set) {
    return unsigned(__ffs(int(set))) - 1;
}

__device__ __forceinline__ int count_lanes(unsigned set) {
    return __popc(set);
}

// Which of `lanes` hold the caller's key, the caller included. Cost: one match.
template <typename Key>
__device__ __forceinline__ unsigned lanes_with_key(unsigned lanes, Key key) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    return __match_any_sync(lanes, key);
}
template <typename Key>
__device__ __forceinline__ unsigned lanes_with_key(unsigned lanes, uniform_key<Key>) {
    return lanes;
}

// Whether all of `active_lanes`, a non-empty subset of `lanes` and the same in all of them, hold one key. The
// keys of other lanes are ignored. True or false in all of `lanes`, and `shared` is the key of the lowest
// active lane in all of them. Cost: one shuffle (of 8 bytes: two) and one vote; nothing for a uniform_key.
template <typename Key>
__device__ __forceinline__ bool share_one_key(unsigned lanes, unsigned active_lanes, Key key, Key &shared) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    shared = __shfl_sync(lanes, key, int(lowest_lane(active_lanes)));
    const bool active = active_lanes >> lane_id() & 1;
    return __all_sync(lanes, key == shared || !active);
}
template <typename Key>
__device__ __forceinline__ bool share_one_key(unsigned, unsigned, uniform_key<Key> key, Key &shared) {
    shared = key.key;
    return true;
}
template <typename Key>
__device__ __forceinline__ bool share_one_key(unsigned lanes, unsigned active_lanes, Key key) {
    decltype(plain_key(key)) shared;
    return share_one_key(lanes, active_lanes, key, shared);
}

// The largest of `value` (0..63) over `lanes`, in all of them. Cost: six votes.
__device__ __forceinline__ unsigned largest_by_votes(unsigned lanes, unsigned value) {
    unsigned largest = 0;
    bool leads = true; // equals the largest in the bits seen so far
    DISTWAR_UNROLL
    for (int bit = 5; bit >= 0; --bit) {
        const bool set = value >> bit & 1;
        const bool any = __any_sync(lanes, leads && set);
        leads = leads && set == any;
        largest |= unsigned(any) << bit;
    }
    return largest;
}

// The same by one redux, which compute capability 8.0 brought; before, by votes.
__device__ __forceinline__ unsigned largest(unsigned lanes, unsigned value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return largest_by_votes(lanes, value);
#else
    return __reduce_max_sync(lanes, value);
#endif
}

} // namespace distwar

#endif
