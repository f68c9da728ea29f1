// SPDX-License-Identifier: MIT
//
// distwar: sums for kernels in which many threads add to few addresses. The lanes of a warp that add to the
// same address sum their values in registers first. One atomic then adds the sum to memory, in place of one
// atomic for each lane.
//
//     __global__ void backward(const int *primitive_of, int pixels, float *gradient) {
//         const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
//         const bool active = pixel < pixels; // no early return: all 32 lanes make the call
//         const int primitive = active ? primitive_of[pixel] : 0;
//         float value[9];
//         if (active) gradient_of(pixel, value);
//         // for k < 9: gradient[12 * primitive + k] += value[k]
//         distwar::reduce(distwar::all_lanes, active, primitive, value, distwar::record<float>{gradient, 12});
//     }
//
// Begin with reduce: it decides by what is known when the kernel is compiled. The calls with names do one thing each;
// docs/kernel.md says when one is faster, and when no call is. All have the same form and the same contract:
//
//     reduce(lanes, active, key, val, sink)
//     reduce_NAME(lanes, active, key, val, sink, balance_threshold = 0)
//
// Arguments
//   lanes   Mask of the lanes that make this call together, usually all_lanes. Each lane in it makes the call, with the
//           same mask and threshold, and no other lane does. They need not be converged; different branches may make
//           calls with disjoint masks.
//   active  Whether this lane has values to add. An inactive lane makes the call but adds nothing; its key,
//           values and addresses are ignored and may be uninitialized.
//   key     What this lane adds to: an integer of 4 or 8 bytes. Active lanes with equal keys form a group.
//           uniform_key{key}: the caller guarantees that all of `lanes`, inactive ones included, have this key.
//   val     K values, for reduce also a single value or a list, values(color, opacity): float, double or integers of 4
//           or 8 bytes, with half.cuh also __half2 and __nv_bfloat162. K is a compile-time constant >= 1. More than 64
//           values are summed in chunks of 32, if the sink is addressed by key. A number known at run time: reduce_n.
//   sink    Where the values are added, in global or shared memory (sink.cuh): record, aligned_record, planes, fields or
//           your own type with add_one(key, k, value), the same in all lanes, inactive ones included; pointers, K addresses
//           of the lane, equal within a group and ignored in inactive lanes; for reduce also in_shared(sink), the promise
//           that it lies in shared memory, where no other lanes are needed.
//   balance_threshold (calls with names)
//           A group of at least this many active lanes is summed in the warp and committed once. In a
//           smaller group each lane sends its own K atomics. This divides the work between the SM and the
//           atomic units of the L2 cache. <= 0 sums every group, >= 33 none. Start with 0.
//
// Result
//   - The values of every active lane have been added exactly once, by relaxed atomics of the sink's scope. Other threads
//     see the sums as they see any atomicAdd.
//   - The order of the floating-point additions is undefined, unless a call defines it. Sums of integers have the same
//     bits in any order: require<determinism::gpu_to_gpu>(sink) compiles for those sinks alone (sink.cuh).
//   - A sum of 8-byte integers in shared memory is not to be read before a barrier: it is two additions (atomic.cuh).
//
// Undefined: another call of a lane of `lanes` than described; lanes of one group with different addresses in `pointers`; a
// sink addressed by key or a uniform_key that differs between lanes of the call.
//
// Errors: none at run time. Wrong types are static assertions that begin with "distwar:".
//
// Cost of a call (n: active lanes of the largest group). If no lane is active: at most one vote.
//
//     call            sums in the warp            shuffles             atomics
//     --------------  --------------------------  -------------------  ----------------------------
//     reduce          one of the ways below       said there
//     reduce_atomic   nothing (the baseline)      0                    K by each active lane
//     reduce_serial   any keys, any lanes         K (n - 1)            K by one lane of each group
//     reduce_bfly     one key and all 32 lanes,   5K + 1               K by one lane
//                     else as reduce_atomic
//     reduce_tree     any keys, any lanes;        one key: about       one instruction for all K
//                     best for one key and all    K + 5                values of a group
//                     32 lanes                    (K = 9: 12 + 1)
//
// The header of each call states its full cost; docs/reference.md has all calls and their headers.
#ifndef DISTWAR_REDUCE_CUH
#define DISTWAR_REDUCE_CUH

#include "group.cuh"
#include "queue.cuh"
#include "strategy.h"

namespace distwar {

namespace detail {

// ---- reduce_serial: the first lane of each group reads the others one by one (SW-S of DISTWAR, Durvasula et al. 2023)

// Sums the groups of a call side by side and commits them.
template <typename Key>
struct serial_commit {
    const keyed_groups<Key> &groups;

    template <int K, typename T, typename Sink>
    DISTWAR_DEVICE void operator()(const T (&val)[K], const Sink &sink) const {
        // Only leaders change their sums, and no lane reads a leader, so each lane that is read still holds
        // its own value.
        const sink_operator<Sink> op{};
        T sum[K];
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) sum[k] = detail::operand(true, val[k], op);
        unsigned rest =
            groups.leads ? groups.group & (groups.group - 1) : 0; // lanes that a leader has not read yet
        for (unsigned read = 1; read < groups.largest_size; ++read) {
            const bool more = rest != 0;
            const int source = int(more ? lowest_lane(rest) : lane_id());
            DISTWAR_UNROLL
            for (int k = 0; k < K; ++k) {
                const T read_value = detail::shuffle(groups.lanes, sum[k], source);
                if (more) sum[k] = op(sum[k], read_value);
            }
            rest &= rest - 1;
        }
        if (groups.leads || (groups.active && !groups.summed)) sink.add(groups.key, sum);
    }
};

// ---- reduce_bfly: a butterfly of shuffles for each value (SW-B of DISTWAR)

// Sums the values of the active lanes of a whole warp and commits them to `key`.
template <typename Key>
struct butterfly_commit {
    bool active, leads;
    Key key;

    template <int K, typename T, typename Sink>
    DISTWAR_DEVICE void operator()(const T (&val)[K], const Sink &sink) const {
        const sink_operator<Sink> op{};
        T sum[K]; // in the end the total, in every lane
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            sum[k] = detail::operand(active, val[k], op);
            DISTWAR_UNROLL
            for (int distance = 16; distance > 0; distance /= 2)
                sum[k] = op(sum[k], detail::shuffle_xor(sum[k], distance));
        }
        if (leads) sink.add(key, sum);
    }
};

template <typename Values, typename Key, typename Sink>
DISTWAR_DEVICE void sum_by_butterfly(unsigned lanes, bool active, Key key, const Values &values,
                                     const Sink &sink, int balance_threshold) {
    using plain = plain_key_of<Key>;
    plain shared = detail::plain_key(key);
    const unsigned active_lanes = lanes == all_lanes ? __ballot_sync(all_lanes, active) : 0;
    if (lanes == all_lanes && active_lanes == 0) return;
    if (lanes == all_lanes && __popc(active_lanes) >= balance_threshold &&
        detail::share_one_key(all_lanes, active_lanes, active, key, shared))
        values.each(active, sink,
                    butterfly_commit<plain>{active, lane_id() == lowest_lane(active_lanes), shared});
    else if (active)
        values.each(true, sink, plain_commit<plain>{detail::plain_key(key)});
}

// ---- reduce_serial, and reduce_tree: one tree for all values (tree.cuh)

// SumsAll: the threshold is 0.
template <strategy S, bool SumsAll, typename Values, typename Key, typename Sink>
DISTWAR_DEVICE void sum_groups(unsigned lanes, bool active, Key key, const Values &values, const Sink &sink,
                               int balance_threshold) {
    using plain = plain_key_of<Key>;
    // A sink that is addressed by key needs no leader of a known key: one vote tells whether a lane is active, which
    // saves the comparison of a mask.
    if constexpr (SumsAll && is_uniform<Key> && is_addressed_by_key<Sink, plain, typename Values::type>)
        if (lanes == all_lanes) {
            if (__any_sync(all_lanes, active))
                values.each(active, sink, tree_commit<plain>{active, 0, key.key});
            return;
        }
    keyed_groups<plain> groups = {};
    groups.lanes = lanes, groups.active = active, groups.key = detail::plain_key(key);
    groups.active_lanes = __ballot_sync(lanes, active);
    // At a threshold <= 1 the early return is taken only if no lane is active: there is nothing to add.
    const bool sums_all = balance_threshold <= 1;
    if (__popc(groups.active_lanes) < (balance_threshold > 1 ? balance_threshold : 1)) {
        if (!sums_all && active) values.each(true, sink, plain_commit<plain>{groups.key});
        return;
    }
    plain shared;
    if (S == strategy::tree && lanes == all_lanes &&
        detail::share_one_key(all_lanes, groups.active_lanes, active, key, shared)) {
        values.each(active, sink, tree_commit<plain>{active, lowest_lane(groups.active_lanes), shared});
        return;
    }
    groups.template find<S == strategy::tree>(key, balance_threshold);
    if constexpr (S == strategy::tree)
        values.each(active, sink, groups);
    else
        values.each(active, sink, serial_commit<plain>{groups});
}

// The call of a strategy; all arguments are checked here.
template <strategy S, bool SumsAll = false, typename Values, typename Key, typename Sink>
DISTWAR_DEVICE void sum_by(unsigned lanes, bool active, Key key, const Values &values, const Sink &sink,
                           int balance_threshold) {
    static_assert((reduce_strategies >> int(S) & 1) != 0,
                  "distwar: reduce<> takes the strategies atomic, serial, bfly and tree");
    detail::check_call(active, key, sink, values.count);
    if constexpr (S == strategy::tree) detail::check_tree<Values, Key, Sink>();
    if constexpr (S == strategy::serial || S == strategy::tree)
        detail::sum_groups<S, SumsAll>(lanes, active, key, values, sink, balance_threshold);
    else if constexpr (S == strategy::bfly)
        detail::sum_by_butterfly(lanes, active, key, values, sink, balance_threshold);
    else if (active)
        values.each(true, sink, plain_commit<plain_key_of<Key>>{detail::plain_key(key)});
}

// ---- reduce

// Whether the keys of a whole warp differ, if neighbours do. 15 shuffles take about 16 cycles of an SM and find what a
// match of 32 different keys finds in 70. Equal keys are mostly found by the first five, and the match follows. So it
// does if an inactive lane has the key of an active one.
template <typename Key>
DISTWAR_DEVICE bool all_differ(bool active, Key key) {
    const int lane = int(lane_id());
#if DISTWAR_PTX
#pragma unroll 1
#endif
    for (int distance = 2; distance <= 16; distance += 5) { // round the warp two lanes are at most 16 apart
        bool equal = false;
        DISTWAR_UNROLL
        for (int i = 0; i < 5; ++i)
            equal =
                __shfl_sync(all_lanes, key, lane + distance + i) == key || equal; // lane n is lane n mod 32
        if (__any_sync(all_lanes, active && equal)) return false;
    }
    return true;
}

// A match takes 2.2 cycles of an SM for each different key, 70 for 32. Plain atomics take less where their lanes have
// neighbouring addresses, or where a kernel does little else. So the calls of one value look first whether the keys
// rise by one from lane to lane. If they do within all pairs or fours of lanes, each lane searches for key - place,
// with place its number in the pair or four: a half or a quarter as many keys. Equal keys at different places are then
// not found; each place commits.
template <typename Key>
DISTWAR_DEVICE unsigned lanes_at_place(bool fours, Key key) {
    const unsigned place = lane_id() % (fours ? 4 : 2), first_places = fours ? 0x11111111 : 0x55555555;
    return __match_any_sync(all_lanes, Key(key - Key(place))) & first_places << place;
}

// The active lanes with the caller's key, or some of them.
template <int K, typename Key>
DISTWAR_DEVICE unsigned lanes_to_sum(unsigned lanes, bool active, unsigned active_lanes, Key key) {
    if (K == 1 && lanes == all_lanes) {
        const unsigned lane = lane_id();
        const Key before = __shfl_up_sync(all_lanes, key, 1);
        const bool rises = !active || bits_of<Key>(key) - bits_of<Key>(before) == 1;
        if (__all_sync(all_lanes, rises || lane % 2 == 0))
            return detail::lanes_at_place(__all_sync(all_lanes, rises || lane % 4 == 0), key) & active_lanes;
    }
    return __match_any_sync(lanes, key) & active_lanes;
}

// The same for one value that is no packed pair. Returns in all lanes whether two active ones may have one key; if so,
// active_lanes and group are set. One shuffle and one vote tell whether keys rise by one everywhere; then there is
// nothing to sum. There is no match if all keys differ. A grid of pairs would pay 2 to 4% of its time for both tests.
template <typename Key>
DISTWAR_DEVICE bool find_lanes_to_sum(unsigned lanes, bool active, Key key, unsigned &active_lanes,
                                      unsigned &group) {
    Key before = key;
    unsigned breaks = all_lanes; // lanes whose key is not that of the lane before and one
    if (lanes == all_lanes) {
        before = __shfl_sync(all_lanes, key, int(lane_id()) + 31); // of lane 0 the last
        breaks = __ballot_sync(all_lanes, active && bits_of<Key>(key) - bits_of<Key>(before) != 1);
        if ((breaks & 0xfffffffe) == 0) return false;
    }
    active_lanes = __ballot_sync(lanes, active);
    if ((active_lanes & (active_lanes - 1)) == 0) return false; // at most one is active
    if ((breaks & 0xaaaaaaaa) == 0) {
        group = detail::lanes_at_place((breaks & 0xeeeeeeee) == 0, key) & active_lanes;
        return true;
    }
    if (lanes == all_lanes && !__any_sync(all_lanes, active && key == before) &&
        detail::all_differ(active, key))
        return false;
    group = __match_any_sync(lanes, key) & active_lanes;
    return true;
}

// Sums the groups of a call side by side and commits them. K is small: a group's lane sends K atomics. If there are as
// many first lanes of groups as active lanes, there is nothing to sum; if there is one, the warp has one key.
template <int K, typename T, typename Key, typename Sink>
DISTWAR_DEVICE void sum_side_by_side(unsigned lanes, bool active, Key key, const T (&val)[K],
                                     const Sink &sink) {
    unsigned active_lanes = 0, group = 0, leaders;
    bool leads = active;
    if constexpr (K == 1 && !is_packed<T>) {
        if (detail::find_lanes_to_sum(lanes, active, key, active_lanes, group)) {
            const bool is_first = detail::lanes_below(group) == 0;
            leads = active && is_first;
            leaders = __ballot_sync(lanes, leads);
        } else {
            leaders = active_lanes;
        }
    } else {
        active_lanes = __ballot_sync(lanes, active);
        if (active_lanes == 0) return;
        group = detail::lanes_to_sum<K>(lanes, active, active_lanes, key);
        leads = active && (group & ((1u << lane_id()) - 1)) == 0;
        leaders = __ballot_sync(lanes, leads);
    }
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
    detail::segmented_sum<true>(lanes, detail::next_above(active ? group : 0), 0, sum, op);
    if (leads) sink.add(key, sum);
}

} // namespace detail

// Adds the values of all active lanes to the sink: the one call that is right by default.
//   values  an array of K values; a single value; or a list: values(color, opacity)
// What it does is known when the kernel is compiled:
//
//     key           memory     values                       what it does
//     ------------  ---------  ---------------------------  --------------------------------------------------
//     uniform_key   any        any                          reduce_tree
//     several keys  global     K < 5, or by vector atomics  sums side by side (below)
//     several keys  global     K >= 5                       reduce_tree: one tree for each group
//     several keys  shared     any                          plain atomics
//
// Memory: of record, aligned_record, planes and the sinks of halves it is seen from the pointer; where nvcc does not know it,
// one test at run time decides. in_shared(sink) says it for every sink, your own included: then each lane may make the call
// alone, in any branch, and the loops and early exits of the kernel stay as they are.
//
// In shared memory plain atomics were twice as fast as reduce_tree at even keys, and half as fast where few keys get
// most additions of floats (docs/kernel.md). Of integers of 4 bytes they won by 3 to 9 times.
//
// Cost, of several keys in global memory with K < 5, or up to 9 values by vector atomics (shuffles of 8-byte
// values and keys count twice); else that of reduce_tree or reduce_atomic:
//   always                1 vote; nothing else if no lane is active
//   to find the groups    1 match, 1 vote; nothing else but K atomic instructions if all keys differ
//   K = 1, whole warp     before both 1 shuffle, 1 vote; nothing else but an atomic instruction if the keys rise by one, or
//                         at most one lane is active. Unless keys rise within pairs: 1 vote; if no neighbours are equal also
//                         5, 10 or 15 shuffles and a vote for 5, and after 15 nothing else but an atomic instruction
//   K = 1, a packed pair  also 1 shuffle, 1 vote, and another vote where keys rise within pairs
//   whole warp, one key   1 shuffle for the key, tree_shuffles(K) shuffles, one atomic instruction
//   otherwise             ceil(log2(n)) (K + 1) shuffles and ceil(log2(n)) votes, n the size of the largest
//                         group; K atomic instructions
// Example (one warp, `lane` its lane, arrays of zeros):
//     distwar::reduce(distwar::all_lanes, true, lane / 16, float(lane), distwar::record<float>{sums, 1});
//     // sums: 120, 376
template <int K, typename T, typename Key, typename Sink>
DISTWAR_DEVICE void reduce(detail::lane_mask lanes, bool active, Key key, const T (&val)[K],
                           const Sink &sink) {
    detail::check_call(active, key, sink, K);
    const auto values = detail::all_of(val);
    detail::check_tree<decltype(values), Key, Sink>();
    // nvcc folds this where it knows the memory.
    bool is_shared = detail::is_in_shared<Sink>;
#if DISTWAR_PTX
    if constexpr (detail::has_one_base<Sink>) is_shared = is_shared || __isShared(sink.base);
#endif
    if constexpr (detail::is_uniform<Key>) {
        detail::sum_groups<strategy::tree, true>(lanes, active, key, values, sink, 0);
    } else if (is_shared) {
        if (active) sink.add(key, val);
    } else if constexpr (detail::requests_of_a_lane<K, Sink> < detail::min_values_by_group &&
                         K < 2 * detail::min_values_by_group) {
        detail::sum_side_by_side(lanes, active, key, val, sink);
    } else {
        detail::sum_groups<strategy::tree, true>(lanes, active, key, values, sink, 0);
    }
}
template <int K, typename T, typename Key, typename Sink>
DISTWAR_DEVICE void reduce(detail::lane_mask lanes, bool active, Key key,
                           const detail::value_list<K, T> &list, const Sink &sink) {
    distwar::reduce(lanes, active, key, list.of, sink);
}
template <typename T, typename Key, typename Sink>
DISTWAR_DEVICE void reduce(detail::lane_mask lanes, bool active, Key key, const T &single, const Sink &sink) {
    static_assert(detail::is_value<T>,
                  "distwar: the values are float, double or integers of 4 or 8 bytes, an array of "
                  "them, or values(float3{...}, ...); for __half and __nv_bfloat16 pass floats");
    if constexpr (detail::is_value<T>) distwar::reduce(lanes, active, key, distwar::values(single), sink);
}

// ---- the calls with names

// Each active lane sends its own K atomics, in the machine code of your own atomics (tests/codegen). `lanes` and the
// threshold are ignored, so the loop may stay as it was. Cost: K atomic instructions.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const float val[2] = {1, float(lane)};
//     distwar::reduce_atomic(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
//     // sums: 16, 120, 8, 156
template <int K, typename T, typename Key, typename Sink>
DISTWAR_DEVICE void reduce_atomic(detail::lane_mask lanes, bool active, Key key, const T (&val)[K],
                                  const Sink &sink, int balance_threshold = 0) {
    detail::sum_by<strategy::atomic>(lanes, active, key, detail::all_of(val), sink, balance_threshold);
}

// A group is summed in the order of its lanes, so its sum is the same in every run. In each iteration the lowest lane
// of every group reads the next one: with keys A B A B A in lanes 0..4 lane 0 reads lane 2, then 4, while lane 1 reads
// lane 3.
//
// Cost: 1 vote. If at least balance_threshold lanes are active, also
//   1 match         none with a uniform_key
//   1 redux         6 votes before compute capability 8.0
//   K (n - 1)       shuffles, n the size of the largest group that is summed; double counts twice
//   K               atomic instructions
// Example (one warp, `lane` its lane, arrays of zeros):
//     const float val[2] = {1, float(lane)};
//     distwar::reduce_serial(distwar::all_lanes, lane < 24, lane / 16, val, distwar::record<float>{sums, 2});
//     // sums: 16, 120, 8, 156
template <int K, typename T, typename Key, typename Sink>
DISTWAR_DEVICE void reduce_serial(detail::lane_mask lanes, bool active, Key key, const T (&val)[K],
                                  const Sink &sink, int balance_threshold = 0) {
    detail::sum_by<strategy::serial>(lanes, active, key, detail::all_of(val), sink, balance_threshold);
}

// Sums in the warp if `lanes` is all_lanes and the active lanes share one key; otherwise every active lane sends K plain
// atomics. The lowest active lane commits: lane 0 may be inactive and its key and addresses invalid.
//
// Cost with all 32 lanes:
//   1 vote
//   1 shuffle, 1 vote  to compare the keys, if any lane is active and the threshold is met; an 8-byte key
//                      counts twice; none with a uniform_key
//   5K shuffles        if there is one key; double counts twice
//   K                  atomic instructions, each by one lane
// With a partial mask: K atomic instructions, no votes and no shuffles.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const float val[2] = {1, float(lane)};
//     distwar::reduce_bfly(distwar::all_lanes, lane < 24, 1, val, distwar::record<float>{sums, 2});
//     // sums: 0, 0, 24, 276
template <int K, typename T, typename Key, typename Sink>
DISTWAR_DEVICE void reduce_bfly(detail::lane_mask lanes, bool active, Key key, const T (&val)[K],
                                const Sink &sink, int balance_threshold = 0) {
    detail::sum_by<strategy::bfly>(lanes, active, key, detail::all_of(val), sink, balance_threshold);
}

// Best for a whole warp whose active lanes share one key. The order of additions depends on the active lanes alone.
// Into a sink addressed by key (record, planes) lane l commits the totals it owns, those of values l and l + 32, also
// of other groups and if it is inactive. Into another (pointers) the lowest lane of the group commits, at K more
// shuffles.
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
DISTWAR_DEVICE void reduce_tree(detail::lane_mask lanes, bool active, Key key, const T (&val)[K],
                                const Sink &sink, int balance_threshold = 0) {
    detail::sum_by<strategy::tree>(lanes, active, key, detail::all_of(val), sink, balance_threshold);
}

// The same at threshold 0 with a key that the caller knows.
template <int K, typename T, typename Key, typename Sink>
DISTWAR_DEVICE void reduce_tree(detail::lane_mask lanes, bool active, uniform_key<Key> key, const T (&val)[K],
                                const Sink &sink) {
    detail::sum_by<strategy::tree, true>(lanes, active, key, detail::all_of(val), sink, 0);
}

// Calls reduce_S: reduce<strategy::tree>(...) is reduce_tree(...). S: atomic, serial, bfly or tree.
template <strategy S, int K, typename T, typename Key, typename Sink>
DISTWAR_DEVICE void reduce(detail::lane_mask lanes, bool active, Key key, const T (&val)[K], const Sink &sink,
                           int balance_threshold = 0) {
    detail::sum_by<S>(lanes, active, key, detail::all_of(val), sink, balance_threshold);
}

// reduce for a number of values known at run time, by a strategy; the tree is the default.
//
//   Chunk   values that are summed at once and lie in registers: a multiple of 4, at most 64
//   count   the number of values, the same in all of `lanes`. <= 0: nothing is added
//   values  one of
//           - a pointer to them, or an array, which then lies in local memory; those of an inactive lane are not read
//           - a callable value_of(k), for any count. Each active lane calls it once for each k < count, in
//             rising order, a chunk at a time; an inactive lane never. It contains no collective
//   sink    addressed by key (all sinks but `pointers`), with room for `count` values. The last chunk is padded;
//           padding is never committed
// Cost: keys are compared once for all chunks. Then each chunk costs what Chunk values cost in the call, without its search
// for the groups. On sm_90, one key, a record, beside the values themselves: a chunk of 8, 16, 32 values takes 57, 88, 152
// instructions and 30, 32, 48 registers. One lane alone (below the threshold, serial, bfly) adds whole chunks by vector
// atomics if the sink has them, the last one by one.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto value_of = [&](int k) { return k * lane; };
//     distwar::reduce_n(distwar::all_lanes, true, lane / 16, 3, value_of, distwar::record<int>{sums, 3});
//     // sums: 0, 120, 240, 0, 376, 752
template <strategy S, int Chunk = 16, typename Values, typename Key, typename Sink>
DISTWAR_DEVICE void reduce_n(detail::lane_mask lanes, bool active, Key key, int count, const Values &values,
                             const Sink &sink, int balance_threshold = 0) {
    detail::sum_by<S>(lanes, active, key, detail::counted<Chunk, Key, Sink>(count, values), sink,
                      balance_threshold);
}
template <int Chunk = 16, typename Values, typename Key, typename Sink>
DISTWAR_DEVICE void reduce_n(detail::lane_mask lanes, bool active, Key key, int count, const Values &values,
                             const Sink &sink, int balance_threshold = 0) {
    distwar::reduce_n<strategy::tree, Chunk>(lanes, active, key, count, values, sink, balance_threshold);
}

} // namespace distwar

#endif
