// SPDX-License-Identifier: MIT
// Half and bfloat16 in memory. A warp sums in float, then rounds the sum once and adds it. Opt-in, because
// cuda_fp16.h and cuda_bf16.h take longer to compile than all of distwar.
//
// With this header atomic_add and the sinks `pointers`, `record` and `planes` also take __half and
// __nv_bfloat16. The values are float, in every reduce_*:
//
//     distwar::reduce_tree(lanes, active, key, val, distwar::record<__half>{gradient, 12}); // float val[9]
//
// Rounding: to nearest even, once when a value is committed and once in memory after each addition. A few
// large commits therefore lose less than many small ones. Overflow gives infinity, NaN stays NaN.
// Cost: a native atomic from compute capability 7.0 (half) and 9.0 (bfloat16) on. Before that, and at
// scope::system: a compare-and-swap loop.
#ifndef DISTWAR_HALF_CUH
#define DISTWAR_HALF_CUH

#include "atomic.cuh"
#include "lanes.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace distwar {

namespace detail {

// CUDA's 16-bit atomicAdd has device scope, which includes block scope. __hadd, because operator+ can be
// disabled (__CUDA_NO_HALF_OPERATORS__).
template <scope S, typename T>
__device__ __forceinline__ void add_rounded(T *address, T value) {
    if constexpr (S == scope::system)
        atomic_update<S>(address, value, [](T a, T b) { return __hadd(a, b); });
    else
        atomicAdd(address, value);
}

template <>
struct destination<__half> {
    using value = float;
    template <scope S>
    static __device__ __forceinline__ void add(__half *address, float value) {
        add_rounded<S>(address, __float2half_rn(value));
    }
};
template <>
struct destination<__nv_bfloat16> {
    using value = float;
    template <scope S>
    static __device__ __forceinline__ void add(__nv_bfloat16 *address, float value) {
        add_rounded<S>(address, __float2bfloat16_rn(value));
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

} // namespace detail

// Adds two values, rounded to 16 bits. Pair is __half2 or __nv_bfloat162, aligned to 4 bytes. Each of the two
// additions is atomic, both together need not be. Cost: one atomic; at scope::system two.
template <scope S = scope::device, typename Pair, typename Half = typename detail::pair_of<Pair>::half>
__device__ __forceinline__ void atomic_add(Pair *address, float2 value) {
    if constexpr (S == scope::system) {
        atomic_add<S>(reinterpret_cast<Half *>(address), value.x);
        atomic_add<S>(reinterpret_cast<Half *>(address) + 1, value.y);
    } else {
        atomicAdd(address, detail::pair_of<Pair>::rounded(value));
    }
}

// A sink of records of pairs (__half2, __nv_bfloat162): adds values 2i and 2i + 1 to base[key * stride + i].
//   base, stride  the same in all lanes; stride >= ceil(K / 2) pairs, key >= 0
// With an odd K the second half of the last pair is not touched.
// Cost, if one lane adds all values: ceil(K / 2) atomics, K with record<__half>.
template <typename Pair>
struct record_of_pairs {
    static_assert(detail::is_pair<Pair>, "distwar: a sink of pairs takes __half2 or __nv_bfloat162");
    Pair *base;
    size_t stride;

    template <typename Key, int K>
    __device__ __forceinline__ void add(Key key, const float (&values)[K]) const {
        Pair *const first = base + size_t(key) * stride;
        DISTWAR_UNROLL
        for (int i = 0; i < K / 2; ++i) atomic_add(first + i, float2{values[2 * i], values[2 * i + 1]});
        if constexpr (K % 2 == 1) add_one(key, K - 1, values[K - 1]);
    }
    template <typename Key>
    __device__ __forceinline__ void add_one(Key key, int k, float value) const {
        atomic_add(reinterpret_cast<typename detail::pair_of<Pair>::half *>(base + size_t(key) * stride) + k,
                   value);
    }
};
template <typename Pair>
record_of_pairs(Pair *, size_t) -> record_of_pairs<Pair>;

} // namespace distwar

#endif
