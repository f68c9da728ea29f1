// SPDX-License-Identifier: MIT
// Sinks: where the K values of a key are added in memory.
//
//     sink             value k is added to                 type in memory       atomics, if one lane adds K
//     ---------------  ----------------------------------  -------------------  ---------------------------
//     pointers         *address[k] of the lane             T                    K
//     record           base[key * stride + k]              T                    K
//     planes           base[k * stride + key]              T                    K
//     aligned_record   base[key * stride + k]              float                ceil(K / 4)
//     record_of_pairs  base[key * stride + k / 2], a half  half2, bfloat162     ceil(K / 2)
//     fields           record i of the key, in array i     T                    K (fields.cuh)
//     aligned_pairs    base[key * stride + k]              half2, bfloat162     ceil(K / 4) (packed.cuh)
//
// T is float, double, int, unsigned, long long, unsigned long long, half or bfloat16. Sums of unsigned
// integers wrap; those of signed ones must fit. half.cuh adds the 16-bit types and record_of_pairs,
// packed.cuh half2 and bfloat162 as T. The values have the type in memory, but float for half and bfloat16.
// record, planes, pointers and fields of double take float values, too.
// Addresses are aligned to their type, in global or shared memory.
//
// pointers, record and planes take an operator in place of the sum, as their last template argument: minimum
// and maximum, bit_and, bit_or, bit_xor (of integers), or multiply, which costs a compare-and-swap for each
// value (atomic_update in atomic.cuh), as do minimum and maximum of 16-bit types; fields_with is `fields`
// with an operator:
//
//     distwar::reduce(lanes, active, key, val, distwar::record<float, distwar::minimum>{lowest, 3});
//
// NaN values change no minimum or maximum; in memory there must be no NaN.
//
// The atomics have device scope. NAME_at is the sink NAME with another scope (atomic.cuh), for all sinks: the
// scope is its first template argument, as in atomic_add<scope::block>, and the others follow as for NAME.
//
//     distwar::record_at<distwar::scope::system, float>{gradient, 12}
//     distwar::record_at<distwar::scope::block, float, distwar::minimum>{lowest, 3}
//     distwar::aligned_record_at<distwar::scope::system>{gradient, 12}
//
// A sink of your own is any type with
//     add(key, values) const        adds each of the K values atomically; called by one lane
//     add_one(key, k, value) const  optional: adds value k alone; called by the lane that owns value k
// A sink with add_one is addressed by key. It must be the same in all lanes of the call, because a lane may
// commit a value of a group that it does not belong to. reduce_tree then commits all K values with one atomic
// instruction; without add_one it needs K more shuffles and K atomic instructions. Compute the address in
// add_one from a base and a stride that depend on k, not by branches: a branch splits the one instruction
// into several. Example: docs/kernels/backward.md.
//     from(first) const             optional, for calls in chunks (chunks.cuh): the sink of the values from
//                                   `first` on, a multiple of 4, so that one lane adds a whole chunk by
//                                   add(). Without it the lane calls add_one for each value
#ifndef DISTWAR_SINK_CUH
#define DISTWAR_SINK_CUH

#include "push_macros.h"

#include "atomic.cuh"
#include "lanes.cuh"

namespace distwar {

namespace detail {

template <typename T>
__device__ T declared(); // for use in decltype alone
template <typename>
using void_type = void;

} // namespace detail

// Whether a sink is addressed by key, that is, has add_one(key, k, value).
template <typename Sink, typename Key, typename T, typename = void>
inline constexpr bool is_addressed_by_key = false;
template <typename Sink, typename Key, typename T>
inline constexpr bool is_addressed_by_key<Sink, Key, T,
                                          detail::void_type<decltype(detail::declared<const Sink &>().add_one(
                                              detail::declared<Key>(), 0, detail::declared<T>()))>> = true;

namespace detail {

// The operator of a sink: its member type `op`, else add.
template <typename Sink, typename = void>
struct operator_of {
    using type = add;
};
template <typename Sink>
struct operator_of<Sink, void_type<typename Sink::op>> {
    using type = typename Sink::op;
};
template <typename Sink>
using sink_operator = typename operator_of<Sink>::type;

// The number of values of a sink that fixes it, else 0.
template <typename Sink>
inline constexpr int values_of_sink = 0;

template <typename T>
inline constexpr bool is_pointer = false;
template <typename T>
inline constexpr bool is_pointer<T *> = true;

// The number of values that a stride of 1 holds, of sinks whose stride is at least the number of values; else 0.
template <typename Sink>
inline constexpr int values_of_stride = 0;
// Whether the sink is `pointers`.
template <typename Sink>
inline constexpr bool is_pointers = false;

#if defined(__SIMT__)
// Whether a sink has room for `count` values of a key, by its strides.
template <typename Sink>
struct strides_of {
    static bool hold(const Sink &sink, int count) {
        if constexpr (values_of_stride<Sink> != 0)
            return sink.stride * values_of_stride<Sink> >= size_t(count);
        return true;
    }
};
#endif

// What every call asks of its key, its sink and its number of values, before its first collective. Under simt also
// what lanes must pass alike.
template <typename Key, typename Sink>
__device__ __forceinline__ void check_call([[maybe_unused]] bool active, [[maybe_unused]] Key key,
                                           [[maybe_unused]] const Sink &sink, [[maybe_unused]] int count) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    static_assert(!is_pointer<Sink>, "distwar: a sink is no pointer: write record<float>{pointer, stride}");
#if defined(__SIMT__)
    detail::check_key(key);
    if (!strides_of<Sink>::hold(sink, count))
        simt::refuse("the stride of a sink is below its number of values");
    if constexpr (is_pointers<Sink>)
        simt::promise({active ? "lanes with one key pass different addresses in pointers" : nullptr,
                       std::uint64_t(detail::plain_key(key)), active ? simt::digest(sink) : 0, true});
    else if constexpr (is_addressed_by_key<Sink, int, float> && __has_unique_object_representations(Sink))
        simt::promise(
            {"a sink that is addressed by key differs between lanes of a call, in its base or stride", 0,
             simt::digest(sink), false});
#endif
}

template <scope S>
inline constexpr bool is_scope = S == scope::block || S == scope::device || S == scope::system;

// The largest value of T, or infinity; the smallest, or -infinity.
template <typename T>
__device__ __forceinline__ T highest() {
    if constexpr (is_same<T, float>)
        return __int_as_float(0x7f800000);
    else if constexpr (is_same<T, double>)
        return __longlong_as_double(0x7ff0000000000000);
    else if constexpr (T(-1) < T(0))
        return T(~(1ull << (8 * sizeof(T) - 1)));
    else
        return T(-1);
}
template <typename T>
__device__ __forceinline__ T lowest() {
    if constexpr (is_same<T, float> || is_same<T, double>)
        return -highest<T>();
    else
        return T(~highest<T>());
}

// The numbers 0 and 1 as a T.
template <typename T>
__device__ __forceinline__ T zero() {
    return T(0);
}
template <typename T>
__device__ __forceinline__ T one() {
    return T(1);
}

// What a lane contributes to a minimum or a maximum: its value, or the neutral element if the lane is
// inactive or the value is NaN.
template <typename T>
__device__ __forceinline__ T operand(bool active, T value, minimum op) {
    const T neutral = highest<T>();
    return active ? op(neutral, value) : neutral;
}
template <typename T>
__device__ __forceinline__ T operand(bool active, T value, maximum op) {
    const T neutral = lowest<T>();
    return active ? op(neutral, value) : neutral;
}

template <typename T>
__device__ __forceinline__ T operand(bool active, T value, add) {
    return active ? value : detail::zero<T>();
}
template <typename T>
__device__ __forceinline__ T operand(bool active, T value, multiply) {
    return active ? value : detail::one<T>();
}
template <typename T>
__device__ __forceinline__ T operand(bool active, T value, bit_and) {
    return active ? value : T(~T(0));
}
template <typename T>
__device__ __forceinline__ T operand(bool active, T value, bit_or) {
    return active ? value : T(0);
}
template <typename T>
__device__ __forceinline__ T operand(bool active, T value, bit_xor) {
    return active ? value : T(0);
}

// An operator of the caller says what changes nothing: Op::neutral<T>().
template <typename T, typename Op>
__device__ __forceinline__ decltype(Op::template neutral<T>()) operand(bool active, T value, Op) {
    return active ? value : Op::template neutral<T>();
}

// sum = op(sum, other)
template <typename T, typename Op>
__device__ __forceinline__ void combine(T &sum, T other, Op op) {
    sum = op(sum, other);
}

} // namespace detail

// K addresses of the lane itself. The key only forms groups: lanes with equal keys must hold equal addresses.
// Lanes with different keys may hold any. The addresses of inactive lanes are ignored.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::pointers sink{&counts[lane / 16], &sums[lane / 16]};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(1, lane), sink);
//     // counts: 16, 16; sums: 120, 376
template <int K, typename T, typename Op = add, scope S = scope::device>
struct pointers {
    using op = Op;
    static_assert(K >= 1, "distwar: a sink takes at least one value");
    static_assert(
        detail::is_destination<T>,
        "distwar: a sink of pointers, record or planes takes float, double or integers of 4 or 8 bytes");
    static_assert(detail::is_scope<S>, "distwar: the scope of a sink is block, device or system");
    T *address[K];

    template <typename Key, int N, typename V>
    __device__ __forceinline__ void add(Key, const V (&values)[N]) const {
        static_assert(N == K, "distwar: the sink has another number of addresses than there are values");
        static_assert(detail::takes_values<T, V>, "distwar: the values have another type than the sink");
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) detail::update_in_memory<S>(address[k], values[k], Op{});
    }
};
template <typename T, typename... More>
__host__ __device__ pointers(T *, More *...)->pointers<1 + int(sizeof...(More)), T>;
template <scope S, int K, typename T, typename Op = add>
using pointers_at = pointers<K, T, Op, S>;
namespace detail { // nvcc 11.8 refuses detail::is_pointers<...> here
template <int K, typename T, typename Op, scope S>
inline constexpr bool is_pointers<pointers<K, T, Op, S>> = true;
} // namespace detail

// Adds value k to base[key * stride + k]. base and stride are the same in all lanes, stride >= K, key >= 0.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::record<float, distwar::maximum> sink = {highest, 1};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane), sink);
//     // highest: 15, 31
template <typename T, typename Op = add, scope S = scope::device>
struct record {
    using op = Op;
    static_assert(
        detail::is_destination<T>,
        "distwar: a sink of pointers, record or planes takes float, double or integers of 4 or 8 bytes");
    static_assert(detail::is_scope<S>, "distwar: the scope of a sink is block, device or system");
    T *base;
    size_t stride;

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        static_assert(detail::takes_values<T, V>, "distwar: the values have another type than the sink");
        T *const first = base + size_t(key) * stride;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) detail::update_in_memory<S>(first + k, values[k], Op{});
    }
    template <typename Key, typename V>
    __device__ __forceinline__ void add_one(Key key, int k, V value) const {
        static_assert(detail::takes_values<T, V>, "distwar: the values have another type than the sink");
        detail::update_in_memory<S>(base + size_t(key) * stride + k, value, Op{});
    }
};
template <typename T>
__host__ __device__ record(T *, size_t)->record<T>;
template <scope S, typename T, typename Op = add>
using record_at = record<T, Op, S>;
namespace detail {
template <typename T, typename Op, scope S>
inline constexpr int values_of_stride<record<T, Op, S>> = 1;
} // namespace detail

// A record of floats, added by vector atomics of 4 and 2 floats: value k to base[key * stride + k].
//   base    in global or shared memory, aligned to 16 bytes; for K = 2 to 8
//   stride  >= K, a multiple of 4; for K = 2 of 2
// Cost, if one lane adds all values in global memory from compute capability 9.0 and CUDA 12.1 on: one
// atomic for each vector, 3 for K = 9 (4 + 4 + 1). In shared memory, on older GPUs, and if each lane adds one
// value (reduce_tree): as record.
// Each value is added atomically, the record as a whole is not. If K mod 4 = 3 the last vector is 3 values
// and a zero: it also adds 0 to the float behind value K - 1, which stride reserves for this record. That
// float does not change, except that a subnormal number may become 0.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::aligned_record sink = {sums, 2};
//     distwar::reduce(distwar::all_lanes, lane < 4, lane % 2, distwar::values(1.0f, float(lane)), sink);
//     // sums: 2, 2, 2, 4
template <scope S>
struct aligned_record_at {
    static_assert(detail::is_scope<S>, "distwar: the scope of a sink is block, device or system");
    float *base;
    size_t stride;
#if defined(__SIMT__) || DISTWAR_HAS_VECTOR_RED
    static constexpr int values_of_a_request = 4; // see tree.cuh
#endif

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        static_assert(detail::is_same<V, float>, "distwar: the values have another type than the sink");
        float *const first = base + size_t(key) * stride;
        constexpr int fours = K / 4 * 4;
        DISTWAR_UNROLL
        for (int k = 0; k < fours; k += 4)
            distwar::atomic_add<S>(reinterpret_cast<float4 *>(first + k),
                                   make_float4(values[k], values[k + 1], values[k + 2], values[k + 3]));
        if constexpr (K % 4 == 3)
            if (detail::add_vector<S>(reinterpret_cast<float4 *>(first + fours),
                                      make_float4(values[fours], values[fours + 1], values[fours + 2], 0)))
                return;
        if constexpr (K % 4 >= 2)
            distwar::atomic_add<S>(reinterpret_cast<float2 *>(first + fours),
                                   make_float2(values[fours], values[fours + 1]));
        if constexpr (K % 2 == 1) distwar::atomic_add<S>(first + K - 1, values[K - 1]);
    }
    template <typename Key, typename V>
    __device__ __forceinline__ void add_one(Key key, int k, V value) const {
        static_assert(detail::is_same<V, float>, "distwar: the values have another type than the sink");
        distwar::atomic_add<S>(base + size_t(key) * stride + k, value);
    }
    // The sink of the values from `first` on, a multiple of 4.
    __device__ __forceinline__ aligned_record_at from(int first) const {
        return {base + first, stride};
    }
};
using aligned_record = aligned_record_at<scope::device>;
namespace detail {
template <scope S>
inline constexpr int values_of_stride<aligned_record_at<S>> = 1;
} // namespace detail

// Adds value k to base[k * stride + key]. base and stride are the same in all lanes, key >= 0. Two pairs of key and
// k < K must not name one place, which key < stride ensures. Blocks of planes are larger: value k of cell c in
// block b at base[(b * K + k) * 64 + c] has the stride 64 and the key b * K * 64 + c.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::planes<float> sink = {sums, 3};
//     distwar::reduce(distwar::all_lanes, lane < 2, lane, distwar::values(1.0f, 2.0f), sink);
//     // sums: 1, 1, 0, 2, 2, 0
template <typename T, typename Op = add, scope S = scope::device>
struct planes {
    using op = Op;
    static_assert(
        detail::is_destination<T>,
        "distwar: a sink of pointers, record or planes takes float, double or integers of 4 or 8 bytes");
    static_assert(detail::is_scope<S>, "distwar: the scope of a sink is block, device or system");
    T *base;
    size_t stride;

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&values)[K]) const {
        static_assert(detail::takes_values<T, V>, "distwar: the values have another type than the sink");
        T *const first = base + size_t(key);
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) detail::update_in_memory<S>(first + k * stride, values[k], Op{});
    }
    template <typename Key, typename V>
    __device__ __forceinline__ void add_one(Key key, int k, V value) const {
        static_assert(detail::takes_values<T, V>, "distwar: the values have another type than the sink");
        detail::update_in_memory<S>(base + size_t(k) * stride + size_t(key), value, Op{});
    }
};
template <typename T>
__host__ __device__ planes(T *, size_t)->planes<T>;
template <scope S, typename T, typename Op = add>
using planes_at = planes<T, Op, S>;

} // namespace distwar

#include "pop_macros.h"

#endif
