// SPDX-License-Identifier: MIT
// fields: a sink for values that lie in several arrays, each with its own stride.
//
//     // color[3 * p + i], opacity[p], mean2d[2 * p + i], conic[3 * p + i]
//     const distwar::fields<float, 3, 1, 2, 3> sink = {{color, 3}, {opacity, 1}, {mean2d, 2}, {conic, 3}};
//     distwar::reduce(lanes, active, p, val, sink); // float val[9]
//
// The arrays take the values in order: here val[0..2] goes to color, val[3] to opacity, val[4..5] to mean2d,
// val[6..8] to conic.
//
// Replaces `pointers` where the addresses follow from the key. fields is addressed by key, so the tree
// commits all K values with one atomic instruction: lane k selects the array of value k. `pointers` needs K
// more shuffles and K atomic instructions.
#ifndef DISTWAR_FIELDS_CUH
#define DISTWAR_FIELDS_CUH

#include "push_macros.h"

#include "atomic.cuh"
#include "lanes.cuh"
#include "sink.cuh"

namespace distwar {

// The count of a part that may be null, in place of a number: its values are then dropped. Cost: one comparison
// for each atomic.
//
//     const distwar::fields<float, 3, distwar::may_be_null(2)> sink = {{color, 3}, {absolute, 2}};
__host__ __device__ constexpr int may_be_null(int count) {
    return -count;
}

// One array: value i of a key lies at base[key * stride + i], for 0 <= i < Count, or -Count if it may be null.
template <typename T, int Count>
struct field {
    static_assert(Count != 0, "distwar: a field has at least one value");
    T *base;
    size_t stride; // in T, >= the number of values
};

namespace detail {
__host__ __device__ constexpr int values_of_part(int count) {
    return count < 0 ? -count : count;
}
} // namespace detail

// A sink (sink.cuh) whose K values lie in sizeof...(Counts) arrays. Array i takes Counts[i] values; K is the
// sum of Counts, and a call with another K does not compile.
//   Op       the operator: add, minimum, maximum, bit_and, ..., as for record (sink.cuh)
//   S        the scope of the atomics
//   T        the type in memory, as for record
//   Counts   the number of values of each array, or may_be_null(number)
//   arrays   {base, stride} each, the same in all lanes of the call, inactive ones included. In global or
//            shared memory; several may lie in one buffer. key >= 0
// Cost of add, by one lane: K atomics. Of the tree's commit: ceil(K / 32) atomic instructions; for each of
// them 3 selects for every array after the first, which compilers move out of loops, because they depend on
// the lane alone.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const distwar::fields<float, 3, 1> sink = {{color, 3}, {opacity, 1}};
//     distwar::reduce(distwar::all_lanes, true, lane / 16, distwar::values(float3{1, 2, 3}, 0.5f), sink);
//     // color: 16, 32, 48, 16, 32, 48; opacity: 8, 8
template <typename Op, scope S, typename T, int... Counts>
struct fields_with {
    using op = Op;
    static_assert(sizeof...(Counts) >= 1, "distwar: fields need at least one part");
    static_assert(detail::is_scope<S>, "distwar: the scope of a sink is block, device or system");
    static_assert(detail::is_destination<T>,
                  "distwar: fields take float, double or integers of 4 or 8 bytes");
    static constexpr int parts = sizeof...(Counts);
    static constexpr int values = (0 + ... + detail::values_of_part(Counts));
    static constexpr bool some_may_be_null = (false || ... || (Counts < 0));

    T *base[parts];
    size_t stride[parts];

    __host__ __device__ __forceinline__ fields_with(field<T, Counts>... part)
        : base{part.base...}, stride{part.stride...} {}

    template <typename Key, int K, typename V>
    __device__ __forceinline__ void add(Key key, const V (&val)[K]) const {
        static_assert(detail::takes_values<T, V>, "distwar: the values have another type than the sink");
        static_assert(K == values, "distwar: the fields hold another number of values than there are");
        // By add_one: a loop over the parts leaves `val` with an index that nvcc does not resolve, in local memory.
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) add_one(key, k, val[k]);
    }

    // 0 <= k < values. Selects and one atomic: with branches around atomics it would be one instruction for
    // each array.
    template <typename Key, typename V>
    __device__ __forceinline__ void add_one(Key key, int k, V value) const {
        static_assert(detail::takes_values<T, V>, "distwar: the values have another type than the sink");
        constexpr int count[] = {detail::values_of_part(Counts)...};
        T *chosen = base[0];
        size_t chosen_stride = stride[0];
        int first = 0, within = k;
        DISTWAR_UNROLL
        for (int part = 1; part < parts; ++part) {
            first += count[part - 1];
            const bool reached = k >= first;
            chosen = reached ? base[part] : chosen;
            chosen_stride = reached ? stride[part] : chosen_stride;
            within = reached ? k - first : within;
        }
        if (some_may_be_null && chosen == nullptr) return;
        detail::update_in_memory<S>(chosen + size_t(key) * chosen_stride + within, value, Op{});
    }
};

namespace detail {
template <typename Op, scope S, typename T, int... Counts>
inline constexpr int values_of_sink<fields_with<Op, S, T, Counts...>> =
    fields_with<Op, S, T, Counts...>::values;
#if defined(__SIMT__)
template <typename Op, scope S, typename T, int... Counts>
struct strides_of<fields_with<Op, S, T, Counts...>> {
    static bool hold(const fields_with<Op, S, T, Counts...> &sink, int) {
        const int counts[] = {values_of_part(Counts)...};
        for (int part = 0; part < int(sizeof...(Counts)); ++part)
            if (sink.base[part] && sink.stride[part] < size_t(counts[part])) return false;
        return true;
    }
};
#endif
} // namespace detail

// Sums; and sums at the scope of the device.
template <scope S, typename T, int... Counts>
using fields_at = fields_with<add, S, T, Counts...>;
template <typename T, int... Counts>
using fields = fields_at<scope::device, T, Counts...>;

} // namespace distwar

#include "pop_macros.h"

#endif
