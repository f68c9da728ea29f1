// SPDX-License-Identifier: MIT
// Sinks: where the K values of a key are added to in memory.
//
// A sink is any type with `add(key, values)`, called by one lane, that adds each of the K values atomically.
// These three take float and double and use K native atomics; addresses are aligned to their type.
#ifndef DISTWAR_SINK_CUH
#define DISTWAR_SINK_CUH

#include "atomic.cuh"
#include "lanes.cuh"

namespace distwar {

namespace detail {

template <typename A, typename B>
inline constexpr bool is_same = false;
template <typename A>
inline constexpr bool is_same<A, A> = true;

template <typename T>
inline constexpr bool is_value = is_same<T, float> || is_same<T, double>;

} // namespace detail

// Each lane's own K addresses; the key is not used. Lanes with equal keys must hold equal addresses, and
// lanes with different keys may hold any. Those of inactive lanes are never used.
template <int K, typename T>
struct pointers {
    static_assert(K >= 1, "distwar: a sink takes at least one value");
    static_assert(detail::is_value<T>, "distwar: a sink of pointers, record or planes takes float or double");
    T *address[K];

    template <typename Key, int N, typename V>
    __device__ __forceinline__ void add(Key, const V (&values)[N]) const {
        static_assert(N == K, "distwar: the sink has another number of addresses than there are values");
        static_assert(detail::is_same<V, T>, "distwar: the values have another type than the sink");
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) atomic_add(address[k], values[k]);
    }
};
template <typename T, typename... More>
pointers(T *, More *...) -> pointers<1 + int(sizeof...(More)), T>;

// Value k of a key lies at base[key * stride + k]. The same base and stride in all lanes, stride >= K, key >=
// 0.
template <typename T>
struct record {
    static_assert(detail::is_value<T>, "distwar: a sink of pointers, record or planes takes float or double");
    T *base;
    size_t stride;

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        static_assert(detail::is_same<V, T>, "distwar: the values have another type than the sink");
        T *const first = base + size_t(key) * stride;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) atomic_add(first + k, values[k]);
    }
};
template <typename T>
record(T *, size_t) -> record<T>;

// Value k of a key lies at base[k * stride + key]. The same base and stride in all lanes, 0 <= key < stride.
template <typename T>
struct planes {
    static_assert(detail::is_value<T>, "distwar: a sink of pointers, record or planes takes float or double");
    T *base;
    size_t stride;

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        static_assert(detail::is_same<V, T>, "distwar: the values have another type than the sink");
        T *const first = base + size_t(key);
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) atomic_add(first + k * stride, values[k]);
    }
};
template <typename T>
planes(T *, size_t) -> planes<T>;

} // namespace distwar

#endif
