// SPDX-License-Identifier: MIT
// gs_bin: sorts the lists by (depth, index). Long ones are first cut into parts.
#pragma once

#include "bin_begin.cuh"

namespace gs {

// Sampled keys decide where a list is cut. With 64 samples per part, a part comes out twice as long as intended with a
// probability of 3e-9: the tail of a sum of 64 exponential variables at twice its mean.
constexpr int samples_of_part = 64;

// The entries of a tile's list before they are sorted.
struct unsorted {
    const uint32_t *in_list; // of the tile; NULL: they are in the buckets
    const uint32_t *bucket;  // of the tile's first counter
    const uint32_t *end;     // of the tile's counters: behind their entries, as numbers in the list
    int log2_copies;
    uint32_t room;

    // Entry i of the list.
    __device__ uint32_t operator[](int64_t i) const {
        if (in_list) return in_list[i];
        if (log2_copies == 0) return bucket[i];
        int copy = 0; // the first whose end is above i
        for (int step = 1 << (log2_copies - 1); step > 0; step /= 2)
            if (end[copy + step - 1] <= uint32_t(i)) copy += step;
        return bucket[int64_t(copy) * room + i - (copy > 0 ? end[copy - 1] : 0)];
    }
};

// Where these are, for all tiles.
struct unsorted_lists {
    buckets in;
    const uint32_t *ends, *list;

    __device__ unsorted of(uint32_t tile, int64_t begin, bool in_lists) const {
        const int64_t first = int64_t(tile) << in.length.log2_copies;
        return {in_lists ? list + begin : nullptr, in.entry + first * in.room, ends + first,
                in.length.log2_copies, in.room};
    }
};

// Cuts a list into parts by key: every key of a part is less than every key of the next, so that the parts
// can be sorted independently. By all threads of a block. Writes the parts
// to `other`, each in any order, and describes them in `parts`. list: the entries of the tile.
//
// Example: a list of n = 10,000 entries. A block sorts 4096 keys, so parts should have about 2048 entries:
// count = (10,000 + 2047) / 2048 = 5 parts.
//   1. Sample. 64 samples per part: samples = 320, entries 0, 31, 62, 93, 125 .. 9968 (i n / 320). Their keys
//      are sorted; those at ranks 0, 64, 128, 192 and 256 become the lower bounds of the parts. The first
//      bound is not used: part 0 takes all keys below the second.
//   2. Count. Each entry finds its part by binary search in the 5 bounds and adds 1 to the part's counter,
//      say {2105, 1880, 2010, 1965, 2040}. Lanes of a warp with the same part add once, together.
//   3. Scan: the parts begin at 0, 2105, 3985, 5995, 7960; each is described as (begin, length).
//   4. Write. The entries are read again, in the same way. The counters now hold the next free place of each
//      part: the first entry found in part 2 goes to other[3985].
__device__ inline void cut_list(const uint32_t *depth, uint32_t tile, const int64_t *tile_begin,
                                const unsorted &list, uint32_t *other, bin_summary *summary, part *parts) {
    __shared__ uint64_t keys[sorted_by_block<part_block>];
    __shared__ int place[part_block]; // a counter for each part, then the next free place in it
    __shared__ unsigned long long described;
    const int thread = int(threadIdx.x), lane = thread % 32;
    const int64_t begin = tile_begin[tile];
    const int n = int(tile_begin[tile + 1] - begin), count = parts_of(n);
    other += begin;

    const int samples = min(samples_of_part * count, sorted_by_block<part_block>);
    sort_in_block<part_block>(
        depth, samples, [=](int i) { return list[int64_t(i) * n / samples]; }, keys);
    const uint64_t cut = thread < count ? keys[int64_t(thread) * samples / count] : 0;
    if (thread == 0) described = atomicAdd(&summary->described, (unsigned long long)count);
    place[thread] = 0;
    __syncthreads();
    keys[thread] = cut; // lower bound of part `thread`
    __syncthreads();

    constexpr int at_once = 8, entries_at_once = part_block * at_once;
    uint32_t index[at_once];
    int part_of[at_once]; // -1: beyond the end of the list
    const auto read = [&](int64_t first) {
        uint64_t key[at_once];
        DISTWAR_UNROLL
        for (int e = 0; e < at_once; e++) {
            const int64_t i = first + e * part_block + thread;
            index[e] = i < n ? list[i] : 0;
            part_of[e] = i < n ? 0 : -1;
        }
        DISTWAR_UNROLL
        for (int e = 0; e < at_once; e++) key[e] = part_of[e] == 0 ? key_of(depth, index[e]) : 0;
        DISTWAR_UNROLL
        for (int e = 0; e < at_once; e++) {
            if (part_of[e] < 0) continue;
            int low = 0, high = count;
            while (high - low > 1) {
                const int middle = (low + high) / 2;
                (keys[middle] <= key[e] ? low : high) = middle;
            }
            part_of[e] = low;
        }
    };
    // Takes the next place in the entry's part, with one atomic for all entries of the warp in the same part.
    const auto take = [&](int e) {
        const unsigned peers = distwar::lanes_with_key(distwar::all_lanes, part_of[e]);
        const unsigned leader = distwar::lowest_lane(peers);
        int first = 0;
        if (lane == int(leader) && part_of[e] >= 0)
            first = atomicAdd(&place[part_of[e]], distwar::count_lanes(peers));
        return __shfl_sync(distwar::all_lanes, first, int(leader)) +
               distwar::count_lanes(peers & ((1u << lane) - 1));
    };
    for (int64_t first = 0; first < n; first += entries_at_once) {
        read(first);
        DISTWAR_UNROLL
        for (int e = 0; e < at_once; e++) take(e);
    }
    __syncthreads();
    const int length = place[thread];
    int all;
    const int before = scan_of_block<part_block>(length, &all);
    place[thread] = before;
    if (thread < count) parts[described + unsigned(thread)] = {begin + before, length};
    __syncthreads();
    for (int64_t first = 0; first < n; first += entries_at_once) {
        read(first);
        DISTWAR_UNROLL
        for (int e = 0; e < at_once; e++) {
            const int at = take(e);
            if (part_of[e] >= 0) other[at] = index[e];
        }
    }
}

// Cuts the lists that are long enough. Blocks take turns.
static __global__ void __launch_bounds__(part_block)
    cut_kernel(const uint32_t *depth, const uint32_t *tile_order, const int64_t *tile_begin,
               const unsorted_lists lists, uint32_t *other, const bin_work work, bin_summary *summary,
               part *parts) {
    in_turn();
    const int cut_end = work.get().cut_end;
    const bool in_lists = work.get().in_lists != 0;
    for (int place = int(blockIdx.x); place < cut_end; place += int(gridDim.x)) {
        __syncthreads(); // the previous list's keys have been read
        const uint32_t tile = tile_order[place];
        const unsorted list = lists.of(tile, tile_begin[tile], in_lists);
        cut_list(depth, tile, tile_begin, list, other, summary, parts);
    }
}

// Least blocks per multiprocessor, which limits registers. Before compute capability 8.0 a multiprocessor has
// threads for only two.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int part_blocks = 2;
#else
constexpr int part_blocks = 3;
#endif

// Sorts the parts of lists, then the lists cut_end .. part_block_end - 1. Blocks take turns.
static __global__ void __launch_bounds__(part_block, part_blocks)
    sort_parts_kernel(const uint32_t *depth, const uint32_t *tile_order, const int64_t *tile_begin,
                      const part *parts, const unsorted_lists from, const bin_work work, uint32_t *list,
                      uint32_t *other) {
    in_turn();
    __shared__ uint64_t keys[sorted_by_block<part_block>];
    const bin_summary lists = work.get();
    const int all = lists.parts + lists.part_block_end - lists.cut_end;
    for (int turn = int(blockIdx.x); turn < all; turn += int(gridDim.x)) {
        __syncthreads(); // the previous keys have been read
        if (turn < lists.parts) {
            const part mine = parts[turn];
            sort_entries<part_block>(depth, other + mine.begin, mine.length, list + mine.begin,
                                     other + mine.begin, keys);
            continue;
        }
        const uint32_t tile = tile_order[turn - lists.parts + lists.cut_end];
        const int64_t begin = tile_begin[tile];
        const int n = int(tile_begin[tile + 1] - begin); // at most sorted_by_block<part_block>
        const unsorted entries = from.of(tile, begin, lists.in_lists != 0);
        sort_in_block<part_block>(
            depth, n, [=](int i) { return entries[i]; }, keys);
        for (int i = int(threadIdx.x); i < n; i += part_block) list[begin + i] = uint32_t(keys[i]);
    }
}

// Sorts the remaining lists, part_block_end .. tiles - 1: blocks for those before block_end one list each,
// the other blocks one list per warp.
static __global__ void __launch_bounds__(sort_block)
    sort_kernel(const uint32_t *depth, const uint32_t *tile_order, const int64_t *tile_begin, int tiles,
                const unsorted_lists from, const bin_work work, uint32_t *list) {
    in_turn();
    constexpr int E = sorted_by_warp / 32;
    __shared__ uint64_t keys[sorted_by_block<sort_block>];
    const bin_summary lists = work.get();
    const int block = lists.part_block_end + int(blockIdx.x), thread = int(threadIdx.x), warp = thread / 32;
    const bool one_warp = block >= lists.block_end;
    const int place =
        one_warp ? lists.block_end + (block - lists.block_end) * (sort_block / 32) + warp : block;
    if (place >= tiles) return;
    const uint32_t tile = tile_order[place];
    const int64_t begin = tile_begin[tile];
    const int n = int(tile_begin[tile + 1] - begin);
    const unsorted entries = from.of(tile, begin, lists.in_lists != 0);
    list += begin;
    if (one_warp) {
        const auto put = [=](int k, uint64_t key) { list[k] = uint32_t(key); };
        if (n > 128)
            sort_short<E>(depth, entries, n, put);
        else if (n > 64)
            sort_short<4>(depth, entries, n, put);
        else if (n > 32)
            sort_short<2>(depth, entries, n, put);
        else if (n > 0)
            sort_short<1>(depth, entries, n, put);
        return;
    }
    sort_in_block<sort_block>(
        depth, n, [=](int i) { return entries[i]; }, keys);
    for (int i = thread; i < n; i += sort_block) list[i] = uint32_t(keys[i]);
}

} // namespace gs
