// SPDX-License-Identifier: MIT
// Sinks for vectors of V values of a table: place e holds values e V .. e V + V - 1.
#pragma once

#include "request.cuh"

#include <distwar/packed.cuh>

template <typename T>
struct pair_type;
template <>
struct pair_type<__half> {
    using type = __half2;
};
template <>
struct pair_type<__nv_bfloat16> {
    using type = __nv_bfloat162;
};

// Four or eight 16-bit values, by one vector atomic where there is one. A vector is aligned to its
// size, which is all that aligned_pairs and aligned_record need for K values of this size.
template <typename T, int V>
struct vector_places {
    using pair = typename pair_type<T>::type;
    static constexpr int values_of_a_request = V; // see tree.cuh
    pair *base;

    template <typename Key>
    __device__ __forceinline__ void add(Key key, const float (&values)[V]) const {
        pair pairs[V / 2];
        DISTWAR_UNROLL
        for (int i = 0; i < V / 2; ++i)
            pairs[i] = distwar::detail::pair_of<pair>::rounded({values[2 * i], values[2 * i + 1]});
        distwar::aligned_pairs<pair>{base, V / 2}.add(key, pairs);
    }
    template <typename Key>
    __device__ __forceinline__ void add_one(Key key, int k, float value) const {
        distwar::record_of_pairs<pair>{base, V / 2}.add_one(key, k, value);
    }
};

// Single 16-bit values: each as a pair whose other value is -0.0, which changes no number. A value at an end
// of the table whose pair lies outside takes a compare-and-swap.
template <typename T>
struct single_places {
    using pair = typename pair_type<T>::type;
    T *base;
    int64_t count; // values of the table

    template <typename Key>
    __device__ __forceinline__ void add(Key key, const float (&values)[1]) const {
        add_one(key, 0, values[0]);
    }
    template <typename Key>
    __device__ __forceinline__ void add_one(Key key, int, float value) const {
        T *const at = base + key;
        if (reinterpret_cast<uintptr_t>(at) % 4 == 0) {
            if (int64_t(key) + 1 < count) {
                distwar::atomic_add(reinterpret_cast<pair *>(at), float2{value, -0.0f});
                return;
            }
        } else if (key > 0) {
            distwar::atomic_add(reinterpret_cast<pair *>(at - 1), float2{-0.0f, value});
            return;
        }
        distwar::atomic_update(at, rounded<T>(value), distwar::add{});
    }
};

template <typename T, int V>
__device__ __forceinline__ auto places_of(void *table, int64_t count) {
    if constexpr (sizeof(T) == 4 && V > 1) {
        return distwar::aligned_record{static_cast<float *>(table), V};
    } else if constexpr (sizeof(T) == 4) {
        return distwar::record<float>{static_cast<float *>(table), V};
    } else if constexpr (V >= 4) {
        return vector_places<T, V>{static_cast<typename pair_type<T>::type *>(table)};
    } else if constexpr (V == 2) {
        return distwar::record_of_pairs<typename pair_type<T>::type>{
            static_cast<typename pair_type<T>::type *>(table), 1};
    } else {
        return single_places<T>{static_cast<T *>(table), count};
    }
}
