// SPDX-License-Identifier: MIT
// Sorts splats by (depth, index): up to sorted_by_warp in the registers of a warp, more in the shared memory
// of a block. depth[splat]: the bits of its depth. Also the entries and the parts of a list before it is sorted.
#pragma once

#include "device_code.h"
#include <distwar/warp.cuh>
#include <stdint.h>

namespace gs {

// The most entries that a warp sorts, and that a block sorts.
constexpr int sorted_by_warp = 256;
template <int Threads>
constexpr int sorted_by_block = Threads / 32 * sorted_by_warp;

// The sort key. Positive floats order as their bits do.
__device__ inline uint64_t key_of(const uint32_t *depth, uint32_t index) {
    return uint64_t(depth[index]) << 32 | index;
}

// Sorts the 32 E keys of a warp by a bitonic network. Result: the k-th is key[k % E] of lane k / E. By all its lanes.
template <int E>
__device__ void sort_warp(uint64_t (&key)[E]) {
    const int lane = int(threadIdx.x % 32);
    DISTWAR_UNROLL
    for (int run = 2; run <= 32 * E; run *= 2) { // of keys, alternately ascending and descending
        const bool lane_rises = (lane * E & run) == 0;
        DISTWAR_UNROLL
        for (int distance = run / 2; distance > 0; distance /= 2) {
            if (distance >= E) {
                const bool takes_less = ((lane & distance / E) == 0) == lane_rises;
                DISTWAR_UNROLL
                for (int e = 0; e < E; e++) {
                    const uint64_t other = __shfl_xor_sync(distwar::all_lanes, key[e], distance / E);
                    if ((other < key[e]) == takes_less) key[e] = other;
                }
            } else {
                DISTWAR_UNROLL
                for (int e = 0; e < E; e++) {
                    if (e & distance) continue;
                    const bool rises = run < E ? (e & run) == 0 : lane_rises;
                    const uint64_t low = key[e], high = key[e + distance];
                    if ((high < low) == rises) key[e] = high, key[e + distance] = low;
                }
            }
        }
    }
}

// Sorts the splats splat_of(0) .. splat_of(n - 1), n <= 32 E, and calls put(k, key) for the k-th. By all lanes of a warp.
template <int E, typename SplatOf, typename Put>
__device__ void sort_short(const uint32_t *depth, int n, const SplatOf &splat_of, const Put &put) {
    const int lane = int(threadIdx.x % 32);
    uint64_t key[E];
    DISTWAR_UNROLL
    for (int e = 0; e < E; e++)
        key[e] = 32 * e + lane < n ? key_of(depth, splat_of(32 * e + lane)) : ~uint64_t{0};
    __syncwarp(); // all entries have been read
    sort_warp(key);
    DISTWAR_UNROLL
    for (int e = 0; e < E; e++)
        if (lane * E + e < n) put(lane * E + e, key[e]);
}

// Merges two sorted runs of keys, first .. second - 1 and second .. last - 1. Calls put(k, key) with key
// number before + k of the result, k = 0 .. results - 1. key(i): the i-th key of the input.
template <typename Key, typename Put>
GS_DEVICE void merge(int first, int second, int last, int before, int results, const Key &key,
                     const Put &put) {
    int low = max(0, before - (last - second)), high = min(before, second - first);
    while (low < high) { // the number of the first `before` results from the first run
        const int middle = (low + high) / 2;
        if (key(first + middle) < key(second + before - middle - 1))
            low = middle + 1;
        else
            high = middle;
    }
    int a = first + low, b = second + before - low;
    constexpr uint64_t none = ~uint64_t{0};
    uint64_t key_a = a < second ? key(a) : none, key_b = b < last ? key(b) : none;
    DISTWAR_UNROLL
    for (int k = 0; k < results; k++) {
        const bool take_a = b >= last || key_a < key_b; // an exhausted run has `none`
        put(k, take_a ? key_a : key_b);
        if (take_a)
            key_a = ++a < second ? key(a) : none;
        else
            key_b = ++b < last ? key(b) : none;
    }
}

// Sorts the keys of splats splat_of(0) .. splat_of(n - 1), n <= sorted_by_block<Threads>, into keys[].
// keys[]: n entries, rounded up to a multiple of sorted_by_warp. By all threads of the block.
template <int Threads, typename SplatOf>
__device__ void sort_in_block(const uint32_t *depth, int n, const SplatOf &splat_of, uint64_t *keys) {
    constexpr int E = sorted_by_warp / 32;
    const int thread = int(threadIdx.x), own = thread / 32 * sorted_by_warp;
    const int padded = (n + sorted_by_warp - 1) / sorted_by_warp * sorted_by_warp;
    if (own < n) {
        uint64_t key[E];
        DISTWAR_UNROLL
        for (int e = 0; e < E; e++) {
            const int i = own + 32 * e + thread % 32;
            key[e] = i < n ? key_of(depth, splat_of(i)) : ~uint64_t{0};
        }
        sort_warp(key);
        DISTWAR_UNROLL
        for (int e = 0; e < E; e++) keys[E * thread + e] = key[e];
    }
    __syncthreads();
    // Each thread computes E neighbouring results of one merge.
    for (int run = sorted_by_warp; run < padded; run *= 2) {
        const int first = E * thread / (2 * run) * (2 * run), second = first + run;
        const bool merges = second < padded && E * thread < padded;
        uint64_t key[E] = {};
        if (merges)
            merge(
                first, second, min(second + run, padded), E * thread - first, E,
                [=](int i) { return keys[i]; }, [&](int k, uint64_t value) { key[k] = value; });
        __syncthreads();
        if (merges) {
            DISTWAR_UNROLL
            for (int e = 0; e < E; e++) keys[E * thread + e] = key[e];
        }
        __syncthreads();
    }
}

// Sorts likewise, but writes the splats to to[]. By all threads of the block.
template <int Threads, typename SplatOf>
__device__ void sort_into(uint32_t *to, const uint32_t *depth, int n, const SplatOf &splat_of,
                          uint64_t *keys) {
    sort_in_block<Threads>(depth, n, splat_of, keys);
    for (int i = int(threadIdx.x); i < n; i += Threads) to[i] = uint32_t(keys[i]);
}

// Sorts the n entries of `from` into `to` by (depth, index). `from` is `to` or `other`; both have n entries.
// If n > sorted_by_block<Threads>, pieces of that length are merged in global memory, which is slow, and
// `other` is overwritten. By all threads of the block.
template <int Threads>
__device__ void sort_entries(const uint32_t *depth, const uint32_t *from, int n, uint32_t *to,
                             uint32_t *other, uint64_t *keys) {
    constexpr int capacity = sorted_by_block<Threads>;
    const int thread = int(threadIdx.x);
    int merges = 0;
    for (int64_t run = capacity; run < n; run *= 2) merges++;
    if (merges % 2 == 1) { // the last merge writes to `to`
        uint32_t *const last = to;
        to = other, other = last;
    }
    for (int64_t first = 0; first < n; first += capacity) {
        const int size = int(min(int64_t(capacity), n - first));
        sort_into<Threads>(
            to + first, depth, size, [=](int i) { return from[first + i]; }, keys);
        __syncthreads();
    }
    for (int64_t run = capacity; run < n; run *= 2) {
        uint32_t *const source = to;
        to = other, other = source;
        const int share = (n + Threads - 1) / Threads;
        int64_t at = int64_t(thread) * share;
        const int64_t end = min(at + share, int64_t(n));
        while (at < end) {
            const int64_t first = at / (2 * run) * (2 * run), second = min(first + run, int64_t(n));
            const int64_t last = min(second + run, int64_t(n)), results = min(end, last) - at;
            uint32_t *const result = to + at;
            merge(
                int(first), int(second), int(last), int(at - first), int(results),
                [=](int i) { return key_of(depth, source[i]); },
                [=](int k, uint64_t key) { result[k] = uint32_t(key); });
            at += results;
        }
        __syncthreads();
    }
}

// ---- lists: their entries before they are sorted, and the parts of long ones ----

// Exclusive prefix sum of `value` over the threads of the block; *all: the total. By all threads of the block.
template <int Threads, typename T>
__device__ T scan_of_block(T value, T *all) {
    __shared__ T warp_sums[32];
    const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
    const auto scan_of_warp = [lane](T x) { // inclusive
        for (int distance = 1; distance < 32; distance *= 2) {
            const T before = __shfl_up_sync(distwar::all_lanes, x, unsigned(distance));
            if (lane >= distance) x += before;
        }
        return x;
    };
    const T inclusive = scan_of_warp(value);
    __syncthreads(); // the previous call's sums have been read
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) warp_sums[lane] = scan_of_warp(lane < Threads / 32 ? warp_sums[lane] : 0);
    __syncthreads();
    *all = warp_sums[Threads / 32 - 1];
    return inclusive - value + (warp > 0 ? warp_sums[warp - 1] : 0);
}

// Lists of sorted_by_block<part_block> entries or more are cut into parts of about half that, at most part_block.
constexpr int part_block = 512;
__device__ inline int parts_of(int64_t length) {
    constexpr int longest = sorted_by_block<part_block>;
    return length < longest ? 0 : int(min((length + longest / 2 - 1) / (longest / 2), int64_t(part_block)));
}

// A range of a list's entries.
struct part {
    int64_t begin;
    int length;
};

// A tile's list before it is sorted.
struct unsorted {
    int64_t begin; // its place among the sorted lists
    int length;
    const uint32_t *in_list; // its entries; NULL: they are in the buckets
    const uint32_t *bucket;  // of the tile's first counter
    const uint32_t *end;     // of the tile's counters: behind their entries, as numbers in the list
    int log2_copies;
    uint32_t room;

    // Entry i of the list.
    __device__ uint32_t operator()(int64_t i) const {
        if (in_list) return in_list[i];
        if (log2_copies == 0) return bucket[i];
        int copy = 0; // the first whose end is above i
        for (int step = 1 << (log2_copies - 1); step > 0; step /= 2)
            if (end[copy + step - 1] <= uint32_t(i)) copy += step;
        return bucket[int64_t(copy) * room + i - (copy > 0 ? end[copy - 1] : 0)];
    }
};

} // namespace gs
