// SPDX-License-Identifier: MIT
// Counters that return: fetch_add by key, and append, which gives out the slots of queues (stream compaction).
//
// Order: the lanes of a warp with one key get rising values, lane 0 first. Which warp comes first, and which key of a warp,
// changes from run to run: what a call returns is not_guaranteed, the counters afterwards are gpu_to_gpu (sink.cuh).
#ifndef DISTWAR_QUEUE_CUH
#define DISTWAR_QUEUE_CUH

#include "atomic.cuh"

namespace distwar {

namespace detail {

// What every call asks of its key and its counters.
template <typename Key, typename T>
DISTWAR_DEVICE void check_counters(Key key, const T *counters) {
    static_assert(is_integer<T>, "distwar: a counter is an integer of 4 or 8 bytes");
    detail::check_key(key);
    detail::promise("the counters of a call differ between its lanes", 0, (unsigned long long)(counters),
                    false);
}

// The lane that adds for each group adds `sum` to the group's counter. Returns what the counter held, in all lanes of the
// group. In bits, whose sums wrap.
template <scope S, typename T>
DISTWAR_DEVICE bits_of<T> add_once(unsigned lanes, bool active, T *counter, unsigned lane, unsigned adds,
                                   bits_of<T> sum) {
    // lane ^ adds is 0 in the lane that adds, which the compiler does not see: an address plus this offset looks
    // different in each lane. For one that is the same in all ptxas adds a vote and shuffles of its own, wasted on a
    // single lane.
    unsigned zero = lane ^ adds;
#if DISTWAR_PTX
    asm volatile("xor.b32 %0, %1, %2;" : "=r"(zero) : "r"(lane), "r"(adds));
#endif
    bits_of<T> *const hidden = reinterpret_cast<bits_of<T> *>(counter + zero);
    bits_of<T> before = 0;
    if (active && adds == lane) before = detail::native_add<S>(hidden, sum);
    return __shfl_sync(lanes, before, int(adds));
}

} // namespace detail

// counters[key] += amount for each active lane. Returns what the counter held before the lane's own addition,
// as if the active lanes of the warp had added one after another, lane 0 first.
//   who calls  all of `lanes` together, with the same mask (reduce.cuh); else undefined
//   active     whether this lane adds; key and amount of an inactive lane are ignored
//   key        an integer of 4 or 8 bytes, >= 0. Active lanes with equal keys form a group. uniform_key{key}:
//              all of `lanes` have this key. For counters that lie further apart pass key * stride
//   amount     any integer no wider than the counter, also 0 or negative; sums wrap
//   counters   integers of 4 or 8 bytes, aligned, in global or shared memory; the same pointer in all of `lanes`
//   S          the scope of the atomics, which are relaxed
// Result: as above in active lanes; not defined in inactive ones. A group adds by one atomic: no other thread
// adds between its lanes.
// Errors: none at run time.
// Cost (shuffles of 8-byte values count twice):
//   always               1 vote; nothing else if no lane is active
//   to find the groups   1 match, 1 redux (6 votes before compute capability 8.0); none with a uniform_key
//   to sum               2 ceil(log2(n)) - 1 shuffles, n the active lanes of the largest group, 0 for n = 1;
//                        with a uniform_key in a whole warp 5
//   to add               1 atomic instruction, by the last lane of each group; 1 shuffle
// Example (one warp, `lane` its lane, arrays of zeros):
//     const int before = distwar::fetch_add(distwar::all_lanes, lane < 3, 1, 10 * (lane + 1), counters);
//     if (lane < 3) found[lane] = before;
//     // counters: 0, 60; found: 0, 10, 30
template <scope S = scope::device, typename T, typename Key, typename Amount>
DISTWAR_DEVICE T fetch_add(detail::lane_mask lanes, bool active, Key key, Amount amount, T *counters) {
    detail::check_counters(key, counters);
    static_assert(Amount(1) / 2 == 0 && sizeof(Amount) <= sizeof(T),
                  "distwar: a counter takes integers that are no wider than itself");
    using bits = detail::bits_of<T>;
    const unsigned active_lanes = __ballot_sync(lanes, active);
    if (active_lanes == 0) return T(0);
    const unsigned same_key = lanes_with_key(lanes, key), group = active ? same_key & active_lanes : 0;
    const unsigned lane = lane_id();
    const bits own = bits(amount);
    bits sum[1] = {own};
    if (detail::is_uniform<Key> &&
        lanes == all_lanes) { // the whole warp is a group, in which inactive lanes add 0
        sum[0] = detail::select(active, own, bits(0));
        DISTWAR_UNROLL
        for (int distance = 1; distance < 32; distance *= 2) {
            const bits other = __shfl_up_sync(all_lanes, sum[0], unsigned(distance));
            if (lane >= unsigned(distance)) sum[0] += other;
        }
    } else {
        const unsigned size = detail::is_uniform<Key> ? unsigned(__popc(active_lanes))
                                                      : detail::largest(lanes, unsigned(__popc(group)));
        detail::segmented_sum<false>(lanes, detail::next_below(group), size, sum, add{});
    }
    const unsigned last = active ? detail::highest_lane(group) : lane;
    T *const counter = counters + size_t(detail::plain_key(key));
    return T(detail::add_once<S>(lanes, active, counter, lane, last, sum[0]) + (sum[0] - own));
}

// fetch_add of the value 1, so the results of a group are consecutive numbers.
// Cost: 1 vote, nothing else if no lane is active; 1 match, none with a uniform_key; 1 atomic instruction, by
// the first active lane of each group; 1 shuffle (of 8 bytes: two).
// Example (one warp, `lane` its lane, arrays of zeros):
//     const int before = distwar::fetch_add(distwar::all_lanes, true, lane / 16, counters);
//     if (lane % 16 % 15 == 0) found[lane / 16 * 2 + lane % 16 / 15] = before; // lanes 0, 15, 16, 31
//     // counters: 16, 16; found: 0, 15, 0, 15
template <scope S = scope::device, typename T, typename Key>
DISTWAR_DEVICE T fetch_add(detail::lane_mask lanes, bool active, Key key, T *counters) {
    detail::check_counters(key, counters);
    using bits = detail::bits_of<T>;
    const unsigned active_lanes = __ballot_sync(lanes, active);
    if (active_lanes == 0) return T(0);
    const unsigned group = lanes_with_key(lanes, key) & active_lanes;
    const unsigned lane = lane_id(), first = active ? detail::lowest_lane(group) : lane;
    T *const counter = counters + size_t(detail::plain_key(key));
    const bits before = detail::add_once<S>(lanes, active, counter, lane, first, bits(__popc(group)));
    return T(before + bits(__popc(detail::lanes_below(group))));
}

// Takes a slot of one queue for each active lane: *count += the number of active lanes. Returns the lane's slot. The
// slots of a warp are consecutive, in the order of its lanes. The caller checks for room and writes.
//   lanes, active, T, S  as for fetch_add; count is its only counter
// Result: the slot in active lanes; not defined in inactive ones.
// Cost: 1 vote; if a lane is active 1 atomic, by one lane, and 1 shuffle (of 8 bytes: two).
// Example (one warp, `lane` its lane, arrays of zeros):
//     const unsigned slot = distwar::append(distwar::all_lanes, lane % 2 == 1, count);
//     if (lane % 2 == 1 && slot < 4) kept[slot] = lane;
//     // count: 16; kept: 1, 3, 5, 7
template <scope S = scope::device, typename T>
DISTWAR_DEVICE T append(detail::lane_mask lanes, bool active, T *count) {
    return distwar::fetch_add<S>(lanes, active, uniform_key<int>{0}, count);
}

// Queues of equal capacity: queue q holds items[q * capacity + slot] for slot < min(counts[q], capacity). A
// single queue is queue 0. Count is an unsigned integer of 4 or 8 bytes.
template <typename Item, typename Count = unsigned>
struct queue {
    static_assert(detail::is_integer<Count> && Count(-1) > Count(0),
                  "distwar: a queue counts in unsigned integers of 4 or 8 bytes");
    Item *items;
    Count *counts; // items appended, those that found no room included
    Count capacity;
};

// What append returns in a lane that has no slot.
template <typename Count = unsigned>
inline constexpr Count no_slot = Count(-1);

// Appends the items of the active lanes to the queues that their keys name. Never writes past a capacity.
//   lanes, active, S  as for fetch_add
//   key               the number of the lane's queue, as the key of fetch_add
//   item              copied by assignment; that of an inactive lane is ignored
//   to                the same in all of `lanes`. Before the first append counts[q] is 0, or the number of
//                     items that queue q holds already
// Result: the lane's slot, or no_slot<Count> if its queue is full or the lane is inactive. The items that a
// warp appends to one queue have consecutive slots, in the order of its lanes.
// Errors: if items found no room, counts[q] > capacity after the kernel; counts[q] is the capacity that would
// have been enough.
// Undefined: 2^32 - 1 or more appends to one queue that counts in unsigned. A lane takes its slot first and writes its
// item afterwards, by a plain store: the count does not tell a reader in the same kernel which items are there.
// Cost: that of fetch_add with the value 1; one comparison and one store.
template <scope S = scope::device, typename Item, typename Count, typename Key>
DISTWAR_DEVICE Count append(detail::lane_mask lanes, bool active, Key key, const Item &item,
                            const queue<Item, Count> &to) {
    const Count slot = distwar::fetch_add<S>(lanes, active, key, to.counts);
    if (!active || slot >= to.capacity) return no_slot<Count>;
    to.items[size_t(detail::plain_key(key)) * to.capacity + slot] = item;
    return slot;
}

} // namespace distwar

#endif
