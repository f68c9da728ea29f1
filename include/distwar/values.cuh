// SPDX-License-Identifier: MIT
// values: one list of what lies in several variables, as the K values of a call.
//
//     float3 color; float opacity; float conic[3]; // 3 + 1 + 3 values
//     distwar::reduce(lanes, active, splat, distwar::values(color, opacity, conic), sink);
//
// values(float3{1, 2, 3}, 4.0f).of is {1, 2, 3, 4}, and the K of the call is 4.
#ifndef DISTWAR_VALUES_CUH
#define DISTWAR_VALUES_CUH

#include "push_macros.h"

#include "atomic.cuh"
#include "lanes.cuh"
#include "sink.cuh"

namespace distwar {

// K values of one type. reduce and the add() of groups take it; other calls take its array `of`.
template <int K, typename T>
struct value_list {
    T of[K];
};

namespace detail {

// Whether V is a single value: a type that a warp can sum.
template <typename V>
inline constexpr bool is_value = is_same<value_of<V>, V>;
template <bool>
struct only_if {};
template <>
struct only_if<true> {
    using type = void;
};

template <typename V, typename = void>
inline constexpr bool has_y = false;
template <typename V>
inline constexpr bool has_y<V, void_type<decltype(declared<V>().y)>> = true;
template <typename V, typename = void>
inline constexpr bool has_z = false;
template <typename V>
inline constexpr bool has_z<V, void_type<decltype(declared<V>().z)>> = true;
template <typename V, typename = void>
inline constexpr bool has_w = false;
template <typename V>
inline constexpr bool has_w<V, void_type<decltype(declared<V>().w)>> = true;

// Count and type of the values in a V: itself, an array, or a vector of CUDA.
template <typename V, bool IsVector = has_y<V> && !is_packed<V>>
struct parts_of {
    using type = V;
    static constexpr int count = 1;
    static __device__ __forceinline__ V part(const V &value, int) { return value; }
};
template <typename V, int N>
struct parts_of<V[N], false> {
    using type = typename parts_of<V>::type;
    static constexpr int each = parts_of<V>::count, count = N * each;
    static __device__ __forceinline__ type part(const V (&value)[N], int k) {
        return parts_of<V>::part(value[k / each], k % each);
    }
};
template <typename V>
struct parts_of<V, true> {
    using type = decltype(V::x);
    static constexpr int count = has_w<V> ? 4 : has_z<V> ? 3 : 2;
    static __device__ __forceinline__ type part(const V &value, int k) {
        if constexpr (has_w<V>)
            if (k == 3) return value.w;
        if constexpr (has_z<V>)
            if (k == 2) return value.z;
        return k == 0 ? value.x : value.y;
    }
};

template <int First, int K, typename T>
__device__ __forceinline__ void fill(T (&)[K]) {}
template <int First, int K, typename T, typename V, typename... More>
__device__ __forceinline__ void fill(T (&all)[K], const V &value, const More &...more) {
    using parts = parts_of<V>;
    static_assert(is_same<typename parts::type, T>, "distwar: the values of a list have one type");
    DISTWAR_UNROLL
    for (int k = 0; k < parts::count; ++k) all[First + k] = parts::part(value, k);
    detail::fill<First + parts::count>(all, more...);
}

} // namespace detail

// The values of all arguments in their order.
//   arguments  single values, arrays of them, or CUDA's vectors (float2, float3, double4, int2, ...), all of one
//              type of value
// Cost: none, if the arguments lie in registers.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto list = distwar::values(float3{1, 2, 3}, 4.0f);
//     distwar::reduce(distwar::all_lanes, lane < 2, 0, list, distwar::record<float>{sums, 4});
//     // sums: 2, 4, 6, 8
template <typename First, typename... More>
__device__ __forceinline__ auto values(const First &first, const More &...more) {
    using T = typename detail::parts_of<First>::type;
    static_assert(detail::is_value<T>, "distwar: values are float, double or integers of 4 or 8 bytes");
    value_list<(detail::parts_of<First>::count + ... + detail::parts_of<More>::count), T> list;
    detail::fill<0>(list.of, first, more...);
    return list;
}

} // namespace distwar

#include "pop_macros.h"

#endif
