// SPDX-License-Identifier: MIT
// group_lanes: finds the groups of a warp once, for any number of sums.
//
// group_lanes(lanes, active, key).add(val, sink, threshold) has the sums of reduce_tree, in the same order of
// additions. Each further add saves the votes, the match and the redux.
#ifndef DISTWAR_GROUP_CUH
#define DISTWAR_GROUP_CUH

#include "tree.cuh"

namespace distwar {

// The key that a sum of a group goes to, in place of the group's own.
template <typename Key>
struct at_key {
    Key key;
};
template <typename Key>
__host__ __device__ at_key(Key)->at_key<Key>;

namespace detail {

// What a lane knows about the groups of its warp.
struct found_groups {
    unsigned lanes, active_lanes;
    call_line place;
    bool active;
    bool one_key;          // a whole warp whose active lanes hold one key
    bool summed;           // whether the caller's group is summed; false in inactive lanes
    bool leads;            // whether the caller is the lowest lane of a group that is summed
    unsigned group;        // the active lanes with the caller's key; not used in inactive lanes
    unsigned leaders;      // the lanes with `leads`, the same in all lanes; used in a whole warp only
    unsigned largest_size; // of the groups that are summed, 1 if there is none; the same in all lanes
};

// The groups and what the values of the caller are added to. It sums the values of a chunk, group after group or side by
// side, and commits them; active lanes of other groups send plain atomics.
template <typename Key>
struct keyed_groups : found_groups {
    Key key; // the lane's own; if one_key, the one key, in inactive lanes, too

    // Finds the groups, of which those of at least `threshold` lanes are summed; by trees if they have two lanes and more.
    template <bool HasTrees, typename Given>
    DISTWAR_DEVICE void find(Given given, int threshold) {
        group = lanes_with_key(lanes, given) & active_lanes;
        const int size = __popc(group);
        summed = active && (!HasTrees || size >= 2) && size >= threshold;
        leads = summed && lowest_lane(group) == lane_id();
        largest_size = detail::largest(lanes, summed ? unsigned(size) : 1);
        if constexpr (HasTrees) leaders = lanes == all_lanes ? __ballot_sync(all_lanes, leads) : 0;
    }

    template <int K, typename T, typename Sink>
    DISTWAR_DEVICE void operator()(const T (&val)[K], const Sink &sink) const {
        const sink_operator<Sink> op{};
        if (lanes == all_lanes) {
            constexpr bool few = K < min_values_by_group || !is_addressed_by_key<Sink, Key, T>;
            constexpr int shuffles = group_shuffles<K, Sink, Key, T>();
            // Side by side, a group costs a lane's atomics; few if the sink sends several values by one.
            constexpr int saved = tree_cost(shuffles) - request_cost * requests_of_a_lane<K, Sink>;
            const int doublings = 32 - __clz(int(largest_size) - 1); // ceil(log2(largest_size))
            const int groups = __popc(leaders);
            const bool by_groups =
                few ? groups * shuffles <= doublings * (K + 1)
                    : saved <= 0 || groups * saved <= side_by_side_cost(doublings * (K + 1));
            if (by_groups) {
                if (active && !summed) sink.add(key, val);
                for (unsigned rest = leaders; rest != 0; rest &= rest - 1) {
                    const unsigned leader = lowest_lane(rest);
                    const Key group_key = __shfl_sync(all_lanes, key, int(leader));
                    const bool member = summed && (group & rest & (0u - rest)) != 0;
                    T total[tree_places(K)];
                    distwar::tree_total(member, val, total, op);
                    detail::commit_totals<K>(total, leader, group_key, sink);
                }
                return;
            }
        }
        T sum[K];
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) sum[k] = detail::operand(true, val[k], op);
        detail::segmented_sum<false>(lanes, detail::next_above(summed ? group : 0), largest_size, sum, op);
        if (leads || (active && !summed)) sink.add(key, sum);
    }
};

// What group_lanes returns. Copies are valid, too. add() and add_n() are its interface.
template <typename Key>
struct lane_groups {
    // Adds the values of all active lanes to the sink, by the contract of reduce_tree. All of the `lanes` that made the
    // handle call together. val: as for reduce; K and the type may differ from call to call.
    // Cost: what reduce_tree takes for its sums and commits; nothing if no lane is active. In a whole warp of several keys
    // with balance_threshold > 2 also 1 vote.
    //
    // With at_key in place of the threshold at another key, which follows from the key of the group: for the corners of a
    // cell or the nodes of a stencil, whose groups are those of the cell.
    //   other_key  an integer of 4 or 8 bytes, of another type than the group's key if need be; the same in all lanes of
    //              a group. Two groups may have the same. Ignored in inactive lanes
    // Cost: that of add; whole warp, one key: also 1 shuffle (of 8 bytes: two).
    template <typename Values, typename Sink, typename Where = int>
    DISTWAR_DEVICE void add(const Values &val, const Sink &sink, Where threshold_or_key = 0) const {
        add_values(detail::all_of(val), sink, threshold_or_key);
    }
    // The same for a number of values known at run time (reduce_n).
    template <int Chunk = 16, typename Values, typename Sink, typename Where = int>
    DISTWAR_DEVICE void add_n(int count, const Values &values, const Sink &sink,
                              Where threshold_or_key = 0) const {
        add_values(detail::counted<Chunk, Key, Sink>(count, values), sink, threshold_or_key);
    }

    keyed_groups<Key> found;

  private:
    template <typename Values, typename Sink, typename Where>
    DISTWAR_DEVICE void add_values(const Values &values, const Sink &sink, Where where) const {
        if constexpr (is_integer<Where>) {
            add_to(found, values, sink, where);
        } else {
            static_assert(is_integer<decltype(where.key)>,
                          "distwar: the key must be an integer of 4 or 8 bytes");
            const resumed_call call(found.lanes, found.place);
            detail::promise(found.active ? "lanes of one group pass different keys in at_key" : nullptr,
                            (unsigned long long)(found.key), (unsigned long long)(where.key), true);
            if (found.one_key)
                where.key = __shfl_sync(all_lanes, where.key, int(lowest_lane(found.active_lanes)));
            add_to(keyed_groups<decltype(where.key)>{found, where.key}, values, sink, 0);
        }
    }

    template <typename Groups, typename Values, typename Sink>
    static DISTWAR_DEVICE void add_to(Groups groups, const Values &values, const Sink &sink,
                                      int balance_threshold) {
        detail::check_tree<Values, decltype(groups.key), Sink>();
        const resumed_call call(groups.lanes, groups.place); // the add is a call at the line of group_lanes
        detail::check_call(groups.active, groups.key, sink, values.count);
        const bool sums_all = balance_threshold <= 1;
        if (__popc(groups.active_lanes) < (sums_all ? 1 : balance_threshold)) {
            if (!sums_all && groups.active)
                values.each(true, sink, plain_commit<decltype(groups.key)>{groups.key});
            return;
        }
        if (groups.one_key) {
            const unsigned leader = lowest_lane(groups.active_lanes);
            values.each(groups.active, sink,
                        tree_commit<decltype(groups.key)>{groups.active, leader, groups.key});
            return;
        }
        if (balance_threshold > 2) {
            groups.summed = groups.summed && __popc(groups.group) >= balance_threshold;
            groups.leads = groups.leads && groups.summed;
            if (groups.lanes == all_lanes) groups.leaders = __ballot_sync(all_lanes, groups.leads);
            if (int(groups.largest_size) < balance_threshold)
                groups.largest_size = 1; // no group is large enough
        }
        values.each(groups.active, sink, groups);
    }
};

} // namespace detail

// Finds the groups of active lanes with equal keys. The arguments are those of reduce.cuh.
//   who calls  all of `lanes` together
// Result: a handle. Its members add() and add_n() sum; their contracts stand above.
// Cost:
//   always                  1 vote; nothing else if no lane is active
//   whole warp              1 shuffle (8-byte keys: two) and 1 vote; none with a uniform_key
//   else than one key in a  1 match, 1 redux (6 votes before compute capability 8.0); whole warp: 1 vote
//   whole warp
// Example (one warp, `lane` its lane, arrays of zeros):
//     const auto groups = distwar::group_lanes(distwar::all_lanes, true, lane / 16);
//     groups.add(distwar::values(1), distwar::record<int>{counts, 1});
//     groups.add(distwar::values(lane), distwar::record<int>{sums, 1}, distwar::at_key{lane / 16 + 1});
//     // counts: 16, 16; sums: 0, 120, 376
template <typename Key>
DISTWAR_DEVICE auto group_lanes(detail::lane_mask lanes, bool active, Key key) {
    detail::check_key(key);
    detail::lane_groups<detail::plain_key_of<Key>> groups = {};
    auto &found = groups.found;
    found.lanes = lanes, found.place = detail::this_call(), found.active = active;
    found.key = detail::plain_key(key);
    found.active_lanes = __ballot_sync(lanes, active);
    if (found.active_lanes == 0) return groups;
    if (lanes == all_lanes) {
        auto shared = found.key;
        found.one_key = detail::share_one_key(all_lanes, found.active_lanes, active, key, shared);
        if (found.one_key) {
            found.key = shared;
            return groups;
        }
    }
    found.template find<true>(key, 2);
    return groups;
}

} // namespace distwar

#endif
