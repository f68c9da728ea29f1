// SPDX-License-Identifier: MIT
// reduce: the one call that is right by default.
//
//     distwar::reduce(lanes, active, key, values, sink);
//
// What it does is known when the kernel is compiled:
//
//     key           memory     values                       what it does
//     ------------  ---------  ---------------------------  --------------------------------------------------
//     uniform_key   any        any                          reduce_tree
//     several keys  global     K < 5, or by vector atomics  sums side by side (below)
//     several keys  global     K >= 5                       reduce_tree: one tree for each group
//     several keys  shared     any                          plain atomics: reduces_plainly
//
// Memory: of record, aligned_record, planes and the sinks of pairs it is seen from the pointer. nvcc knows it in
// most kernels; where it does not, one test at run time decides. in_shared(sink) says it for every sink, and is a
// promise that the call needs no other lanes.
//
// In shared memory a warp's sums pay only where few keys get most additions of floats: reduce_tree was 2 times as
// fast there and half as fast with uniform keys (docs/kernel.md). Integers are added natively; there the plain
// atomic won in all cases, by 3 to 9 times.
#ifndef DISTWAR_BY_KEY_CUH
#define DISTWAR_BY_KEY_CUH

#include "push_macros.h"

#include "group.cuh"
#include "lanes.cuh"
#include "sink.cuh"
#include "tree.cuh"
#include "values.cuh"

namespace distwar {

// The sink with the promise that it lies in shared memory.
//
//     distwar::reduce(lanes, active, bin, 1, distwar::in_shared(distwar::record<int>{bins, 1}));
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ int bins[4];
//     if (lane < 4) bins[lane] = 0;
//     __syncthreads();
//     distwar::reduce(distwar::all_lanes, true, lane % 4, 1, distwar::in_shared(distwar::record<int>{bins, 1}));
//     __syncthreads();
//     if (lane < 4) counts[lane] = bins[lane];
//     // counts: 8, 8, 8, 8
template <typename Sink>
struct in_shared : Sink {
    __device__ __forceinline__ explicit in_shared(const Sink &sink) : Sink(sink) {}
};

namespace detail {

template <typename Sink>
inline constexpr bool is_said_to_be_shared = false;
template <typename Sink>
inline constexpr bool is_said_to_be_shared<in_shared<Sink>> = true;
template <typename Sink>
inline constexpr int values_of_sink<in_shared<Sink>> = values_of_sink<Sink>;
template <typename Sink>
inline constexpr int values_of_stride<in_shared<Sink>> = values_of_stride<Sink>;
#if defined(__SIMT__)
template <typename Sink>
struct strides_of<in_shared<Sink>> : strides_of<Sink> {};
#endif

// Whether a sink has a single base; and whether that is in the shared memory of the block. nvcc folds this where
// it knows the memory.
template <typename Sink, typename = void>
inline constexpr bool has_base = false;
template <typename Sink>
inline constexpr bool has_base<Sink, void_type<decltype(*declared<const Sink &>().base)>> = true;
template <typename Sink>
__device__ __forceinline__ bool lies_in_shared(const Sink &sink) {
#if !defined(__SIMT__)
    if constexpr (has_base<Sink>) return __isShared(sink.base);
#endif
    (void)sink;
    return false;
}

// The active lanes with the caller's key, or some of them. What a match costs grows with the number of different keys:
// 2.2 cycles of an SM for each, 70 for 32. Where neighbouring lanes hold neighbouring keys, plain atomics of a warp
// coalesce and take half of that. So if the keys rise by one within all pairs or fours of lanes, each lane searches for
// key - place, place its number in the pair or four: half or a quarter as many keys. Lanes with one key at different
// places are then not found; each place commits.
template <int K, typename Key>
__device__ __forceinline__ unsigned lanes_to_sum(unsigned lanes, bool active, unsigned active_lanes,
                                                 Key key) {
    if (K == 1 && lanes == all_lanes) {
        using bits = typename word<int(sizeof(Key))>::type;
        const unsigned lane = lane_id();
        const Key before = __shfl_up_sync(all_lanes, key, 1);
        const bool rises = !active || bits(key) - bits(before) == 1;
        if (__all_sync(all_lanes, rises || lane % 2 == 0)) {
            const bool fours = __all_sync(all_lanes, rises || lane % 4 == 0);
            const unsigned place = lane % (fours ? 4 : 2), first_places = fours ? 0x11111111 : 0x55555555;
            return __match_any_sync(all_lanes, Key(key - Key(place))) & first_places << place & active_lanes;
        }
    }
    return __match_any_sync(lanes, key) & active_lanes;
}

// Sums the groups of a call side by side and commits them. K is small: a group's lane sends K atomics.
//
// The first lanes of the groups tell all that matters: as many as there are active lanes, and there is nothing to
// sum; one, and the warp has one key.
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void sum_side_by_side(unsigned lanes, bool active, Key key, const T (&val)[K],
                                                 const Sink &sink) {
    const unsigned active_lanes = __ballot_sync(lanes, active);
    if (active_lanes == 0) return;
    const unsigned lane = lane_id(), group = detail::lanes_to_sum<K>(lanes, active, active_lanes, key);
    const bool leads = active && (group & ((1u << lane) - 1)) == 0;
    const unsigned leaders = __ballot_sync(lanes, leads);
    if (leaders == active_lanes) {
        if (active) sink.add(key, val);
        return;
    }
    if ((leaders & (leaders - 1)) == 0 && lanes == all_lanes) {
        const unsigned leader = lowest_lane(leaders);
        const Key shared = __shfl_sync(all_lanes, key, int(leader));
        tree_commit<Key>{active, leader, shared}(val, sink);
        return;
    }
    const sink_operator<Sink> op{};
    T sum[K];
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) sum[k] = detail::operand(true, val[k], op);
    detail::sum_while_any(lanes, active ? group & ~((2u << lane) - 1) : 0, sum, op);
    if (leads) sink.add(key, sum);
}

template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void sum_by_key(unsigned lanes, bool active, Key key, const T (&val)[K],
                                           const Sink &sink) {
    if constexpr (requests_of_a_lane<K, Sink> < min_values_by_group && K < 2 * min_values_by_group)
        detail::sum_side_by_side(lanes, active, key, val, sink);
    else
        distwar::reduce_tree(lanes, active, key, val, sink);
}

} // namespace detail

// Whether reduce sends the plain atomics of the active lanes. If so the call is like these atomics: each lane may
// make it alone, in any branch, and the loops and early exits of the kernel stay as they are.
template <typename Key, typename Sink>
inline constexpr bool reduces_plainly = !detail::is_uniform<Key> && detail::is_said_to_be_shared<Sink>;

// Adds the values of all active lanes to the sink. The contract is in reduce.cuh, without a threshold.
//   values  an array of K values; a single value; or a list: values(color, opacity)
// Cost, of several keys in global memory with K < 5, or up to 9 values by vector atomics (shuffles of 8-byte
// values and keys count twice); else that of reduce_tree or reduce_atomic:
//   always                1 vote; nothing else if no lane is active
//   to find the groups    1 match, 1 vote; nothing else but K atomic instructions if all keys differ. K = 1 in a whole
//                         warp: also 1 shuffle and 1 vote, another vote where all pairs of lanes hold neighbouring keys
//   whole warp, one key   1 shuffle for the key, tree_shuffles(K) shuffles, one atomic instruction
//   otherwise             ceil(log2(n)) (K + 1) shuffles and ceil(log2(n)) votes, n the size of the largest
//                         group; K atomic instructions
// Example (one warp, `lane` its lane, arrays of zeros):
//     distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane), distwar::record<float>{sums, 1});
//     // sums: 120, 376
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce(lane_mask lanes, bool active, Key key, const T (&val)[K],
                                       const Sink &sink) {
    detail::check_call(active, key, sink, K);
    detail::check_tree<K, T, Key, Sink>();
    if constexpr (reduces_plainly<Key, Sink>) {
        if (active) sink.add(key, val);
    } else if constexpr (detail::is_uniform<Key>) {
        distwar::reduce_tree(lanes, active, key, val, sink);
    } else if (detail::lies_in_shared(sink)) {
        if (active) sink.add(key, val);
    } else {
        detail::sum_by_key(lanes, active, key, val, sink);
    }
}
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce(lane_mask lanes, bool active, Key key, const value_list<K, T> &list,
                                       const Sink &sink) {
    distwar::reduce(lanes, active, key, list.of, sink);
}
template <typename T, typename Key, typename Sink,
          typename = typename detail::only_if<detail::is_value<T>>::type>
__device__ __forceinline__ void reduce(lane_mask lanes, bool active, Key key, T value, const Sink &sink) {
    const T val[1] = {value};
    distwar::reduce(lanes, active, key, val, sink);
}

// reduce for `count` pairs of key and values, in a loop that is not unrolled: the code of one call. For the
// corners of a cell or the nodes of a stencil. Where reduces_plainly holds the loop is unrolled, if count is known
// when compiling, as the loop of plain atomics would be.
//   count      the same in all of `lanes`
//   key_of(i)  the key of pair i; called by active lanes only
//   value_of(i) the values of pair i: a value or a list; called by active lanes only
// Where the loop indexes an array of the caller, that array lies in local memory: compute what depends on i.
//
//     distwar::reduce_each(lanes, active, 8, [&](int corner) { return index_of(corner); },
//                          [&](int corner) { return distwar::values(weight_of(corner) * gradient); }, sink);
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto key_of = [&](int i) { return lane / 16 + i; };
//     const auto value_of = [&](int i) { return i + 1; };
//     distwar::reduce_each(distwar::all_lanes, true, 2, key_of, value_of, distwar::record<int>{sums, 1});
//     // sums: 16, 48, 32
template <typename KeyOf, typename ValueOf, typename Sink>
__device__ __forceinline__ void reduce_each(lane_mask lanes, bool active, int count, const KeyOf &key_of,
                                            const ValueOf &value_of, const Sink &sink) {
    using key_type = decltype(key_of(0));
    using value_type = decltype(value_of(0));
    if constexpr (reduces_plainly<key_type, Sink>) {
        if (!active) return;
        DISTWAR_UNROLL
        for (int i = 0; i < count; ++i) distwar::reduce(lanes, true, key_of(i), value_of(i), sink);
    } else {
#if !defined(__SIMT__)
#pragma unroll 1
#endif
        for (int i = 0; i < count; ++i) {
            key_type key = {};
            value_type value = {};
            if (active) {
                key = key_of(i);
                value = value_of(i);
            }
            distwar::reduce(lanes, active, key, value, sink);
        }
    }
}

} // namespace distwar

#include "pop_macros.h"

#endif
