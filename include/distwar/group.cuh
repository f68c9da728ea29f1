// SPDX-License-Identifier: MIT
// group_lanes: finds the groups of a warp once, for any number of sums.
//
//     const auto groups = distwar::group_lanes(distwar::all_lanes, active, vertex);
//     groups.add(position, distwar::record<float>{d_position, 3}, threshold); // float position[3]
//     groups.add(color, distwar::record<float>{d_color, 4}, threshold);       // float color[4]
//     // a number of values known at run time, 8 at once (reduce_n)
//     groups.add_n<8>(attributes, [&](int k) { return attribute_gradient(k); },
//                     distwar::record<float>{d_attribute, stride}, threshold);
//
// reduce_tree(lanes, active, key, val, sink, threshold) equals group_lanes(lanes, active, key).add(val, sink,
// threshold), in its sums and in the order of its additions. Each further add saves the votes, the match and
// the redux.
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

// What a lane knows about the groups of its warp: what group_lanes returns. Copies are valid, too. add() and add_n() are its
// interface.
template <typename Key>
struct lane_groups {
    // Adds the values of all active lanes to the sink. The contract is that of reduce_tree.
    //   who calls  all of the `lanes` that made the handle, together
    //   val        K values, float, double or integers of 4 or 8 bytes, or a list, values(color, opacity); more than
    //              64 in chunks of 32. K and the type may differ from call to call. Those of inactive lanes are ignored
    //   sink, balance_threshold  as for reduce_tree
    // Cost (shuffles of 8-byte values and keys count twice): nothing if no lane is active, else
    //   whole warp, one key  tree_shuffles(K) shuffles, ceil(K / 32) atomic instructions
    //   otherwise            the sums and commits of reduce_tree, group after group or side by side; in a
    //                        whole warp with balance_threshold > 2 also 1 vote
    template <int K, typename T, typename Sink>
    __device__ __forceinline__ void add(const T (&val)[K], const Sink &sink,
                                        int balance_threshold = 0) const {
        detail::check_tree<K, T, Key, Sink>();
        add_values(detail::all_of(val), sink, balance_threshold);
    }
    template <int K, typename T, typename Sink>
    __device__ __forceinline__ void add(const value_list<K, T> &list, const Sink &sink,
                                        int balance_threshold = 0) const {
        add(list.of, sink, balance_threshold);
    }

    // add at another key, which follows from the key of the group: for the corners of a cell or the nodes
    // of a stencil, whose groups are those of the cell.
    //   other_key  an integer of 4 or 8 bytes, of another type than the group's key if need be; the same in all lanes of
    //              a group. Two groups may have the same. Ignored in inactive lanes
    // Cost: that of add; whole warp, one key: also 1 shuffle (of 8 bytes: two).
    //
    //     const auto cells = distwar::group_lanes(distwar::all_lanes, active, cell); // one match
    //     for (int node = 0; node < 27; ++node)                                      // no further one
    //         cells.add(values_of(node), distwar::record<float>{grid, 4}, distwar::at_key{cell + offset[node]});
    template <int K, typename T, typename Sink, typename Other>
    __device__ __forceinline__ void add(const T (&val)[K], const Sink &sink, at_key<Other> other) const {
        detail::check_tree<K, T, Other, Sink>();
        const resumed_call call(lanes, place);
        moved_to(other.key).add_values(detail::all_of(val), sink, 0);
    }
    template <int K, typename T, typename Sink, typename Other>
    __device__ __forceinline__ void add(const value_list<K, T> &list, const Sink &sink,
                                        at_key<Other> other) const {
        add(list.of, sink, other);
    }

    // Both for a number of values known at run time (reduce_n).
    template <int Chunk = 16, typename Values, typename Sink>
    __device__ __forceinline__ void add_n(int count, const Values &values, const Sink &sink,
                                          int balance_threshold = 0) const {
        const auto counted = detail::counted<Chunk>(count, values);
        detail::check_counted<Chunk, decltype(counted), Key, Sink>();
        add_values(counted, sink, balance_threshold);
    }
    template <int Chunk = 16, typename Values, typename Sink, typename Other>
    __device__ __forceinline__ void add_n(int count, const Values &values, const Sink &sink,
                                          at_key<Other> other) const {
        const auto counted = detail::counted<Chunk>(count, values);
        detail::check_counted<Chunk, decltype(counted), Other, Sink>();
        const resumed_call call(lanes, place);
        moved_to(other.key).add_values(counted, sink, 0);
    }

    // The same groups, which add to another key.
    template <typename Other>
    __device__ __forceinline__ lane_groups<Other> moved_to(Other other_key) const {
        static_assert(is_integer<Other>, "distwar: the key must be an integer of 4 or 8 bytes");
        detail::promise(active ? "lanes of one group pass different keys in at_key" : nullptr,
                        (unsigned long long)(key), (unsigned long long)(other_key), true);
        lane_groups<Other> moved;
        moved.lanes = lanes, moved.active_lanes = active_lanes, moved.place = place, moved.active = active;
        moved.one_key = one_key, moved.group = group, moved.largest_group = largest_group;
        moved.pair_leaders = pair_leaders;
        moved.key = one_key ? __shfl_sync(all_lanes, other_key, int(lowest_lane(active_lanes))) : other_key;
        return moved;
    }

    template <typename Values, typename Sink>
    __device__ __forceinline__ void add_values(const Values &values, const Sink &sink,
                                               int balance_threshold) const {
        const resumed_call call(lanes, place); // the add is a call at the line of group_lanes
        detail::check_call(active, key, sink, values.count);
        const bool sums_all = balance_threshold <= 1;
        if (count_lanes(active_lanes) < (sums_all ? 1 : balance_threshold)) {
            if (!sums_all && active) values.each(true, sink, plain_commit<Key>{key});
            return;
        }
        if (one_key) {
            values.each(active, sink, tree_commit<Key>{active, lowest_lane(active_lanes), key});
            return;
        }
        const int size = count_lanes(group);
        const bool summed = active && size >= 2 && size >= balance_threshold;
        const bool leads = summed && lowest_lane(group) == lane_id();
        const bool sums_any = int(largest_group) >= balance_threshold; // or no group is large enough
        unsigned leaders = pair_leaders;
        if (lanes == all_lanes && balance_threshold > 2) leaders = __ballot_sync(all_lanes, leads);
        values.each(active, sink,
                    groups_commit<Key>{lanes, active, key, group, summed, leads, leaders,
                                       sums_any ? largest_group : 1});
    }

    unsigned lanes, active_lanes;
    call_line place;
    bool active;
    bool one_key;           // a whole warp whose active lanes hold one key
    Key key;                // the lane's own; if one_key, the one key, in inactive lanes, too
    unsigned group;         // the active lanes with the caller's key; not used in inactive lanes
    unsigned largest_group; // the size of the largest group
    unsigned pair_leaders;  // whole warp: the lowest lanes of the groups of two lanes and more
};

} // namespace detail

// Finds the groups of active lanes with equal keys. The arguments are those of reduce.cuh.
//   who calls  all of `lanes` together
// Result: a handle. Its members are the calls that sum; above are their contracts:
//   add(values, sink, balance_threshold = 0), add(values, sink, at_key{key})
//   add_n<Chunk = 16>(count, values, sink, balance_threshold = 0), add_n<Chunk = 16>(count, values, sink, at_key{key})
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
__device__ __forceinline__ auto group_lanes(detail::lane_mask lanes, bool active, Key key) {
    detail::check_key(key);
    detail::lane_groups<detail::plain_key_of<Key>> groups = {};
    groups.lanes = lanes;
    groups.place = detail::this_call();
    groups.active = active;
    groups.key = detail::plain_key(key);
    groups.active_lanes = __ballot_sync(lanes, active);
    if (groups.active_lanes == 0) return groups;
    if (lanes == all_lanes) {
        auto shared = groups.key;
        groups.one_key = detail::share_one_key(all_lanes, groups.active_lanes, active, key, shared);
        if (groups.one_key) {
            groups.key = shared;
            return groups;
        }
    }
    groups.group = lanes_with_key(lanes, key) & groups.active_lanes;
    const int size = count_lanes(groups.group);
    groups.largest_group = detail::largest(lanes, active ? unsigned(size) : 1);
    if (lanes == all_lanes) {
        const bool leads = active && size >= 2 && lowest_lane(groups.group) == lane_id();
        groups.pair_leaders = __ballot_sync(all_lanes, leads);
    }
    return groups;
}

} // namespace distwar

#endif
