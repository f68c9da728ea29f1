// SPDX-License-Identifier: MIT
// reduce_tree: one tree of shuffles for all K values at once. tree_total: the tree without the commit.
//
// The tree has five steps. In step s a lane exchanges half of its values with lane ^ (1 << s): it keeps the values at
// even places if bit s of its lane is 0, those at odd places if it is 1, and sends the others. Then it adds what it
// received. Each step halves the values in a lane and doubles the lanes in a sum: 5 + 3 + 2 + 1 + 1 shuffles for 9.
//
// Example with K = 4 values a, b, c, d; a(0-1) is the sum of a over lanes 0 and 1:
//
//                       lane 0          lane 1          lane 2          lane 3
//     before            a b c d         a b c d         a b c d         a b c d
//     step 0, keeps     a c             b d             a c             b d
//             sends     b d             a c             b d             a c
//             result    a(0-1) c(0-1)   b(0-1) d(0-1)   a(2-3) c(2-3)   b(2-3) d(2-3)
//     step 1, keeps     a(0-1)          b(0-1)          c(2-3)          d(2-3)
//             sends     c(0-1)          d(0-1)          a(2-3)          b(2-3)
//             result    a(0-3)          b(0-3)          c(0-3)          d(0-3)
//
// Lanes 4..7, 8..11, ... do the same. From step 2 on each lane holds one value, so both lanes of a pair hold the same
// sum. After step 4 the total of value k is in lane k mod 32: neighbouring lanes commit by one atomic instruction.
#ifndef DISTWAR_TREE_CUH
#define DISTWAR_TREE_CUH

#include "push_macros.h"

#include "atomic.cuh"
#include "chunks.cuh"
#include "lanes.cuh"
#include "sink.cuh"

namespace distwar {

// tree_total leaves the total of value k in lane tree_owner(k), in total[tree_place(k)]. Each lane has
// tree_places(K) places. A place that belongs to no value is undefined.
__host__ __device__ constexpr int tree_owner(int k) {
    return k % 32;
}
__host__ __device__ constexpr int tree_place(int k) {
    return k / 32;
}
__host__ __device__ constexpr int tree_places(int K) {
    return (K + 31) / 32;
}

// The shuffles of one tree: 5 for K = 1, 12 for 9, 62 for 64. A shuffle of double is two instructions.
__host__ __device__ constexpr int tree_shuffles(int K) {
    int shuffles = 0;
    for (int lanes = 2; lanes <= 32; lanes *= 2) shuffles += (K + lanes - 1) / lanes;
    return shuffles;
}

// The shuffles of the trees of `count` values in chunks of Chunk; a chunk is padded, so each costs the same.
__host__ __device__ constexpr int chunk_shuffles(int count, int Chunk) {
    return (count + Chunk - 1) / Chunk * tree_shuffles(Chunk);
}

namespace detail {

template <typename T>
inline constexpr bool is_tree_value = is_same<value_of<T>, T>;

// From compute capability 8.0 on one redux replaces 5 shuffles and 5 additions of a 32-bit integer. It has
// half the throughput of a shuffle (CUDA C++ Programming Guide), so 3 redux cost as much as the 6 shuffles of
// a tree of 3 values, and save its selects. Not measured.
inline constexpr int max_values_by_redux = 3;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <int, typename, typename>
inline constexpr bool is_summed_by_redux = false;
#else
template <int K, typename T, typename Op>
inline constexpr bool is_summed_by_redux = K <= max_values_by_redux &&
                                           (is_same<T, int> || is_same<T, unsigned>)&&!is_same<Op, multiply>;
#endif
#if !(defined(__clang__) && defined(__CUDA__)) || defined(__SIMT__)
template <typename T>
__device__ __forceinline__ T redux(T value, add) {
    return __reduce_add_sync(all_lanes, value);
}
template <typename T>
__device__ __forceinline__ T redux(T value, minimum) {
    return __reduce_min_sync(all_lanes, value);
}
template <typename T>
__device__ __forceinline__ T redux(T value, maximum) {
    return __reduce_max_sync(all_lanes, value);
}
template <typename T>
__device__ __forceinline__ T redux(T value, bit_and) {
    return T(__reduce_and_sync(all_lanes, unsigned(value)));
}
template <typename T>
__device__ __forceinline__ T redux(T value, bit_or) {
    return T(__reduce_or_sync(all_lanes, unsigned(value)));
}
template <typename T>
__device__ __forceinline__ T redux(T value, bit_xor) {
    return T(__reduce_xor_sync(all_lanes, unsigned(value)));
}
#else
// PTX, because clang up to 19 lacks these functions.
#define DISTWAR_REDUX(Op, instruction)                                                                       \
    template <typename T>                                                                                    \
    __device__ __forceinline__ T redux(T value, Op) {                                                        \
        T result;                                                                                            \
        if constexpr (is_same<T, int>)                                                                       \
            asm volatile("redux.sync." instruction(s32) " %0, %1, 0xffffffff;" : "=r"(result) : "r"(value)); \
        else                                                                                                 \
            asm volatile("redux.sync." instruction(u32) " %0, %1, 0xffffffff;" : "=r"(result) : "r"(value)); \
        return result;                                                                                       \
    }
#define DISTWAR_REDUX_ADD(type) "add." #type
#define DISTWAR_REDUX_MIN(type) "min." #type
#define DISTWAR_REDUX_MAX(type) "max." #type
#define DISTWAR_REDUX_AND(type) "and.b32"
#define DISTWAR_REDUX_OR(type) "or.b32"
#define DISTWAR_REDUX_XOR(type) "xor.b32"
DISTWAR_REDUX(add, DISTWAR_REDUX_ADD)
DISTWAR_REDUX(minimum, DISTWAR_REDUX_MIN)
DISTWAR_REDUX(maximum, DISTWAR_REDUX_MAX)
DISTWAR_REDUX(bit_and, DISTWAR_REDUX_AND)
DISTWAR_REDUX(bit_or, DISTWAR_REDUX_OR)
DISTWAR_REDUX(bit_xor, DISTWAR_REDUX_XOR)
#undef DISTWAR_REDUX
#undef DISTWAR_REDUX_ADD
#undef DISTWAR_REDUX_MIN
#undef DISTWAR_REDUX_MAX
#undef DISTWAR_REDUX_AND
#undef DISTWAR_REDUX_OR
#undef DISTWAR_REDUX_XOR
#endif

// sum = op(sum, condition ? a : b)
template <typename T, typename Op>
__device__ __forceinline__ void combine_selected(unsigned condition, T &sum, T a, T b, Op op) {
    if constexpr (is_same<Op, add> && !is_packed<T>)
        detail::add_selected(condition, sum, a, b);
    else
        sum = op(sum, detail::select(condition, a, b));
}

// Step Step of the tree, in place, of the first `count` values. Every index is a constant: `partial` is in registers.
template <int Step, int count, int K, typename T, typename Op>
__device__ __forceinline__ void exchange_step(T (&partial)[K], Op op) {
    constexpr int distance = 1 << Step;
    const unsigned odd = lane_id() & distance;
    DISTWAR_UNROLL
    for (int i = 0; i < count / 2; ++i) {
        const T at_even = partial[2 * i], at_odd = partial[2 * i + 1];
        const T exchanged_value = detail::select(odd, at_even, at_odd);
        partial[i] = detail::shuffle_xor(exchanged_value, distance);
        detail::combine_selected(odd, partial[i], at_odd, at_even, op); // with the value that the lane keeps
    }
    // With an odd count the last value, at an even place, has no other to be exchanged for: both lanes sum it.
    if constexpr (count % 2 == 1)
        partial[count / 2] = op(partial[count - 1], detail::shuffle_xor(partial[count - 1], distance));
}

// Steps Step..4, in place.
template <int Step, int K, typename T, typename Op>
__device__ __forceinline__ void exchange(T (&partial)[K], Op op) {
    detail::exchange_step<Step, (K + (1 << Step) - 1) / (1 << Step)>(partial, op);
    if constexpr (Step < 4) detail::exchange<Step + 1>(partial, op);
}

// Step 0 of a sum. An inactive lane keeps and sends zeros.
//
// shift_pair picks from (val[2i], val[2i + 1]) by a shift. Example with K = 4, lanes 0 and 2 active:
//
//               keep_shift  send_shift  keeps           sends
//     lane 0     0          32          val[0], val[2]  val[1], val[3]
//     lane 1    64          64          0, 0            0, 0
//     lane 2     0          32          val[0], val[2]  val[1], val[3]
//     lane 3    64          64          0, 0            0, 0
//
// An active lane 1 would have the shifts 32 and 0.
template <int K, typename T>
__device__ __forceinline__ void first_exchange(bool active, const T (&val)[K], T (&partial)[K]) {
    const unsigned odd = lane_id() & 1;
    const unsigned keep_shift = active ? 32 * odd : 64, send_shift = active ? 32 * (1 - odd) : 64;
    DISTWAR_UNROLL
    for (int i = 0; i < K / 2; ++i) {
        const T keep_value = detail::shift_pair(keep_shift, val[2 * i], val[2 * i + 1]);
        const T exchanged_value = detail::shift_pair(send_shift, val[2 * i], val[2 * i + 1]);
        partial[i] = arithmetic<T>::sum(keep_value, detail::shuffle_xor(exchanged_value, 1));
    }
    if constexpr (K % 2 == 1) { // the last value has no other to be exchanged for
        const T own_value = detail::operand(active, val[K - 1], add{});
        partial[K / 2] = arithmetic<T>::sum(own_value, detail::shuffle_xor(own_value, 1));
    }
}

} // namespace detail

// The totals of K values over the active lanes of a warp, without a commit.
//   who calls  all 32 lanes together
//   active     whether this lane's values count; those of inactive lanes are ignored
//   val        1 <= K <= 64 values: float, double or integers of 4 or 8 bytes
//   total      out: the total of value k in lane tree_owner(k), place tree_place(k)
//   op         add, minimum, maximum, multiply, or of integers bit_and, bit_or, bit_xor
// If no lane is active the totals are 0 (minimum: infinity or the largest integer; maximum: -infinity or the
// smallest integer; multiply: 1; bit_and: all bits). A NaN makes a sum NaN;
// minimum and maximum ignore it. The order of additions depends on K alone.
// Cost: tree_shuffles(K) shuffles, nothing else. Up to 3 values of int or unsigned, from compute capability
// 8.0 on: K redux.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const int val[2] = {lane, -lane};
//     int total[distwar::tree_places(2)];
//     distwar::tree_total(lane < 24, val, total, distwar::maximum{});
//     if (lane < 2) totals[lane] = total[0];
//     // totals: 23, 0
template <int K, typename T, typename Op = add>
__device__ __forceinline__ void tree_total(bool active, const T (&val)[K], T (&total)[tree_places(K)],
                                           Op op = Op{}) {
    static_assert(detail::is_tree_value<T>,
                  "distwar: a tree takes float, double or integers of 4 or 8 bytes");
    static_assert(K <= detail::max_tree_values, "distwar: a tree takes at most 64 values");
    T partial[K];
    if constexpr (detail::is_summed_by_redux<K, T, Op>) {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            const T all = detail::redux(detail::operand(active, val[k], op), op);
            partial[0] = k == 0 || lane_id() == unsigned(k) ? all : partial[0];
        }
    } else if constexpr (detail::is_same<Op, add>) {
        detail::first_exchange(active, val, partial);
        detail::exchange<1>(partial, op);
    } else {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) partial[k] = detail::operand(active, val[k], op);
        detail::exchange<0>(partial, op);
    }
    DISTWAR_UNROLL
    for (int place = 0; place < tree_places(K); ++place) total[place] = partial[place];
}

namespace detail {

// Sums the values of the members of one group and commits them to `key`. `leader` is a member; it commits if
// the sink is not addressed by key. All 32 lanes call.
template <typename Key>
struct tree_commit {
    bool member;
    unsigned leader;
    Key key;

    template <int K, typename T, typename Sink>
    __device__ __forceinline__ void operator()(const T (&val)[K], const Sink &sink) const {
        T total[tree_places(K)];
        distwar::tree_total(member, val, total, sink_operator<Sink>{});
        if constexpr (is_addressed_by_key<Sink, Key, T>) {
            DISTWAR_UNROLL
            for (int place = 0; place < tree_places(K); ++place) {
                // k = 0 as a constant saves four instructions of the address for K = 1.
                const int k = 32 * place + int(lane_id());
                if (k < detail::values_in<K>(sink)) sink.add_one(key, K == 1 ? 0 : k, total[place]);
            }
        } else {
            T sum[K];
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k)
                sum[k] = detail::shuffle(all_lanes, total[tree_place(k)], tree_owner(k));
            if (lane_id() == leader) sink.add(key, sum);
        }
    }
};

// The shuffles that tree_commit makes for one of several groups, the shuffle of the key included. A redux
// counts as two.
template <int K, typename Sink, typename Key, typename T>
__host__ __device__ constexpr int group_shuffles() {
    return 1 + (is_summed_by_redux<K, T, sink_operator<Sink>> ? 2 * K : tree_shuffles(K)) +
           (is_addressed_by_key<Sink, Key, T> ? 0 : K);
}

// The atomics that sink.add sends for one lane: a sink may state how many values one atomic takes.
template <int K, typename Sink, typename = void>
inline constexpr int requests_of_a_lane = K;
template <int K, typename Sink>
inline constexpr int requests_of_a_lane<K, Sink, void_type<decltype(Sink::values_of_a_request)>> =
    (K + Sink::values_of_a_request - 1) / Sink::values_of_a_request;

// Costs in tenths of a shuffle with its addition, measured on an H200 (docs/notes/library.md): an atomic of a
// lane, however many floats it takes, a tree of n shuffles, and n shuffles for all groups side by side.
inline constexpr int request_cost = 27;
__host__ __device__ constexpr int tree_cost(int n) {
    return 29 * n / 2;
}
__host__ __device__ constexpr int side_by_side_cost(int n) {
    return 15 * n;
}

// From this K on, the groups of a whole warp are summed one after another if the sink is addressed by key. Side by
// side, each value of a group is an atomic of its own (on an H200 up to 2.5 times the time, 0.45 to 1.3 at K = 4).
inline constexpr int min_values_by_group = 5;

// Sums all groups side by side, each into its lowest lane. In each iteration a lane adds the sum of the lane that
// follows its own sum in its group, so the sums double in length. Example with one group in lanes 1, 4, 6, 7:
//
//     iteration 1   1 adds 4, 4 adds 6, 6 adds 7    lane 1 holds 1 + 4, lane 6 holds 6 + 7
//     iteration 2   1 adds 6                        lane 1 holds 1 + 4 + 6 + 7
//
//   group  the caller's group, 0 if it has none
//   size   the size of the largest group, the same in all of `lanes`
//   sum    in: the lane's values. Out: the group's sums in its lowest lane; partial sums in other lanes
// Cost: ceil(log2(size)) iterations of K shuffles, and one shuffle between two iterations.
template <int K, typename T, typename Op>
__device__ __forceinline__ void sum_by_doubling(unsigned lanes, unsigned group, unsigned size, T (&sum)[K],
                                                Op op) {
    const unsigned lane = lane_id(), higher = group & ~((2u << lane) - 1);
    int next = higher ? int(lowest_lane(higher)) : -1; // the lane whose sum follows this lane's sum; -1: none
    for (unsigned length = 1; length < size; length *= 2) {
        if (length > 1) next = __shfl_sync(lanes, next, next < 0 ? int(lane) : next);
        const int source = next < 0 ? int(lane) : next;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            const T other = detail::shuffle(lanes, sum[k], source);
            if (next >= 0) detail::combine(sum[k], other, op);
        }
    }
}

// The same without the size of the largest group: a vote ends the loop.
//   higher  the lanes of the caller's group above the caller, 0 if it has none. At least one lane has some
// Cost: ceil(log2(n)) iterations of K + 1 shuffles and 1 vote, n the size of the largest group.
template <int K, typename T, typename Op>
__device__ __forceinline__ void sum_while_any(unsigned lanes, unsigned higher, T (&sum)[K], Op op) {
    const int lane = int(lane_id());
    int next = higher ? int(lowest_lane(higher)) : -1; // the lane whose sum follows this lane's sum; -1: none
    do {
        const int source = next < 0 ? lane : next;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            const T other = detail::shuffle(lanes, sum[k], source);
            if (next >= 0) detail::combine(sum[k], other, op);
        }
        next = __shfl_sync(lanes, next, source);
    } while (__any_sync(lanes, next >= 0));
}

// Sums the groups of a call, group after group or side by side, and commits them. Active lanes of other
// groups send plain atomics.
template <typename Key>
struct groups_commit {
    unsigned lanes;
    bool active;
    Key key;
    unsigned group;           // the active lanes with the caller's key; not used in inactive lanes
    bool summed;              // whether the caller's group is summed; false in inactive lanes
    bool leads;               // whether the caller is the lowest lane of a group that is summed
    unsigned leaders;         // the lanes with `leads`, the same in all lanes; used in a whole warp only
    unsigned size_of_largest; // of the groups that are summed, 1 if there is none; the same in all lanes

    template <int K, typename T, typename Sink>
    __device__ __forceinline__ void operator()(const T (&val)[K], const Sink &sink) const {
        if (lanes == all_lanes) {
            constexpr bool few = K < min_values_by_group || !is_addressed_by_key<Sink, Key, T>;
            constexpr int shuffles = group_shuffles<K, Sink, Key, T>();
            // Side by side, a group costs a lane's atomics; few if the sink sends several values by one.
            constexpr int saved = tree_cost(shuffles) - request_cost * requests_of_a_lane<K, Sink>;
            const int doublings = 32 - __clz(int(size_of_largest) - 1); // ceil(log2(size_of_largest))
            const int groups = count_lanes(leaders);
            const bool by_groups =
                few ? groups * shuffles <= doublings * (K + 1)
                    : saved <= 0 || groups * saved <= side_by_side_cost(doublings * (K + 1));
            if (by_groups) {
                if (active && !summed) sink.add(key, val);
                for (unsigned rest = leaders; rest != 0; rest &= rest - 1) {
                    const unsigned leader = lowest_lane(rest);
                    const Key group_key = __shfl_sync(all_lanes, key, int(leader));
                    const bool member = summed && (group & rest & (0u - rest)) != 0;
                    tree_commit<Key>{member, leader, group_key}(val, sink);
                }
                return;
            }
        }
        const sink_operator<Sink> op{};
        T sum[K];
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) sum[k] = detail::operand(true, val[k], op);
        detail::sum_by_doubling(lanes, summed ? group : 0, size_of_largest, sum, op);
        if (leads || (active && !summed)) sink.add(key, sum);
    }
};

template <typename T>
__device__ __forceinline__ constexpr void check_tree() {
    static_assert(is_tree_value<T>, "distwar: a tree takes float, double or integers of 4 or 8 bytes");
}
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ constexpr void check_tree() {
    detail::check_tree<T>();
    static_assert(K <= max_tree_values ||
                      is_addressed_by_key<Sink, decltype(detail::plain_key(declared<Key>())), T>,
                  "distwar: more than 64 values need a sink addressed by key");
}

// reduce_tree and reduce_tree_n.
template <typename Values, typename Key, typename Sink>
__device__ __forceinline__ void sum_by_tree(unsigned lanes, bool active, Key key, const Values &values,
                                            const Sink &sink, int balance_threshold) {
    detail::check_call(active, key, sink, values.count);
    using plain = decltype(detail::plain_key(key));
    const unsigned active_lanes = __ballot_sync(lanes, active);
    // At a threshold <= 1 the early return is taken only if no lane is active: there is nothing to add.
    const bool sums_all = balance_threshold <= 1;
    if (count_lanes(active_lanes) < (balance_threshold > 1 ? balance_threshold : 1)) {
        if (!sums_all && active) values.each(true, sink, plain_commit<plain>{detail::plain_key(key)});
        return;
    }
    if (lanes == all_lanes) {
        plain shared;
        if (share_one_key(all_lanes, active_lanes, active, key, shared)) {
            values.each(active, sink, tree_commit<plain>{active, lowest_lane(active_lanes), shared});
            return;
        }
    }

    const unsigned group = lanes_with_key(lanes, key) & active_lanes; // not used in inactive lanes
    const int size = count_lanes(group);
    const bool summed = active && size >= 2 && size >= balance_threshold;
    const bool leads = summed && lowest_lane(group) == lane_id();
    const unsigned size_of_largest = largest(lanes, summed ? unsigned(size) : 1);
    const unsigned leaders = lanes == all_lanes ? __ballot_sync(all_lanes, leads) : 0;
    values.each(active, sink,
                groups_commit<plain>{lanes, active, detail::plain_key(key), group, summed, leads, leaders,
                                     size_of_largest});
}

} // namespace detail

// Adds the values of all active lanes to the sink, for any keys and any `lanes`; best for a whole warp whose active
// lanes share one key. The contract is in reduce.cuh. T is float, double or an integer of 4 or 8 bytes, K >= 1; more
// than 64 values are summed in chunks of 32 (chunks.cuh). With the same active lanes, the order is always the same.
//
// Who commits:
//   sink addressed by key (record, planes)  Lane l commits the totals it owns, those of values l and l + 32.
//                                           Inactive lanes and lanes of other groups do so too; therefore the
//                                           sink is the same in all of `lanes`.
//   any other sink (pointers)               The lowest lane of the group, with K atomics. The totals move to
//                                           it by K more shuffles.
//
// Cost (shuffles of 8-byte values and keys count twice; a whole warp means lanes = all_lanes):
//   always                  1 vote
//   whole warp              1 shuffle and 1 vote to compare the keys; none with a uniform_key
//   whole warp, one key     tree_shuffles(K) shuffles (12 for K = 9), ceil(K / 32) atomic instructions. Up to
//                           3 values of int or unsigned, from compute capability 8.0 on: K redux replace
//                           tree_shuffles(K), also below
//   otherwise               1 match, 1 redux (6 votes before compute capability 8.0); whole warp: 1 vote.
//                           Then one of the two ways below sums the groups of at least max(2,
//                           balance_threshold) lanes. The other lanes send K atomic instructions.
//     group after group     for each group 1 + tree_shuffles(K) shuffles, ceil(K / 32) atomic instructions
//                           (pointers: K more shuffles, K atomic instructions)
//     side by side          (K + 1) ceil(log2(n)) - 1 shuffles, n the size of the largest group; K atomic
//                           instructions, by the lowest lane of each group together with the other lanes
// A whole warp sums group after group if K >= 5 and the sink is addressed by key, or if that needs no more shuffles (a
// redux counts as two). All else is summed side by side, also many small groups of a sink like aligned_record.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const float val[2] = {1, float(lane)};
//     distwar::reduce_tree(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
//     // sums: 16, 120, 8, 156
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_tree(lane_mask lanes, bool active, Key key, const T (&val)[K],
                                            const Sink &sink, int balance_threshold = 0) {
    detail::check_tree<K, T, Key, Sink>();
    detail::sum_by_tree(lanes, active, key, detail::all_of(val), sink, balance_threshold);
}

// reduce_tree at threshold 0 with a key that the caller knows. A sink that is addressed by key needs no leader:
// one vote tells whether a lane is active, which saves the comparison of a mask.
template <int K, typename T, typename Key, typename Sink>
__device__ __forceinline__ void reduce_tree(lane_mask lanes, bool active, uniform_key<Key> key,
                                            const T (&val)[K], const Sink &sink) {
    if constexpr (is_addressed_by_key<Sink, Key, T>) {
        if (lanes == all_lanes) {
            detail::check_tree<K, T, Key, Sink>();
            detail::check_call(active, key, sink, K);
            if (__any_sync(all_lanes, active))
                detail::all_of(val).each(active, sink, detail::tree_commit<Key>{active, 0, key.key});
            return;
        }
    }
    distwar::reduce_tree(lanes, active, key, val, sink, 0);
}

// reduce_tree for a number of values known at run time (chunks.cuh).
template <int Chunk = 16, typename Values, typename Key, typename Sink>
__device__ __forceinline__ void reduce_tree_n(lane_mask lanes, bool active, Key key, int count,
                                              const Values &values, const Sink &sink,
                                              int balance_threshold = 0) {
    const auto counted = detail::counted<Chunk>(count, values);
    detail::check_counted<Chunk, decltype(counted), Key, Sink>();
    detail::check_tree<typename decltype(counted)::type>();
    detail::sum_by_tree(lanes, active, key, counted, sink, balance_threshold);
}

} // namespace distwar

#include "pop_macros.h"

#endif
