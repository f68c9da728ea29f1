// SPDX-License-Identifier: MIT
// reduce_tree: one tree of shuffles for all K values at once; and tree_total, the tree alone.
//
// At each of five steps a lane keeps half of the values it holds and hands the other half to its partner,
// which keeps that one: lanes whose bit s is 0 keep those at even places, the others those at odd places. So
// the number of values halves while the number of lanes in each sum doubles, and 9 values cost 5 + 3 + 2 + 1
// + 1 shuffles. In the end the total of value k is in lane k mod 32, where neighbouring values make one
// atomic instruction.
#ifndef DISTWAR_TREE_CUH
#define DISTWAR_TREE_CUH

#include "atomic.cuh"
#include "lanes.cuh"
#include "sink.cuh"

namespace distwar {

// Where tree_total leaves the total of value k: in lane tree_owner(k), there as total[tree_place(k)]. A lane
// has tree_places(K) places; what is in those that no value owns is not defined.
__host__ __device__ constexpr int tree_owner(int k) {
    return k % 32;
}
__host__ __device__ constexpr int tree_place(int k) {
    return k / 32;
}
__host__ __device__ constexpr int tree_places(int K) {
    return (K + 31) / 32;
}

// The shuffles of one tree: 5 for K = 1, 12 for 9, 62 for 64. Those of double are two instructions each.
__host__ __device__ constexpr int tree_shuffles(int K) {
    int shuffles = 0;
    for (int lanes = 2; lanes <= 32; lanes *= 2) shuffles += (K + lanes - 1) / lanes;
    return shuffles;
}

namespace detail {

template <typename T>
inline constexpr bool is_tree_value = is_same<value_of<T>, T>;

template <typename T>
struct infinity;
template <>
struct infinity<float> {
    static __device__ __forceinline__ float value() { return __int_as_float(0x7f800000); }
};
template <>
struct infinity<double> {
    static __device__ __forceinline__ double value() { return __longlong_as_double(0x7ff0000000000000); }
};

// What a lane brings to a minimum or a maximum: its value, or what changes nothing. A NaN is neither.
template <typename T>
__device__ __forceinline__ T operand(bool active, T value, minimum op) {
    const T none = infinity<T>::value();
    return active ? op(none, value) : none;
}
template <typename T>
__device__ __forceinline__ T operand(bool active, T value, maximum op) {
    const T none = -infinity<T>::value();
    return active ? op(none, value) : none;
}

// sum = op(sum, condition ? a : b)
template <typename T, typename Op>
__device__ __forceinline__ void combine_either(unsigned condition, T &sum, T a, T b, Op op) {
    if constexpr (is_same<Op, add>)
        add_either(condition, sum, a, b);
    else
        sum = op(sum, select(condition, a, b));
}

// Steps Step..4 of the tree. Every index is a compile-time constant, so `held` stays in registers.
template <int Step, int K, typename T, typename Op>
__device__ __forceinline__ void exchange(T (&held)[K], Op op) {
    constexpr int distance = 1 << Step, count = (K + distance - 1) / distance; // values held before this step
    const unsigned odd = lane_id() & distance;
    DISTWAR_UNROLL
    for (int i = 0; i < count / 2; ++i) {
        const T at_even = held[2 * i], at_odd = held[2 * i + 1];
        held[i] = __shfl_xor_sync(all_lanes, select(odd, at_even, at_odd), distance);
        combine_either(odd, held[i], at_odd, at_even, op);
    }
    if constexpr (count % 2 == 1) // the last place is even: what the odd lane makes of it nobody owns
        held[count / 2] = op(held[count - 1], __shfl_xor_sync(all_lanes, held[count - 1], distance));
    if constexpr (Step < 4) exchange<Step + 1>(held, op);
}

// Step 0 of a sum, which leaves out the values of inactive lanes.
template <int K, typename T>
__device__ __forceinline__ void first_exchange(bool active, const T (&val)[K], T (&held)[K]) {
    const unsigned odd = lane_id() & 1, kept = active ? 32 * odd : 64, given = active ? 32 * (1 - odd) : 64;
    DISTWAR_UNROLL
    for (int i = 0; i < K / 2; ++i)
        held[i] = choose(kept, val[2 * i], val[2 * i + 1]) +
                  __shfl_xor_sync(all_lanes, choose(given, val[2 * i], val[2 * i + 1]), 1);
    if constexpr (K % 2 == 1) {
        const T own = active ? val[K - 1] : T(0);
        held[K / 2] = own + __shfl_xor_sync(all_lanes, own, 1);
    }
}

} // namespace detail

// The totals of K values over the active lanes of a warp, without a commit: total of value k in lane
// tree_owner(k), place tree_place(k). All 32 lanes make this call together. Inactive lanes add nothing,
// whatever their values; if none is active the totals are 0 (of minimum infinity, of maximum -infinity).
// 1 <= K <= 64. op is add, minimum or maximum, T float or double, for add also a 64-bit integer. A NaN makes
// a sum NaN; minimum and maximum ignore it. The order of additions depends on nothing but K. Cost:
// tree_shuffles(K) shuffles, nothing else.
template <int K, typename T, typename Op = add>
__device__ __forceinline__ void tree_total(bool active, const T (&val)[K], T (&total)[tree_places(K)],
                                           Op op = Op{}) {
    static_assert(detail::is_tree_value<T>, "distwar: a tree takes float, double or 64-bit integers");
    static_assert(K <= 64, "distwar: a tree takes at most 64 values");
    T held[K];
    if constexpr (detail::is_same<Op, add>) {
        detail::first_exchange(active, val, held);
        detail::exchange<1>(held, op);
    } else {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) held[k] = detail::operand(active, val[k], op);
        detail::exchange<0>(held, op);
    }
    DISTWAR_UNROLL
    for (int place = 0; place < tree_places(K); ++place) total[place] = held[place];
}

namespace detail {

// Sums the members' values and commits them to `key`; `leader` is a member. For a whole warp.
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void commit_tree(bool member, unsigned leader, Key key, const T (&val)[K],
                                            const Sink &sink) {
    T total[tree_places(K)];
    tree_total(member, val, total);
    if constexpr (is_addressed_by_key<Sink, Key, T>) {
        DISTWAR_UNROLL
        for (int place = 0; place < tree_places(K); ++place) {
            const int k = 32 * place + int(lane_id());
            if (k < K) sink.add_one(key, k, total[place]);
        }
    } else {
        T sum[K];
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) sum[k] = __shfl_sync(all_lanes, total[tree_place(k)], tree_owner(k));
        if (lane_id() == leader) sink.add(key, sum);
    }
}

// Shuffles of commit_tree for one of several groups, with that of its key.
template <typename Sink, typename Key, typename T>
__host__ __device__ constexpr int group_shuffles(int K) {
    return 1 + tree_shuffles(K) + (is_addressed_by_key<Sink, Key, T> ? 0 : K);
}

// From so many values on, groups of a whole warp are always summed one by one if the sink is addressed by
// key: side by side each value of a group is committed by itself, and that takes longer than the trees'
// shuffles (on an H200: from K = 5 on up to 2.5 times; at 4, 0.45 to 1.3 times).
inline constexpr int always_by_group = 5;

// Sums groups side by side, each into its lowest lane: every lane adds the sum of the lane that follows its
// own sum in its group, so sums double in length. `group`: the caller's group, 0 if it has none. `size`: that
// of the largest, in all of `lanes`. Other lanes are left with parts. Cost: for each of the ceil(log2(size))
// turns K shuffles, and one between turns.
template <int K, typename T>
__device__ __forceinline__ void sum_by_doubling(unsigned lanes, unsigned group, unsigned size, T (&sum)[K]) {
    const unsigned lane = lane_id(), behind = group & ~((2u << lane) - 1);
    int next = behind ? int(lowest_lane(behind)) : -1; // the lane whose sum continues this one's
    for (unsigned length = 1; length < size; length *= 2) {
        if (length > 1) next = __shfl_sync(lanes, next, next < 0 ? int(lane) : next);
        const int source = next < 0 ? int(lane) : next;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            const T other = __shfl_sync(lanes, sum[k], source);
            if (next >= 0) sum[k] += other;
        }
    }
}

} // namespace detail

// For any keys and any `lanes`, best for a whole warp whose active lanes share one key; the contract is in
// reduce.cuh. T is float, double or a 64-bit integer, 1 <= K <= 64. With the same lanes active, the order of
// additions in the warp is the same in every run.
//
// Into a sink addressed by key (record, planes) each lane commits the totals it owns, lane l the values l and
// l + 32; lanes that are inactive or of another group do so too, so the sink must be the same in all of
// `lanes`. For any other sink (pointers) the totals move to the group's lowest lane, which makes K atomics: K
// more shuffles.
//
// Cost, shuffles of 8-byte values and keys counting twice:
//   always               1 vote
//   one key, whole warp  for the key 1 shuffle and 1 vote, both saved by a uniform_key; tree_shuffles(K)
//                        shuffles (12 for K = 9); ceil(K / 32) atomic instructions
//   otherwise            that of the key, if the warp is whole; 1 match, 1 redux (before compute capability
//                        8.0: 6 votes), and if the warp is whole 1 vote. Groups of at least two lanes and
//                        balance_threshold are then summed in one of two ways, and the other lanes' values
//                        are K atomic instructions:
//     group by group     of whole warps: from K = 5 on into a sink addressed by key, else where it needs no
//                        more shuffles. For each group 1 + tree_shuffles(K) shuffles and ceil(K / 32)
//                        atomic instructions
//     side by side       (K + 1) ceil(log2(n)) - 1 shuffles, n the size of the largest group; K atomic
//                        instructions, by the lowest lane of each group together with the other lanes
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_tree(unsigned lanes, bool active, Key key, const T (&val)[K],
                                            const Sink &sink, int balance_threshold = 0) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    static_assert(detail::is_tree_value<T>, "distwar: a tree takes float, double or 64-bit integers");
    static_assert(K <= 64, "distwar: a tree takes at most 64 values");
    using plain = decltype(plain_key(key));
    const unsigned active_lanes = __ballot_sync(lanes, active);
    const bool sums_any = balance_threshold <= 1; // then few is none, and no plain atomics are left
    if (count_lanes(active_lanes) < (sums_any ? 1 : balance_threshold)) {
        if (!sums_any && active) sink.add(plain_key(key), val);
        return;
    }
    if (lanes == all_lanes) {
        plain shared;
        if (share_one_key(all_lanes, active_lanes, active, key, shared)) {
            detail::commit_tree(active, lowest_lane(active_lanes), shared, val, sink);
            return;
        }
    }

    const unsigned group = lanes_with_key(lanes, key) & active_lanes; // of an active lane
    const int size = count_lanes(group);
    const bool summed = active && size >= 2 && size >= balance_threshold;
    const bool leads = summed && lowest_lane(group) == lane_id();
    const unsigned size_of_largest = largest(lanes, summed ? unsigned(size) : 1);
    if (lanes == all_lanes) {
        constexpr bool always = K >= detail::always_by_group && is_addressed_by_key<Sink, plain, T>;
        const unsigned leaders = __ballot_sync(all_lanes, leads);
        const int turns = 32 - __clz(int(size_of_largest) - 1);
        if (always || count_lanes(leaders) * detail::group_shuffles<Sink, plain, T>(K) <= turns * (K + 1)) {
            if (active && !summed) sink.add(plain_key(key), val);
            for (unsigned rest = leaders; rest != 0; rest &= rest - 1) {
                const unsigned leader = lowest_lane(rest);
                const plain its_key = __shfl_sync(all_lanes, plain_key(key), int(leader));
                detail::commit_tree(summed && plain_key(key) == its_key, leader, its_key, val, sink);
            }
            return;
        }
    }
    T sum[K];
    DISTWAR_UNROLL
    for (int k = 0; k < K; ++k) sum[k] = val[k];
    detail::sum_by_doubling(lanes, summed ? group : 0, size_of_largest, sum);
    if (leads || (active && !summed)) sink.add(plain_key(key), sum);
}

} // namespace distwar

#endif
