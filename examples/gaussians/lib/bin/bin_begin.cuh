// SPDX-License-Identifier: MIT
// gs_bin: from the lengths of the lists to where each begins, their order, and the division of the blend's work.
#pragma once

#include "bin_append.cuh"
#include "depth_sort.cuh"
#include "rows.h"
#include <string.h>

namespace gs {

constexpr int scan_block = 1024, sort_block = 256;
constexpr int tiles_at_once = 16; // tiles that a multiprocessor blends at once, about
// Shares of all pairs for a multiprocessor, where threads have four pixels: a list longer than one is long. Else
// tiles_at_once.
constexpr int shares_of_four = 10;
constexpr int shortest_split = 64; // entries: two batches
// Lists of sorted_by_block<part_block> entries or more are cut into parts of about half that length, at most
// part_block parts.
constexpr int part_block = 512;
__device__ inline int parts_of(int64_t length) {
    constexpr int longest = sorted_by_block<part_block>;
    return length < longest ? 0 : int(min((length + longest / 2 - 1) / (longest / 2), int64_t(part_block)));
}

// Lists are classified by length, eight classes an octave, longest first. Class 0 has lengths of nearly 2^32,
// the last class the empty lists.
constexpr int classes = 33 * 8;
__host__ __device__ inline int class_of(int64_t length) {
    if (length < 1) return classes - 1;
    const float rounded = float(length);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (127 + 33) * 8 - 2 - int(bits >> 20);
}

// The lists that get more warps: those of classes before this one, longer than one of the equal shares of
// all pairs that multiprocessors have.
__host__ __device__ inline int split_class(int64_t pairs, int multiprocessors, int pixels_per_thread) {
    const int64_t share =
        pairs / (multiprocessors * (pixels_per_thread == 4 ? shares_of_four : tiles_at_once));
    return class_of(share > shortest_split ? share : int64_t(shortest_split));
}

// The limits that gs_bin works to.
struct bin_limits {
    int multiprocessors;
    uint32_t bucket_room;
    int64_t pair_capacity;
    int64_t call;          // of gs_bin_report
    gs_bin_report *report; // or NULL
};

// Read by the host, or by the kernels that follow.
struct bin_summary {
    int64_t buckets; // gs_view.buckets_needed
    int64_t pairs;   // needed; if they do not fit, the numbers from cut_end to in_lists are of empty lists
    int32_t pixels_per_thread, split; // of gs_lists
    // tile_order is sorted by length. Its lists up to cut_end are cut into parts, those up to part_block_end
    // are sorted by a block of part_block threads, those up to block_end by a block of sort_block threads,
    // the rest by a warp.
    int32_t cut_end, part_block_end, block_end;
    int32_t parts; // of all lists
    // 1: a bucket had no room, so that the unsorted entries are in the lists. 64 bits: the struct has no padding.
    int64_t in_lists;
    unsigned long long described; // parts that cut_kernel has described so far
};

// A range of a list's entries.
struct part {
    int64_t begin;
    int length;
};

// gs_lists.pixels_per_thread. With more pixels per thread, more work is shared, if there are enough tiles. But
// if the longest list is much longer than the average, the GPU waits for it, and fewer pixels per thread finish
// it sooner. The measure is the excess of the longest list over the average, relative to a multiprocessor's
// work.
__host__ __device__ inline int pixels_of_thread(int64_t pairs, int64_t longest, int tiles,
                                                int multiprocessors) {
    const double work = double(pairs) / multiprocessors;
    const double average = double(pairs) / (tiles > multiprocessors ? tiles : multiprocessors);
    const double outlasts = double(longest) - average;
    if (outlasts > 0.75 * work) return 1;
    return outlasts > 0.28 * work || tiles < 3 * multiprocessors ? 2 : 4;
}

// One block. Writes where each tile's list begins, where each class begins in the order of tiles, and the
// summary; and to `ends` the end of each counter's range in its tile's list. If the pairs do not fit, all lists are
// empty.
static __global__ void __launch_bounds__(scan_block)
    tile_begin_kernel(const tile_counters length, uint32_t *ends, int tiles, const bin_limits limits,
                      int64_t *tile_begin, uint32_t *class_begin, bin_summary *summary) {
    in_turn();
    static_assert(classes <= scan_block, "a thread a class");
    __shared__ int in_class[classes];
    __shared__ unsigned longest, parts, most; // most: in a counter
    const int thread = int(threadIdx.x);
    // Read early: it may lie in the host's memory.
    const int64_t most_before = thread == 0 && limits.report ? limits.report->most_pairs_needed : 0;
    if (thread < classes) in_class[thread] = 0;
    if (thread == 0) longest = parts = most = 0;
    __syncthreads();

    // A warp has neighbouring counters, 32 at a time, and reads 8 times 32 of them at once.
    constexpr int at_once = 8;
    const int lane = thread % 32, copies = 1 << length.log2_copies, counters = tiles * copies;
    const int rows = (counters + scan_block - 1) / scan_block,
              end = min((thread / 32 + 1) * 32 * rows, counters);
    const int own_first = thread / 32 * 32 * rows + lane;
    const bool is_first = (lane & (copies - 1)) == 0;               // of a tile
    const auto for_rows = [=](const auto &read, const auto &body) { // by all lanes of the warp
        for (int first = own_first; first - lane < end; first += 32 * at_once) {
            uint32_t some[at_once];
            DISTWAR_UNROLL
            for (int k = 0; k < at_once; k++) some[k] = first + 32 * k < end ? read(first + 32 * k) : 0;
            DISTWAR_UNROLL
            for (int k = 0; k < at_once; k++)
                if (first - lane + 32 * k < end) body(first + 32 * k, some[k]);
        }
    };
    int64_t own = 0, pairs;
    unsigned own_longest = 0, own_parts = 0, own_most = 0;
    for_rows([=](int counter) { return *length.at(counter); },
             [&](int counter, uint32_t n) {
                 if (counter < end) ends[counter] = n;
                 own += n;
                 own_most = max(own_most, n);
                 for (int distance = 1; distance < copies; distance *= 2)
                     n += __shfl_xor_sync(distwar::all_lanes, n, distance);
                 if (!is_first || counter >= end) return;
                 own_longest = max(own_longest, n);
                 own_parts += unsigned(parts_of(n));
                 atomicAdd(&in_class[class_of(n)], 1);
             });
    atomicMax(&longest, own_longest);
    atomicMax(&most, own_most);
    if (own_parts > 0) atomicAdd(&parts, own_parts);
    int64_t begin = __shfl_sync(distwar::all_lanes, scan_of_block<scan_block>(own, &pairs), 0);
    const bool fits = pairs <= limits.pair_capacity;
    for_rows([=](int counter) { return ends[counter]; },
             [&](int counter, uint32_t n) {
                 int64_t until = n; // inclusive
                 for (int distance = 1; distance < 32; distance *= 2) {
                     const int64_t before = __shfl_up_sync(distwar::all_lanes, until, unsigned(distance));
                     if (lane >= distance) until += before;
                 }
                 const int64_t of_tile = __shfl_sync(distwar::all_lanes, until - n, lane & ~(copies - 1));
                 if (counter < end) ends[counter] = uint32_t(until - of_tile);
                 if (is_first && counter < end)
                     tile_begin[counter >> length.log2_copies] = fits ? begin + of_tile : 0;
                 begin += __shfl_sync(distwar::all_lanes, until, 31);
             });
    if (thread == 0) tile_begin[tiles] = fits ? pairs : 0;

    int all;
    const int before = scan_of_block<scan_block>(fits && thread < classes ? in_class[thread] : 0, &all);
    if (thread < classes) class_begin[thread] = uint32_t(before);
    const int pixels = pixels_of_thread(pairs, longest, tiles, limits.multiprocessors);
    if (thread == split_class(pairs, limits.multiprocessors, pixels)) {
        const int64_t buckets = int64_t(most) * counters;
        summary->buckets = buckets, summary->pairs = pairs;
        summary->pixels_per_thread = pixels, summary->split = before;
        if (limits.report) {
            limits.report->pairs_needed = pairs, limits.report->buckets_needed = buckets;
            limits.report->pixels_per_thread = pixels, limits.report->split_tiles = before;
            __threadfence_system(); // call last: the host may wait for it
            *const_cast<volatile int64_t *>(&limits.report->call) = limits.call;
        }
    }
    if (thread == 0 && limits.report && most_before < pairs) limits.report->most_pairs_needed = pairs;
    // Each of these lengths is the first of its class.
    if (thread == class_of(sorted_by_block<part_block>) + 1) summary->cut_end = before;
    if (thread == class_of(sorted_by_block<sort_block>) + 1) summary->part_block_end = before;
    if (thread == class_of(sorted_by_warp) + 1) summary->block_end = before;
    if (thread == 0) {
        summary->parts = fits ? parts : 0, summary->described = 0;
        summary->in_lists = fits && most > limits.bucket_room;
    }
}

// The summary of the lists for kernels that sort: numbers from the host, or read on the device.
struct bin_work {
    bin_summary known;
    const bin_summary *on_device; // or NULL

    __device__ bin_summary get() const { return on_device ? *on_device : known; }
};

// Writes the order of tiles, and the unsorted lists if a bucket had no room; blocks then take turns. Increments
// class_begin.
static __global__ void __launch_bounds__(bin_block)
    write_kernel(const splat_portions all, tile_grid grid, writing tickets, const bin_work work,
                 uint32_t *class_begin, uint32_t *tile_order) {
    in_turn();
    const int tiles = tiles_of(grid), portions = all.per_view * grid.views;
    const int t = int(blockIdx.x) * bin_block + int(threadIdx.x);
    if (t < tiles) {
        const int64_t size = tickets.tile_begin[t + 1] - tickets.tile_begin[t];
        tile_order[atomicAdd(&class_begin[class_of(size)], 1u)] = uint32_t(t);
    }
    if (work.get().in_lists == 0) return;
    for (int portion = int(blockIdx.x); portion < portions; portion += int(gridDim.x)) {
        __syncthreads(); // the previous portion's boxes have been read
        for_tiles_of_splats(all, portion, grid, tickets);
    }
}

// class_end: where each class ends in the order of tiles, as write_kernel leaves class_begin. One block. The first tile
// of the order does not always have the longest list: within a class, the order is that in which blocks came to it.
static __global__ void __launch_bounds__(scan_block)
    lengths_kernel(const int64_t *tile_begin, const uint32_t *class_end, int tiles, list_lengths *out) {
    static_assert(classes == LIST_CLASSES, "list_lengths has a number for each class");
    __shared__ unsigned longest;
    const int thread = int(threadIdx.x);
    if (thread == 0) longest = 0;
    __syncthreads();
    if (thread < classes) out->class_end[thread] = int32_t(class_end[thread]);
    unsigned own_longest = 0;
    for (int t = thread; t < tiles; t += scan_block)
        own_longest = max(own_longest, unsigned(tile_begin[t + 1] - tile_begin[t]));
    atomicMax(&longest, own_longest);
    __syncthreads();
    if (thread == 0) out->pairs = tile_begin[tiles], out->longest = longest;
}

} // namespace gs
