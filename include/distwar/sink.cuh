// SPDX-License-Identifier: MIT
// Sinks: where the K values of a key are added to in memory.
//
// A sink is any type with `add(key, values)`, called by one lane, that adds each of the K values atomically.
// These three take float and double, 64-bit integers (fixed.cuh), and half and bf16 from float values
// (half.cuh), and use K native atomics; addresses are aligned to their type, in global or shared memory.
//
// A sink that has `add_one(key, k, value)` as well, which adds value k alone, is addressed by key: it must be
// the same in all lanes of the call, because a lane may commit a value of a group that it does not belong to.
#ifndef DISTWAR_SINK_CUH
#define DISTWAR_SINK_CUH

#include "atomic.cuh"
#include "lanes.cuh"

namespace distwar {

namespace detail {

template <typename T>
__device__ T declared(); // for use in decltype alone
template <typename>
using void_type = void;

} // namespace detail

// Whether a sink is addressed by key: it has add_one(key, k, value).
template <typename Sink, typename Key, typename T, typename = void>
inline constexpr bool is_addressed_by_key = false;
template <typename Sink, typename Key, typename T>
inline constexpr bool is_addressed_by_key<Sink, Key, T,
                                          detail::void_type<decltype(detail::declared<const Sink &>().add_one(
                                              detail::declared<Key>(), 0, detail::declared<T>()))>> = true;

// Each lane's own K addresses; the key is not used. Lanes with equal keys must hold equal addresses, and
// lanes with different keys may hold any. Those of inactive lanes are never used.
template <int K, typename T>
struct pointers {
    static_assert(K >= 1, "distwar: a sink takes at least one value");
    static_assert(detail::is_destination<T>,
                  "distwar: a sink of pointers, record or planes takes float or double");
    T *address[K];

    template <typename Key, int N, typename V>
    __device__ __forceinline__ void add(Key, const V (&values)[N]) const {
        static_assert(N == K, "distwar: the sink has another number of addresses than there are values");
        static_assert(detail::is_same<V, detail::value_of<T>>,
                      "distwar: the values have another type than the sink");
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
    static_assert(detail::is_destination<T>,
                  "distwar: a sink of pointers, record or planes takes float or double");
    T *base;
    size_t stride;

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        static_assert(detail::is_same<V, detail::value_of<T>>,
                      "distwar: the values have another type than the sink");
        T *const first = base + size_t(key) * stride;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) atomic_add(first + k, values[k]);
    }
    template <typename Key, typename V>
    __device__ __forceinline__ void add_one(Key key, int k, V value) const {
        static_assert(detail::is_same<V, detail::value_of<T>>,
                      "distwar: the values have another type than the sink");
        atomic_add(base + size_t(key) * stride + k, value);
    }
};
template <typename T>
record(T *, size_t) -> record<T>;

// A record of floats that one lane adds to by fours and twos: base aligned to 16 bytes, stride a multiple
// of 4. From compute capability 9.0 on each is one atomic in global memory, so 9 values are 3 atomics;
// elsewhere, and where each lane adds one value, it is as record. Each value is added indivisibly, the record
// is not. The last three of K values where K mod 4 is 3 are a four with a zero: the float that follows them
// is the record's, too, and stays what it is if it is a number (a subnormal one may become 0).
struct aligned_record {
    float *base;
    size_t stride;

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        static_assert(detail::is_same<V, float>, "distwar: the values have another type than the sink");
        float *const first = base + size_t(key) * stride;
        constexpr int fours = K / 4 * 4;
        DISTWAR_UNROLL
        for (int k = 0; k < fours; k += 4)
            atomic_add(reinterpret_cast<float4 *>(first + k),
                       make_float4(values[k], values[k + 1], values[k + 2], values[k + 3]));
        if constexpr (K % 4 == 3)
            if (detail::add_vector<scope::device>(
                    reinterpret_cast<float4 *>(first + fours),
                    make_float4(values[fours], values[fours + 1], values[fours + 2], 0)))
                return;
        if constexpr (K % 4 >= 2)
            atomic_add(reinterpret_cast<float2 *>(first + fours),
                       make_float2(values[fours], values[fours + 1]));
        if constexpr (K % 2 == 1) atomic_add(first + K - 1, values[K - 1]);
    }
    template <typename Key, typename V>
    __device__ __forceinline__ void add_one(Key key, int k, V value) const {
        static_assert(detail::is_same<V, float>, "distwar: the values have another type than the sink");
        atomic_add(base + size_t(key) * stride + k, value);
    }
};

// Value k of a key lies at base[k * stride + key]. The same base and stride in all lanes, 0 <= key < stride.
template <typename T>
struct planes {
    static_assert(detail::is_destination<T>,
                  "distwar: a sink of pointers, record or planes takes float or double");
    T *base;
    size_t stride;

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        static_assert(detail::is_same<V, detail::value_of<T>>,
                      "distwar: the values have another type than the sink");
        T *const first = base + size_t(key);
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) atomic_add(first + k * stride, values[k]);
    }
    template <typename Key, typename V>
    __device__ __forceinline__ void add_one(Key key, int k, V value) const {
        static_assert(detail::is_same<V, detail::value_of<T>>,
                      "distwar: the values have another type than the sink");
        atomic_add(base + size_t(k) * stride + size_t(key), value);
    }
};
template <typename T>
planes(T *, size_t) -> planes<T>;

} // namespace distwar

#endif
