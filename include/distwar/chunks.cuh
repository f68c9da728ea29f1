// SPDX-License-Identifier: MIT
// The values of a call, in chunks: more of them than a warp sums at once, or a number known at run time.
//
//     // 513 channels of a pixel, computed one by one
//     distwar::reduce_tree_n<32>(lanes, active, splat, 513, [&](int k) { return weight * d_image[k]; },
//                                distwar::record<float>{d_color, 513}, threshold);
//
//     // an array that holds `count` values, at most 12
//     float val[12];
//     distwar::reduce_tree_n(lanes, active, vertex, count, val, distwar::record<float>{d_attribute, count});
//
// Every reduce_NAME has a twin for a number of values known at run time:
//
//     reduce_NAME_n<Chunk = 16>(lanes, active, key, count, values, sink, balance_threshold = 0)
//
//   Chunk   values that are summed at once and lie in registers: a multiple of 4, at most 64
//   count   the number of values, the same in all of `lanes`. <= 0: nothing is added
//   values  one of
//           - an array of at least `count` values. Up to 128 lie in registers, if all other uses of the array
//             have indices known at compile time; a longer one lies in local memory
//           - a callable value_of(k), for any count. Each active lane calls it once for each k < count, in
//             rising order, a chunk at a time; an inactive lane never. It contains no collective
//   sink    addressed by key (all sinks but `pointers`), with room for `count` values: value k is committed
//           as by the call with `count` as K. The last chunk is padded; padding is never committed
// The other arguments, the result and the contract are those of reduce_NAME (reduce.cuh).
//
// reduce_tree, reduce_serial, reduce_bfly, reduce_runs and add() of a handle take arrays of more than 64
// values in the same way, in chunks of 32, if the sink is addressed by key.
//
// Cost: keys are compared once for all chunks. Then each chunk costs what Chunk values cost in the call,
// without its search for the groups; for the tree chunk_shuffles(count, Chunk) shuffles for each key in all.
// On sm_90, one key, a record, beside the values themselves:
//
//     Chunk   instructions per chunk (value)   registers of a kernel that does nothing else
//     8       57 (7.1)                         30
//     16      88 (5.5)                         32
//     32      152 (4.8)                        48
//     array of 65, 100, 128 values             48, 80, 113
//
// Nothing is spilled. One lane alone (below the threshold, reduce_serial, reduce_bfly) adds whole chunks by
// vector atomics if the sink has them, the last chunk one by one.
//
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto value_of = [&](int k) { return k * lane; };
//     distwar::reduce_tree_n(distwar::all_lanes, true, lane / 16, 3, value_of, distwar::record<int>{sums, 3});
//     // sums: 0, 120, 240, 0, 376, 752
#ifndef DISTWAR_CHUNKS_CUH
#define DISTWAR_CHUNKS_CUH

#include "push_macros.h"

#include "atomic.cuh"
#include "sink.cuh"

namespace distwar {

namespace detail {

inline constexpr int max_tree_values = 64;
inline constexpr int array_chunk = 32;              // of arrays of more than 64 values
inline constexpr int max_values_in_registers = 128; // of an array; longer ones are read in a loop

template <typename T>
struct plain_type {
    using type = T;
};
template <typename T>
struct plain_type<T &> : plain_type<T> {};
template <typename T>
struct plain_type<const T> : plain_type<T> {};

// The type of value_of(k); void if that is no call.
template <typename ValueOf, typename = void>
struct result {
    using type = void;
};
template <typename ValueOf>
struct result<ValueOf, void_type<decltype(declared<const ValueOf &>()(0))>>
    : plain_type<decltype(declared<const ValueOf &>()(0))> {};
template <typename ValueOf>
using result_of = typename result<ValueOf>::type;

// Whether a sink has from(first), the sink of its values from `first` on, for vector atomics.
template <typename Sink, typename = void>
inline constexpr bool has_from = false;
template <typename Sink>
inline constexpr bool has_from<Sink, void_type<decltype(declared<const Sink &>().from(0))>> = true;

// The values first, first + 1, ... of a sink addressed by key. If Bounded, those from `count` on do not
// exist.
template <typename Sink, bool Bounded>
struct sink_part {
    using op = sink_operator<Sink>;
    const Sink &whole;
    int first, count;

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        if constexpr (has_from<Sink> && !Bounded) {
            whole.from(first).add(key, values);
        } else {
            if constexpr (has_from<Sink>)
                if (first + K <= count) {
                    whole.from(first).add(key, values);
                    return;
                }
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k)
                if (!Bounded || first + k < count) add_one(key, k, values[k]);
        }
    }
    // k < values_in(this).
    template <typename Key, typename V>
    __device__ __forceinline__ void add_one(Key key, int k, V value) const {
        whole.add_one(key, first + k, value);
    }
};

// The number of values of a chunk of K that exist. A tree compares it with the lane. nvcc 13 (sm_100) takes a
// comparison of the lane that does not change out of a loop, with two copies of the loop's shuffles.
template <int K, typename Sink>
__device__ __forceinline__ int values_in(const Sink &) {
    return K;
}
template <int K, typename Sink>
__device__ __forceinline__ int values_in(const sink_part<Sink, true> &part) {
    return part.count - part.first < K ? part.count - part.first : K;
}

// The values of a call: all K of an array or, if Bounded, the first `count` of them.
// each() calls commit(chunk, sink) for one chunk after another, with an array in registers and the sink of
// its values.
template <int Chunk, bool Bounded, int K, typename T>
struct array_values {
    using type = T;
    const T (&val)[K];
    int count;

    template <typename Sink, typename Commit>
    __device__ __forceinline__ void each(bool /*active*/, const Sink &sink, const Commit &commit) const {
        if constexpr (!Bounded && (K <= max_tree_values || !is_addressed_by_key<Sink, int, T>)) {
            commit(val, sink);
        } else {
            static_assert(Bounded || values_of_sink<Sink> == 0 || values_of_sink<Sink> == K,
                          "distwar: the fields hold another number of values than there are");
            if constexpr (K <= max_values_in_registers)
                unrolled<0>(sink, commit);
            else
                looped(sink, commit);
        }
    }

  private:
    template <int First, typename Sink, typename Commit>
    __device__ __forceinline__ void unrolled(const Sink &sink, const Commit &commit) const {
        if (Bounded && First >= count) return;
        constexpr int size = K - First < Chunk ? K - First : Chunk;
        T chunk[size];
        DISTWAR_UNROLL
        for (int i = 0; i < size; ++i) chunk[i] = val[First + i];
        commit(chunk, sink_part<Sink, Bounded>{sink, First, count});
        if constexpr (First + size < K) unrolled<First + size>(sink, commit);
    }
    template <typename Sink, typename Commit>
    __device__ __forceinline__ void looped(const Sink &sink, const Commit &commit) const {
        for (int first = 0; first < count; first += Chunk) {
            T chunk[Chunk];
            DISTWAR_UNROLL
            for (int i = 0; i < Chunk; ++i)
                chunk[i] = K % Chunk == 0 || first + i < K ? val[first + i] : detail::zero<T>();
            commit(chunk, sink_part<Sink, true>{sink, first, count});
        }
    }
};
template <int K, typename T>
__device__ __forceinline__ array_values<array_chunk, false, K, T> all_of(const T (&val)[K]) {
    return {val, K};
}

// `count` values that a callable returns.
template <int Chunk, typename ValueOf>
struct called_values {
    using type = result_of<ValueOf>;
    static_assert(!is_same<type, void>, "distwar: the values are an array or a callable value_of(k)");
    const ValueOf &value_of;
    int count;

    template <typename Sink, typename Commit>
    __device__ __forceinline__ void each(bool active, const Sink &sink, const Commit &commit) const {
        for (int first = 0; first < count; first += Chunk) {
            type chunk[Chunk] = {};
            const int own = active ? count - first : 0; // values of this lane
            if (own >= Chunk) {                         // one branch for all values, so that loads overlap
                DISTWAR_UNROLL
                for (int i = 0; i < Chunk; ++i) chunk[i] = value_of(first + i);
            } else {
                DISTWAR_UNROLL
                for (int i = 0; i < Chunk; ++i)
                    if (i < own) chunk[i] = value_of(first + i);
            }
            commit(chunk, sink_part<Sink, true>{sink, first, count});
        }
    }
};

template <int Chunk, int K, typename T>
__device__ __forceinline__ array_values<Chunk, true, K, T> counted(int count, const T (&val)[K]) {
    return {val, count};
}
template <int Chunk, typename ValueOf>
__device__ __forceinline__ called_values<Chunk, ValueOf> counted(int count, const ValueOf &value_of) {
    return {value_of, count};
}

template <int Chunk, typename Values, typename Key, typename Sink>
__device__ __forceinline__ constexpr void check_counted() {
    static_assert(Chunk >= 4 && Chunk <= max_tree_values && Chunk % 4 == 0,
                  "distwar: a chunk is a multiple of 4 values, at most 64");
    static_assert(
        is_addressed_by_key<Sink, decltype(detail::plain_key(declared<Key>())), typename Values::type>,
        "distwar: a number of values known at run time needs a sink addressed by key");
}

// The caller adds its own values.
template <typename Key>
struct plain_commit {
    Key key;

    template <int K, typename T, typename Sink>
    __device__ __forceinline__ void operator()(const T (&val)[K], const Sink &sink) const {
        sink.add(key, val);
    }
};

} // namespace detail

} // namespace distwar

#include "pop_macros.h"

#endif
