// SPDX-License-Identifier: MIT
// The tree: one tree of shuffles for all K values at once. reduce sums with it; tree_total is the tree without the commit;
// tree_of_lanes is a part of it, for sums within groups of lanes.
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

#include "values.cuh"

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

namespace detail {

// The shuffles of one tree: 5 for K = 1, 12 for 9, 62 for 64. A shuffle of double is two instructions.
__host__ __device__ constexpr int tree_shuffles(int K) {
    int shuffles = 0;
    for (int lanes = 2; lanes <= 32; lanes *= 2) shuffles += (K + lanes - 1) / lanes;
    return shuffles;
}

// From compute capability 8.0 on one redux replaces 5 shuffles and 5 additions of a 32-bit integer, at half the
// throughput of a shuffle (CUDA C++ Programming Guide). So 3 redux cost as much as the 6 shuffles of a tree of 3
// values, and save its selects. Not measured.
inline constexpr int max_values_by_redux = 3;
template <int K, typename T, typename Op>
inline constexpr bool is_summed_by_redux = is_integer<T> && sizeof(T) == 4 && K <= max_values_by_redux &&
                                           (architecture == 0 || architecture >= 800) && !DISTWAR_CLANG &&
                                           !is_same<Op, multiply>;
// The reduction of an int or unsigned over the warp, by functions that clang up to 19 lacks.
#define DISTWAR_REDUX(Op, call)                                                                              \
    template <typename T>                                                                                    \
    DISTWAR_DEVICE T redux(T given, Op) {                                                                    \
        return T(call(all_lanes, given));                                                                    \
    }
DISTWAR_REDUX(add, __reduce_add_sync)
DISTWAR_REDUX(minimum, __reduce_min_sync)
DISTWAR_REDUX(maximum, __reduce_max_sync)
DISTWAR_REDUX(bit_and, __reduce_and_sync)
DISTWAR_REDUX(bit_or, __reduce_or_sync)
DISTWAR_REDUX(bit_xor, __reduce_xor_sync)
#undef DISTWAR_REDUX

// Steps Step..End - 1 of the tree, in place, of the first `count` values. Every index is a constant: `partial` is in
// registers.
template <int Step, int End, int count, int K, typename T, typename Op>
DISTWAR_DEVICE void exchange(T (&partial)[K], Op op) {
    constexpr int distance = 1 << Step;
    const unsigned odd = lane_id() & distance;
    DISTWAR_UNROLL
    for (int i = 0; i < count / 2; ++i) {
        const T at_even = partial[2 * i], at_odd = partial[2 * i + 1];
        const T exchanged_value = detail::select(odd, at_even, at_odd);
        partial[i] = detail::shuffle_xor(exchanged_value, distance);
        if constexpr (is_same<Op, add> && !is_packed<T>) // with the value that the lane keeps
            detail::add_selected(odd, partial[i], at_odd, at_even);
        else
            partial[i] = op(partial[i], detail::select(odd, at_odd, at_even));
    }
    // With an odd count the last value, at an even place, has no other to be exchanged for: both lanes sum it.
    if constexpr (count % 2 == 1)
        partial[count / 2] = op(partial[count - 1], detail::shuffle_xor(partial[count - 1], distance));
    if constexpr (Step + 1 < End) detail::exchange<Step + 1, End, (count + 1) / 2>(partial, op);
}

} // namespace detail

// The totals of K values over the active lanes of a warp, without a commit.
//   who calls  all 32 lanes together
//   active     whether this lane's values count; those of inactive lanes are ignored
//   val        1 <= K <= 64 values: float, double or integers of 4 or 8 bytes
//   total      out: the total of value k in lane tree_owner(k), place tree_place(k)
//   op         add, minimum, maximum, multiply, or of integers bit_and, bit_or, bit_xor
// If no lane is active the totals are what changes nothing, 0 for add (atomic.cuh). A NaN makes a sum NaN; minimum and
// maximum ignore it. The order of additions depends on K alone.
// Cost: tree_shuffles(K) shuffles, nothing else. K redux for up to 3 ints or unsigned ints from compute capability 8.0 on.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const int val[2] = {lane, -lane};
//     int total[distwar::tree_places(2)];
//     distwar::tree_total(lane < 24, val, total, distwar::maximum{});
//     if (lane < 2) totals[lane] = total[0];
//     // totals: 23, 0
template <int K, typename T, typename Op = add>
DISTWAR_DEVICE void tree_total(bool active, const T (&val)[K], T (&total)[tree_places(K)], Op op = Op{}) {
    static_assert(detail::is_value<T>, "distwar: a tree takes float, double or integers of 4 or 8 bytes");
    static_assert(K <= detail::max_tree_values, "distwar: a tree takes at most 64 values");
    T partial[K];
    if constexpr (detail::is_summed_by_redux<K, T, Op>) {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            const T all = T(detail::redux(detail::integer_of<T>(detail::operand(active, val[k], op)), op));
            partial[0] = k == 0 || lane_id() == unsigned(k) ? all : partial[0];
        }
    } else if constexpr (detail::is_same<Op, add>) {
        // Step 0. An inactive lane keeps and sends zeros: shift_pair picks from (val[2i], val[2i + 1]) by a shift.
        // Example with K = 4, lanes 0 and 2 active:
        //
        //               keep_shift  send_shift  keeps           sends
        //     lane 0     0          32          val[0], val[2]  val[1], val[3]
        //     lane 1    64          64          0, 0            0, 0
        //     lane 2     0          32          val[0], val[2]  val[1], val[3]
        //     lane 3    64          64          0, 0            0, 0
        //
        // An active lane 1 would have the shifts 32 and 0.
        const unsigned odd = lane_id() & 1;
        const unsigned keep_shift = active ? 32 * odd : 64, send_shift = active ? 32 * (1 - odd) : 64;
        DISTWAR_UNROLL
        for (int i = 0; i < K / 2; ++i) {
            const T keep_value = detail::shift_pair(keep_shift, val[2 * i], val[2 * i + 1]);
            const T exchanged_value = detail::shift_pair(send_shift, val[2 * i], val[2 * i + 1]);
            partial[i] = op(keep_value, detail::shuffle_xor(exchanged_value, 1));
        }
        if constexpr (K % 2 == 1) { // the last value has no other to be exchanged for
            const T own_value = detail::operand(active, val[K - 1], op);
            partial[K / 2] = op(own_value, detail::shuffle_xor(own_value, 1));
        }
        detail::exchange<1, 5, (K + 1) / 2>(partial, op);
    } else {
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) partial[k] = detail::operand(active, val[k], op);
        detail::exchange<0, 5, K>(partial, op);
    }
    DISTWAR_UNROLL
    for (int place = 0; place < tree_places(K); ++place) total[place] = partial[place];
}

namespace detail {

// Commits the totals that tree_total has left to `key`. All 32 lanes call; `leader` commits if the sink is not addressed
// by key.
template <int K, typename T, typename Key, typename Sink>
DISTWAR_DEVICE void commit_totals(const T (&total)[tree_places(K)], unsigned leader, Key key,
                                  const Sink &sink) {
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
        for (int k = 0; k < K; ++k) sum[k] = detail::shuffle(all_lanes, total[tree_place(k)], tree_owner(k));
        if (lane_id() == leader) sink.add(key, sum);
    }
}

// Sums the values of the active lanes, which have one key, and commits them. `leader` is active. All 32 lanes call.
template <typename Key>
struct tree_commit {
    bool active;
    unsigned leader;
    Key key;

    template <int K, typename T, typename Sink>
    DISTWAR_DEVICE void operator()(const T (&val)[K], const Sink &sink) const {
        T total[tree_places(K)];
        distwar::tree_total(active, val, total, sink_operator<Sink>{});
        detail::commit_totals<K>(total, leader, key, sink);
    }
};

// The shuffles that sum and commit one of several groups, the shuffle of the key included. A redux counts as two.
template <int K, typename Sink, typename Key, typename T>
__host__ __device__ constexpr int group_shuffles() {
    return 1 + (is_summed_by_redux<K, T, sink_operator<Sink>> ? 2 * K : detail::tree_shuffles(K)) +
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

// What a call that sums by trees asks of its values.
template <typename Values, typename Key, typename Sink>
DISTWAR_DEVICE constexpr void check_tree() {
    using T = typename Values::type;
    static_assert(is_value<T>, "distwar: a tree takes float, double or integers of 4 or 8 bytes");
    static_assert(Values::at_once <= max_tree_values || is_addressed_by_key<Sink, plain_key_of<Key>, T>,
                  "distwar: more than 64 values need a sink addressed by key");
}

} // namespace detail

// Sums within groups of lanes whose numbers differ in bits First..End - 1 alone: steps First..End - 1 of the tree.
//   who calls    all 32 lanes together; each lane's values count
//   First, End   0 <= First < End <= 5. A group has n = 2^(End - First) lanes; lane l is number l / 2^First mod n of its group
//   val          in: 1 <= K <= 64 values, float, double or integers of 4 or 8 bytes. Out: lane number b of a group
//                has the group's sum of value n i + b in val[i], undefined if there is no such value; the rest is undefined
// tree_of_lanes<0, 5> leaves sums where tree_total does. Between two steps there is room for arithmetic that all lanes of
// a group have in common.
//
// Moments: lane l has the pixel x = l % 8, y = l / 8 and a value v, and the sums of v, x v, y v, x x v, x y v, y y v are
// wanted. As six values of each lane that is a tree of 8 shuffles. y is the same in the 8 lanes of a row and x in the 4
// lanes of a column: v, y v and y y v are summed over columns, tree_of_lanes<3, 5>, 3 shuffles. Then a lane has one sum s of
// its column, and s, x s and x x s are summed over the columns, tree_of_lanes<0, 3>, 4 shuffles.
//
// The order of additions depends on K and the steps alone.
// Cost: ceil(K / 2) + ceil(K / 4) + ... + ceil(K / n) shuffles.
// Example (one warp, `lane` its lane, arrays of zeros):
//     float val[2] = {1, float(lane)};
//     distwar::tree_of_lanes<3, 5>(val); // over lanes l, l + 8, l + 16 and l + 24
//     if (lane < 16) sums[lane] = val[0];
//     // sums: 4, 4, 4, 4, 4, 4, 4, 4, 48, 52, 56, 60, 64, 68, 72, 76
template <int First, int End, int K, typename T>
DISTWAR_DEVICE void tree_of_lanes(T (&val)[K]) {
    static_assert(0 <= First && First < End && End <= 5, "distwar: a warp has bits 0 to 4");
    static_assert(detail::is_value<T>, "distwar: a tree takes float, double or integers of 4 or 8 bytes");
    static_assert(K <= detail::max_tree_values, "distwar: a tree takes at most 64 values");
    detail::exchange<First, End, K>(val, add{});
}

} // namespace distwar

#endif
