// SPDX-License-Identifier: MIT
// Counters that return: fetch_add by key, and append, which gives out the slots of queues (stream
// compaction).
//
//     // Keep the elements that pass: one atomic per warp.
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
//     const distwar::uniform_key one_counter = {0};
//     const unsigned begin = distwar::fetch_add(distwar::all_lanes, needed > 0, one_counter, needed, &used);
//
// Example: lanes 3, 5 and 6 add 10, 20 and 30 to a counter that holds 100. They get 100, 110 and 130. The
// counter then holds 160, after one atomic.
#ifndef DISTWAR_FETCH_CUH
#define DISTWAR_FETCH_CUH

#include "push_macros.h"

#include "atomic.cuh"
#include "lanes.cuh"

namespace distwar {

namespace detail {

// Whether counters may have this type.
template <typename T>
inline constexpr bool is_counter =
    is_same<T, int> || is_same<T, unsigned> || is_same<T, long long> || is_same<T, unsigned long long>;

// *address += value; returns what was there.
template <scope S, typename T>
__device__ __forceinline__ T add_and_return(T *address, T value) {
    if constexpr (is_same<T, long long>) {
        using bits = unsigned long long;
        return T(detail::add_and_return<S>(reinterpret_cast<bits *>(address), bits(value)));
    } else if constexpr (S == scope::block) {
        return atomicAdd_block(address, value);
    } else if constexpr (S == scope::device) {
        return atomicAdd(address, value);
    } else {
        return atomicAdd_system(address, value);
    }
}

// lane ^ leader, which is 0 in the leader. The compiler does not see that. ptxas aggregates atomics on an
// address that it knows to be the same in all lanes, by a vote and shuffles of its own. Here one lane is
// left, so those are wasted. An address plus this offset looks different in each lane.
__device__ __forceinline__ unsigned hidden_zero(unsigned lane, unsigned leader) {
#if !defined(__SIMT__)
    unsigned zero;
    asm volatile("xor.b32 %0, %1, %2;" : "=r"(zero) : "r"(lane), "r"(leader));
    return zero;
#else
    return lane ^ leader;
#endif
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

// The sum of `value` over the lanes of `group` up to and with the caller. In each iteration a lane adds the
// sum of the lane whose sum ends where its own begins, so the sums double in length. Example with one group
// in lanes 1, 4, 6, 7:
//
//     iteration 1   4 adds 1, 6 adds 4, 7 adds 6    lane 6 holds 4 + 6, lane 7 holds 6 + 7
//     iteration 2   6 adds 1, 7 adds 4              lane 6 holds 1 + 4 + 6, lane 7 holds 1 + 4 + 6 + 7
//
//   group  the caller's group; 0 if it has none, the result is then not defined
//   size   the size of the largest group, the same in all of `lanes`
// Cost: ceil(log2(size)) iterations of 1 shuffle (of 8 bytes: two), and one shuffle between two iterations.
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

// The same for a whole warp as one group, in which inactive lanes have the value 0. Cost: 5 shuffles (of 8
// bytes: 10).
template <typename T>
__device__ __forceinline__ T running_sum(T value) {
    DISTWAR_UNROLL
    for (int distance = 1; distance < 32; distance *= 2) {
        const T other = __shfl_up_sync(all_lanes, value, unsigned(distance));
        if (lane_id() >= unsigned(distance)) value = wrapping_sum(value, other);
    }
    return value;
}

// Under simt counters that differ between the lanes of a call are refused.
template <typename T>
__device__ __forceinline__ void check_counters([[maybe_unused]] const T *counters) {
#if defined(__SIMT__)
    simt::promise({"the counters of a call differ between its lanes", 0, std::uint64_t(counters), false});
#endif
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
// as if the active lanes of the warp had added one after another, lane 0 first.
//   who calls  all of `lanes` together, with the same mask (reduce.cuh); else undefined
//   active     whether this lane adds; key and value of an inactive lane are ignored
//   key        an integer of 4 or 8 bytes, >= 0. Active lanes with equal keys form a group. uniform_key{key}:
//              all of `lanes` have this key. For counters that lie further apart pass key * stride
//   value      any, also 0 or negative; sums wrap
//   counters   int, unsigned, long long or unsigned long long, aligned, in global or shared memory; the same
//              pointer in all of `lanes`
//   S          the scope of the atomics, which are relaxed
// Result: as above in active lanes; not defined in inactive ones. A group adds by one atomic: no other thread
// adds between its lanes. The order of the groups is not defined.
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
template <scope S = scope::device, typename T, typename Key>
__device__ __forceinline__ T fetch_add(lane_mask lanes, bool active, Key key, T value, T *counters) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    static_assert(detail::is_counter<T>, "distwar: a counter is an integer of 4 or 8 bytes");
    detail::check_key(key);
    detail::check_counters(counters);
    const unsigned active_lanes = __ballot_sync(lanes, active);
    if (active_lanes == 0) return T(0);
    const unsigned same_key = lanes_with_key(lanes, key), group = active ? same_key & active_lanes : 0;
    T sum;
    if (detail::is_uniform<Key> && lanes == all_lanes)
        sum = detail::running_sum(detail::select(active, value, T(0)));
    else
        sum =
            detail::running_sum(lanes, group, detail::largest_group(lanes, active_lanes, group, key), value);
    const unsigned lane = lane_id(), last = active ? highest_lane(group) : lane;
    T *const counter = counters + size_t(detail::plain_key(key)) + detail::hidden_zero(lane, last);
    T before = 0;
    if (active && last == lane) before = detail::add_and_return<S>(counter, sum);
    before = __shfl_sync(lanes, before, int(last));
    return detail::wrapping_sum(before, detail::wrapping_difference(sum, value));
}

// fetch_add of the value 1, so the results of a group are consecutive numbers.
// Cost: 1 vote, nothing else if no lane is active; 1 match, none with a uniform_key; 1 atomic instruction, by
// the first active lane of each group; 1 shuffle (of 8 bytes: two).
// Example (one warp, `lane` its lane, arrays of zeros):
//     const int before = distwar::fetch_add(distwar::all_lanes, true, lane / 16, counters);
//     if (lane % 16 % 15 == 0) found[lane / 16 * 2 + lane % 16 / 15] = before; // lanes 0, 15, 16, 31
//     // counters: 16, 16; found: 0, 15, 0, 15
template <scope S = scope::device, typename T, typename Key>
__device__ __forceinline__ T fetch_add(lane_mask lanes, bool active, Key key, T *counters) {
    static_assert(is_key<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    static_assert(detail::is_counter<T>, "distwar: a counter is an integer of 4 or 8 bytes");
    detail::check_key(key);
    detail::check_counters(counters);
    const unsigned active_lanes = __ballot_sync(lanes, active);
    if (active_lanes == 0) return T(0);
    const unsigned group = lanes_with_key(lanes, key) & active_lanes;
    const unsigned lane = lane_id(), first = active ? lowest_lane(group) : lane;
    T *const counter = counters + size_t(detail::plain_key(key)) + detail::hidden_zero(lane, first);
    T before = 0;
    if (active && first == lane) before = detail::add_and_return<S>(counter, T(count_lanes(group)));
    before = __shfl_sync(lanes, before, int(first));
    return detail::wrapping_sum(before, T(count_lanes(lanes_below(group))));
}

// Takes a slot of one queue for each active lane: *count += the number of active lanes. Returns the lane's
// slot. The slots of a warp are consecutive, in the order of its lanes. The caller checks for room and
// writes.
//   lanes, active, T, S  as for fetch_add; count is its only counter
// Result: the slot in active lanes; not defined in inactive ones.
// Cost: 1 vote; if a lane is active 1 atomic, by one lane, and 1 shuffle (of 8 bytes: two).
// Example (one warp, `lane` its lane, arrays of zeros):
//     const unsigned slot = distwar::append(distwar::all_lanes, lane % 2 == 1, count);
//     if (lane % 2 == 1 && slot < 4) kept[slot] = lane;
//     // count: 16; kept: 1, 3, 5, 7
template <scope S = scope::device, typename T>
__device__ __forceinline__ T append(lane_mask lanes, bool active, T *count) {
    return distwar::fetch_add<S>(lanes, active, uniform_key<int>{0}, count);
}

// Queues of equal capacity: queue q holds items[q * capacity + slot] for slot < min(counts[q], capacity). A
// single queue is queue 0. Count is unsigned or unsigned long long.
template <typename Item, typename Count = unsigned>
struct queue {
    static_assert(detail::is_same<Count, unsigned> || detail::is_same<Count, unsigned long long>,
                  "distwar: a queue counts in unsigned or unsigned long long");
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
// Undefined: 2^32 - 1 or more appends to one queue that counts in unsigned. A lane takes its slot first and
// writes its item afterwards, by a plain store: the count does not tell a reader in the same kernel which
// items are there.
// Cost: that of fetch_add with the value 1; one comparison and one store.
template <scope S = scope::device, typename Item, typename Count, typename Key>
__device__ __forceinline__ Count append(lane_mask lanes, bool active, Key key, const Item &item,
                                        const queue<Item, Count> &to) {
    const Count slot = distwar::fetch_add<S>(lanes, active, key, to.counts);
    if (!active || slot >= to.capacity) return no_slot<Count>;
    to.items[size_t(detail::plain_key(key)) * to.capacity + slot] = item;
    return slot;
}

// append to one queue, which is queue 0 of `to`.
template <scope S = scope::device, typename Item, typename Count>
__device__ __forceinline__ Count append(lane_mask lanes, bool active, const Item &item,
                                        const queue<Item, Count> &to) {
    return distwar::append<S>(lanes, active, uniform_key<int>{0}, item, to);
}

} // namespace distwar

#include "pop_macros.h"

#endif
