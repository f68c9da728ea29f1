// SPDX-License-Identifier: MIT
// The values of a call: one list of what lies in several variables; more values than a warp sums at once, or a number
// known at run time, in chunks.
#ifndef DISTWAR_VALUES_CUH
#define DISTWAR_VALUES_CUH

#include "sink.cuh"

namespace distwar {

namespace detail {

// What values() returns. reduce and the add() of groups take it; other calls take its array `of`.
template <int K, typename T>
struct value_list {
    T of[K];
};

// Whether a V is a vector of CUDA: it has a member y.
template <typename V, typename = void>
inline constexpr bool is_vector = false;
template <typename V>
inline constexpr bool is_vector<V, void_type<decltype(declared<V>().y)>> = !is_packed<V>;

// The type of the values in a V: itself, an array, or a vector of CUDA.
template <typename V>
__device__ auto part_of(const V &given) {
    if constexpr (is_vector<V>)
        return given.x;
    else
        return given;
}
template <typename V, int N>
__device__ auto part_of(const V (&given)[N]) {
    return detail::part_of(given[0]);
}
template <typename V>
using part = decltype(detail::part_of(declared<const V &>()));

// Writes the values of `given` from `at` on and returns the place behind them.
template <typename T, typename V>
DISTWAR_DEVICE T *fill(T *at, const V &given) {
    static_assert(is_same<part<V>, T>, "distwar: the values of a list have one type");
    constexpr size_t bytes = sizeof given;
    if constexpr (is_same<V, T>) // by its bytes it takes more instructions
        *at = given;
    else
        ::memcpy(static_cast<void *>(at), &given, bytes);
    return at + bytes / sizeof(T);
}

} // namespace detail

// The values of all arguments in their order, as the K values of a call: single values, arrays of them, or CUDA's vectors
// (float2, float3, double4, int2, ...), all of one type of value. Cost: none, if they lie in registers.
//
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto list = distwar::values(float3{1, 2, 3}, 4.0f);
//     distwar::reduce(distwar::all_lanes, lane < 2, 0, list, distwar::record<float>{sums, 4});
//     // sums: 2, 4, 6, 8
template <typename First, typename... More>
DISTWAR_DEVICE auto values(const First &first, const More &...more) {
    using T = detail::part<First>;
    static_assert(
        detail::is_value<T>,
        "distwar: values are float, double or integers of 4 or 8 bytes; for __half and __nv_bfloat16 pass floats");
    detail::value_list<int((sizeof(First) + ... + sizeof(More)) / sizeof(T)), T> list;
    [[maybe_unused]] T *at = detail::fill(list.of, first);
    (static_cast<void>(at = detail::fill(at, more)), ...);
    return list;
}

namespace detail {

inline constexpr int max_tree_values = 64;
inline constexpr int array_chunk = 32; // of arrays of more than 64 values

// The type of value_of(k), or of the values behind a pointer; void if it is neither.
template <typename V>
__device__ V copy_of(const V &);
template <typename ValueOf>
__device__ auto result(const ValueOf &value_of, int) -> decltype(detail::copy_of(value_of(0)));
template <typename T>
__device__ auto result(const T *first, int) -> decltype(detail::copy_of(*first));
template <typename ValueOf>
__device__ void result(const ValueOf &, long);

// Whether a sink has from(first), the sink of its values from `first` on, for vector atomics.
template <typename Sink, typename = void>
inline constexpr bool has_from = false;
template <typename Sink>
inline constexpr bool has_from<Sink, void_type<decltype(declared<const Sink &>().from(0))>> = true;

// The values first, first + 1, ... of a sink addressed by key; those from `count` on do not exist.
template <typename Sink>
struct sink_part {
    using op = sink_operator<Sink>;
    const Sink &whole;
    int first, count;

    template <typename Key, int K, typename V>
    DISTWAR_DEVICE void add(Key key, const V (&values)[K]) const {
        if constexpr (has_from<Sink>)
            if (first + K <= count) return whole.from(first).add(key, values);
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k)
            if (first + k < count) add_one(key, k, values[k]);
    }
    // k < values_in(this).
    template <typename Key, typename V>
    DISTWAR_DEVICE void add_one(Key key, int k, V given) const {
        whole.add_one(key, first + k, given);
    }
};

// The number of values of a chunk of K that exist, which a tree compares with the lane. nvcc 13 (sm_100) takes a comparison
// of the lane that does not change out of a loop, with two copies of the loop's shuffles.
template <int K, typename Sink>
DISTWAR_DEVICE int values_in(const Sink &) {
    return K;
}
template <int K, typename Sink>
DISTWAR_DEVICE int values_in(const sink_part<Sink> &part) {
    return part.count - part.first < K ? part.count - part.first : K;
}

// `count` values that a callable returns, or that lie behind a pointer. each() calls commit(chunk, sink) for one chunk
// after another, an array in registers.
template <int Chunk, typename ValueOf>
struct called_values {
    using type = decltype(detail::result(declared<const ValueOf &>(), 0));
    static_assert(
        !is_same<type, void>,
        "distwar: the values are an array, a pointer or a callable value_of(k), [&](int k) { return ...; }");
    static constexpr int at_once = Chunk;
    const ValueOf &value_of;
    int count;

    DISTWAR_DEVICE type at(int k) const {
        if constexpr (is_pointer<ValueOf>)
            return value_of[k];
        else
            return value_of(k);
    }

    template <typename Sink, typename Commit>
    DISTWAR_DEVICE void each(bool active, const Sink &sink, const Commit &commit) const {
        for (int first = 0; first < count; first += Chunk) {
            type chunk[Chunk] = {};
            const int own = active ? count - first : 0; // values of this lane
            if (own >= Chunk) {                         // one branch for all values, so that loads overlap
                DISTWAR_UNROLL
                for (int i = 0; i < Chunk; ++i) chunk[i] = at(first + i);
            } else {
                DISTWAR_UNROLL
                for (int i = 0; i < Chunk; ++i)
                    if (i < own) chunk[i] = at(first + i);
            }
            commit(chunk, sink_part<Sink>{sink, first, count});
        }
    }
};

// All K values of an array; of more than 64 in chunks, if the sink is addressed by key.
template <int K, typename T>
struct array_values {
    using type = T;
    static constexpr int at_once = K; // of a sink that is not addressed by key
    static constexpr int count = K;
    const T (&val)[K];

    template <typename Sink, typename Commit>
    DISTWAR_DEVICE void each([[maybe_unused]] bool active, const Sink &sink, const Commit &commit) const {
        if constexpr (K <= max_tree_values || !is_addressed_by_key<Sink, int, T>) {
            commit(val, sink);
        } else {
            static_assert(values_of_sink<Sink> == 0 || values_of_sink<Sink> == K,
                          "distwar: the fields hold another number of values than there are");
            chunks<0>(sink, commit);
        }
    }

  private:
    template <int First, typename Sink, typename Commit>
    DISTWAR_DEVICE void chunks(const Sink &sink, const Commit &commit) const {
        constexpr int size = K - First < array_chunk ? K - First : array_chunk;
        T chunk[size];
        DISTWAR_UNROLL
        for (int i = 0; i < size; ++i) chunk[i] = val[First + i];
        commit(chunk, sink_part<Sink>{sink, First, K});
        if constexpr (First + size < K) chunks<First + size>(sink, commit);
    }
};
template <int K, typename T>
DISTWAR_DEVICE array_values<K, T> all_of(const T (&val)[K]) {
    return {val};
}
template <int K, typename T>
DISTWAR_DEVICE auto all_of(const value_list<K, T> &list) {
    return detail::all_of(list.of);
}

// The values of a call with a number of them known at run time, checked.
template <int Chunk, typename Key, typename Sink, typename Values>
DISTWAR_DEVICE auto counted(int count, const Values &values) {
    static_assert(Chunk >= 4 && Chunk <= max_tree_values && Chunk % 4 == 0,
                  "distwar: a chunk is a multiple of 4 values, at most 64");
    const called_values<Chunk, Values> some = {values, count};
    using type = typename decltype(some)::type;
    if constexpr (!is_same<type, void>) {
        static_assert(is_value<type>, "distwar: values are float, double or integers of 4 or 8 bytes");
        static_assert(is_addressed_by_key<Sink, plain_key_of<Key>, type>,
                      "distwar: a number of values known at run time needs a sink addressed by key");
    }
    return some;
}

// The caller adds its own values.
template <typename Key>
struct plain_commit {
    Key key;

    template <int K, typename T, typename Sink>
    DISTWAR_DEVICE void operator()(const T (&val)[K], const Sink &sink) const {
        sink.add(key, val);
    }
};

} // namespace detail

} // namespace distwar

#endif
