// SPDX-License-Identifier: MIT
// Counters that return: fetch_add by key, and append, which gives out the slots of queues (stream compaction).
//
//     // Keep the elements that pass: one atomic a warp.
//     const unsigned slot = distwar::append(distwar::all_lanes, keep, &count);
//     if (keep) kept[slot] = element;
//
//     // The same, and never past the end of `kept`.
//     distwar::append(distwar::all_lanes, keep, element, distwar::queue<int>{kept, &count, capacity});
//
//     // Sort by bucket: one atomic for each bucket that occurs in the warp.
//     const unsigned slot = distwar::fetch_add(distwar::all_lanes, valid, bucket, counts);
//     if (valid) sorted[first_of[bucket] + slot] = element;
//
//     // Take as much of a pool as this lane needs.
//     const unsigned begin = distwar::fetch_add(distwar::all_lanes, needed > 0, distwar::uniform_key{0}, needed,
//                                               &used);
//
// Example: lanes 3, 5 and 6 add 10, 20 and 30 to a counter that holds 100. They get 100, 110 and 130. The
// counter then holds 160, after one atomic.
#ifndef DISTWAR_FETCH_CUH
#define DISTWAR_FETCH_CUH

#include "atomic.cuh"
#include "lanes.cuh"

namespace distwar {

namespace detail {

// Whether counters may have this type.
template <typename T>
inline constexpr bool is_counter =
    is_same<T, int> || is_same<T, unsigned> || is_same<T, long long> || is_same<T, unsigned long long>;

template <scope S, typename T>
__device__ __forceinline__ T add_and_return(T *address, T value) {
    if constexpr (is_same<T, long long>) {
        using word = unsigned long long;
        return static_cast<T>(
            detail::add_and_return<S>(reinterpret_cast<word *>(address), static_cast<word>(value)));
    } else if constexpr (S == scope::block) {
        return atomicAdd_block(address, value);
    } else if constexpr (S == scope::device) {
        return atomicAdd(address, value);
    } else {
        return atomicAdd_system(address, value);
    }
}

// a + b and a - b, which wrap.
template <typename T>
__device__ __forceinline__ T wrapping_sum(T a, T b) {
    using bits = typename word<int(sizeof(T))>::type;
    return static_cast<T>(static_cast<bits>(a) + static_cast<bits>(b));
}
template <typename T>
__device__ __forceinline__ T wrapping_difference(T a, T b) {
    using bits = typename word<int(sizeof(T))>::type;
    return static_cast<T>(static_cast<bits>(a) - static_cast<bits>(b));
}

template <typename Key>
inline constexpr bool is_uniform = false;
template <typename Key>
inline constexpr bool is_uniform<uniform_key<Key>> = true;

// The lanes of a set below the caller.
__device__ __forceinline__ unsigned lanes_below(unsigned set) {
    return set & ((1u << lane_id()) - 1);
}

// The highest of a set of lanes, which must not be empty.
__device__ __forceinline__ unsigned highest_lane(unsigned set) {
    return 31 - unsigned(__clz(int(set)));
}

// The sum of `value` over the lanes of `group` up to the caller, which is one of them; in lanes whose group is
// 0 not defined. `size` is that of the largest group, the same in all of `lanes`. In each turn a lane adds the
// sum of the lane whose sum ends where its own begins, so sums double in length. Cost: for each of the
// ceil(log2(size)) turns 1 shuffle (of 8 bytes: two), and one between turns.
template <typename T>
__device__ __forceinline__ T running_sum(unsigned lanes, unsigned group, unsigned size, T value) {
    const int lane = int(lane_id());
    const unsigned before = lanes_below(group);
    int previous = before ? int(highest_lane(before)) : -1; // the lane whose sum ends where this one begins
    for (unsigned length = 1; length < size; length *= 2) {
        if (length > 1) previous = __shfl_sync(lanes, previous, previous < 0 ? lane : previous);
        const T other = __shfl_sync(lanes, value, previous < 0 ? lane : previous);
        if (previous >= 0) value = wrapping_sum(value, other);
    }
    return value;
}

// The same for a whole warp whose active lanes are one group; inactive lanes bring 0. Cost: 5 shuffles (of 8
// bytes: twice).
template <typename T>
__device__ __forceinline__ T running_sum(T value) {
    DISTWAR_UNROLL
    for (int distance = 1; distance < 32; distance *= 2) {
        const T other = __shfl_up_sync(all_lanes, value, unsigned(distance));
        if (lane_id() >= unsigned(distance)) value = wrapping_sum(value, other);
    }
    return value;
}

// The size of the largest of the active lanes' groups, in all of `lanes`.
template <typename Key>
__device__ __forceinline__ unsigned largest_group(unsigned lanes, unsigned, unsigned group, Key) {
    return largest(lanes, unsigned(count_lanes(group)));
}
template <typename Key>
__device__ __forceinline__ unsigned largest_group(unsigned, unsigned active_lanes, unsigned,
                                                  uniform_key<Key>) {
    return unsigned(count_lanes(active_lanes));
}

} // namespace detail

// counters[key] += value for each active lane. Returns what the counter held before the lane's own addition,
// as if the active lanes of the warp had added one after another in the order of their numbers.
//
// - Who calls: all of `lanes` together, each with the same mask (reduce.cuh); anything else is undefined.
// - active: whether this lane adds.
// - key: an integer of 4 or 8 bytes, >= 0. Lanes with equal keys form a group. Where all of `lanes` hold one
//   key, uniform_key{key} saves the match. For counters that lie further apart pass key * stride.
// - value: any; sums wrap. The key and the value of an inactive lane are not used.
// - counters: T is int, unsigned, long long or unsigned long long, aligned, in global or shared memory; the
//   same pointer in all lanes.
// - S: the scope of the atomics, which are relaxed.
// - Result: as above in active lanes, not defined in others. The additions of a group are one atomic: no other
//   thread adds between them. Groups add in any order.
// - Cost: 1 vote; nothing else if no lane is active. 1 match and 1 redux (before compute capability 8.0: 6
//   votes), neither of them for a uniform_key. 2 ceil(log2(n)) - 1 shuffles, n the active lanes of the largest
//   group, and none for n = 1; for a uniform_key in a whole warp 5. 1 atomic instruction, by the last lane of
//   each group. 1 shuffle. Shuffles of 8-byte values count twice.
template <scope S = scope::device, typename T, typename Key>
__device__ __forceinline__ T fetch_add(unsigned lanes, bool active, Key key, T value, T *counters) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    static_assert(detail::is_counter<T>, "distwar: a counter is an integer of 4 or 8 bytes");
    const unsigned active_lanes = __ballot_sync(lanes, active);
    if (active_lanes == 0) return T(0);
    const unsigned same_key = lanes_with_key(lanes, key), group = active ? same_key & active_lanes : 0;
    T sum;
    if (detail::is_uniform<Key> && lanes == all_lanes)
        sum = detail::running_sum(active ? value : T(0));
    else
        sum =
            detail::running_sum(lanes, group, detail::largest_group(lanes, active_lanes, group, key), value);
    const unsigned lane = lane_id(), last = active ? detail::highest_lane(group) : lane;
    T before = 0;
    if (active && last == lane) before = detail::add_and_return<S>(counters + size_t(plain_key(key)), sum);
    before = __shfl_sync(lanes, before, int(last));
    return detail::wrapping_sum(before, detail::wrapping_difference(sum, value));
}

// The same with 1 for every active lane, so that the results are consecutive numbers within each group.
//
// - Cost: 1 vote; nothing else if no lane is active. 1 match, none for a uniform_key. 1 atomic instruction, by
//   the first active lane of each group; 1 shuffle (of 8 bytes: two).
template <scope S = scope::device, typename T, typename Key>
__device__ __forceinline__ T fetch_add(unsigned lanes, bool active, Key key, T *counters) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    static_assert(detail::is_counter<T>, "distwar: a counter is an integer of 4 or 8 bytes");
    const unsigned active_lanes = __ballot_sync(lanes, active);
    if (active_lanes == 0) return T(0);
    const unsigned group = lanes_with_key(lanes, key) & active_lanes;
    const unsigned lane = lane_id(), first = active ? lowest_lane(group) : lane;
    T before = 0;
    if (active && first == lane)
        before = detail::add_and_return<S>(counters + size_t(plain_key(key)), T(count_lanes(group)));
    before = __shfl_sync(lanes, before, int(first));
    return detail::wrapping_sum(before, T(count_lanes(detail::lanes_below(group))));
}

// Takes a slot of one queue for each active lane: *count += their number. Returns the lane's slot: slots of a
// warp are consecutive, in the order of its lanes. The caller writes to the slot, and sees that there is room.
//
// - lanes, active, S: as for fetch_add. T: as for fetch_add.
// - Result: the slot in active lanes, not defined in others.
// - Cost: 1 vote; if a lane is active 1 atomic, by one lane, and 1 shuffle (of 8 bytes: two).
template <scope S = scope::device, typename T>
__device__ __forceinline__ T append(unsigned lanes, bool active, T *count) {
    return fetch_add<S>(lanes, active, uniform_key<int>{0}, count);
}

// Queues of one capacity: queue q holds items[q * capacity + slot], slot < min(counts[q], capacity). One queue
// is queue 0. Count is unsigned or unsigned long long.
template <typename Item, typename Count = unsigned>
struct queue {
    static_assert(detail::is_same<Count, unsigned> || detail::is_same<Count, unsigned long long>,
                  "distwar: a queue counts in unsigned or unsigned long long");
    Item *items;
    Count *counts; // of items appended, also of those that found no room
    Count capacity;
};

// What append returns in a lane that has no slot.
template <typename Count = unsigned>
inline constexpr Count no_slot = Count(-1);

// Appends the items of the active lanes to the queues that their keys name, and writes no item past a queue's
// capacity.
//
// - lanes, active, key, S: as for fetch_add; key is the queue's number.
// - item: copied by assignment; that of an inactive lane is not used.
// - to: the same in all lanes. counts[q] is 0 at the start, or the number of items that the queue holds.
// - Result: the lane's slot, or no_slot<Count> where the queue is full or the lane inactive. Items of a warp in
//   one queue lie side by side, in the order of their lanes.
// - Errors: where items found no room, counts[q] is larger than the capacity: it is the capacity that would
//   have been enough. Test for it after the kernel.
// - Undefined: 2^32 - 1 appends or more to one queue of unsigned; use unsigned long long.
// - An item is written after its slot is taken, by a plain store: a reader in the same kernel must
//   synchronise with the writer by other means than the count.
// - Cost: that of fetch_add without values; 1 comparison and 1 store.
template <scope S = scope::device, typename Item, typename Count, typename Key>
__device__ __forceinline__ Count append(unsigned lanes, bool active, Key key, const Item &item,
                                        const queue<Item, Count> &to) {
    const Count slot = fetch_add<S>(lanes, active, key, to.counts);
    if (!active || slot >= to.capacity) return no_slot<Count>;
    to.items[size_t(plain_key(key)) * to.capacity + slot] = item;
    return slot;
}

// The same for one queue, which is queue 0 of `to`.
template <scope S = scope::device, typename Item, typename Count>
__device__ __forceinline__ Count append(unsigned lanes, bool active, const Item &item,
                                        const queue<Item, Count> &to) {
    return distwar::append<S>(lanes, active, uniform_key<int>{0}, item, to);
}

} // namespace distwar

#endif
