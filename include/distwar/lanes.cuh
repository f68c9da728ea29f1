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

// Choices that depend on the lane, without a branch: of `condition ? a : b` compilers may make one, and then
// copies of the shuffles behind it, one for each way that a lane may have come. A condition is true if it is
// not 0. add_either adds a if it is true, else b: as two predicated additions, because those share the pipes
// of floating point, while selects crowd that of integers and comparisons, which is half as wide.
#if defined(__CUDACC__)
#define DISTWAR_WITHOUT_BRANCH(T, letter, bits, addition)                                                    \
    __device__ __forceinline__ T select(unsigned condition, T a, T b) {                                      \
        T chosen;                                                                                            \
        asm("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %3, 0;\n\tselp." bits " %0, %1, %2, p;\n\t}"               \
            : "=" letter(chosen)                                                                             \
            : letter(a), letter(b), "r"(condition));                                                         \
        return chosen;                                                                                       \
    }                                                                                                        \
    __device__ __forceinline__ void add_either(unsigned condition, T &sum, T a, T b) {                       \
        asm("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %3, 0;\n\t@p " addition " %0, %0, %1;\n\t@!p " addition    \
            " %0, %0, %2;\n\t}"                                                                              \
            : "+" letter(sum)                                                                                \
            : letter(a), letter(b), "r"(condition));                                                         \
    }
DISTWAR_WITHOUT_BRANCH(float, "f", "f32", "add.f32")
DISTWAR_WITHOUT_BRANCH(double, "d", "f64", "add.f64")
DISTWAR_WITHOUT_BRANCH(long long, "l", "b64", "add.s64")
DISTWAR_WITHOUT_BRANCH(unsigned long long, "l", "b64", "add.u64")
#undef DISTWAR_WITHOUT_BRANCH
#else
template <typename T>
T select(unsigned condition, T a, T b) {
    return condition != 0 ? a : b;
}
template <typename T>
void add_either(unsigned condition, T &sum, T a, T b) {
    sum += condition != 0 ? a : b;
}
#endif

// a for which = 0, b for 32, and 0 for 64: of floats a single shift of both.
template <typename T>
__device__ __forceinline__ T choose(unsigned which, T a, T b) {
    const T chosen = select(which, b, a);
    return which < 64 ? chosen : T(0);
}
#if defined(__CUDACC__)
__device__ __forceinline__ float choose(unsigned which, float a, float b) {
    float chosen;
    asm("{\n\t.reg .b64 both;\n\t.reg .b32 rest;\n\tmov.b64 both, {%1, %2};\n\tshr.b64 both, both, "
        "%3;\n\tmov.b64 {%0, rest}, both;\n\t}"
        : "=f"(chosen)
        : "f"(a), "f"(b), "r"(which));
    return chosen;
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

// Whether all active ones of `lanes`, which must be some, hold one key. The keys of other lanes are ignored.
// `active_lanes` is the mask of lanes that pass `active`, the same in all of them. True or false in all of
// `lanes`, and `shared` is the key of the lowest active lane in all of them. Cost: one shuffle (of 8 bytes:
// two) and one vote; nothing for a uniform_key.
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
