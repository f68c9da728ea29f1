// SPDX-License-Identifier: MIT
// Splats to tiles' lists: append each splat to the buckets of its tiles, scan the lengths, sort each bucket by (depth,
// index) into the tile's list (bin_sort.cuh). Where a bucket had no room, all splats are written a second time, to the
// lists, whose places are then known, and sorted there. Reads splats, writes the lists of a view and what it says of
// them: numbers of entries, and how the blend divides its work. docs/developers/design.md, conventions beyond math.md.
// At the end gs_forward, which repeats its stages until the lists fit.
#include "bin_sort.cuh"
#include "launch.cuh"
#include "rows.h"
#include "splat.cuh"
#include <algorithm>
#include <atomic>
#include <string.h>

using namespace gs;

namespace {

// ---- append: each splat to the buckets, or later the lists, of its tiles ----

constexpr int bin_block = 256;

// A splat and its box of tiles.
struct alignas(16) candidate {
    splat_reach reach;
    int x_begin, y_begin, columns;
    float inv_columns;
};

// Splats in portions, one for a block at a time.
struct splat_portions {
    const gs_splat *splats; // of all views, `count` each
    int64_t count;
    int size;        // splats of a portion, at most bin_block
    int per_view;    // portions
    uint32_t *depth; // of all views: the bits of gs_splat.depth, written with the portion
};

// Takes a ticket for every (splat, tile) where the splat reaches the tile. One body for counting and for
// writing. The tiles of the boxes of the portion's splats, box after box, form one row of items, which the warps
// divide evenly: a splat with many tiles does not hold up the block. A ticket is used one iteration after it was
// taken, so that the latency of its atomic is hidden. Example: boxes of 2, 3 and 1 tiles give 6 items; first =
// {0, 2, 5, 6}; item 4 is the third tile of box 1.
template <typename Tickets>
__device__ void for_tiles_of_splats(const splat_portions &all, int portion, const tile_grid &grid,
                                    const Tickets &tickets) {
    __shared__ candidate candidates[bin_block];
    __shared__ int first[bin_block + 1]; // item of each box; first[k + 1] is its end
    const int thread = int(threadIdx.x), view = portion / all.per_view,
              in_view = portion - view * all.per_view;
    const int first_tile = view * grid.tiles_x * grid.tiles_y;
    const int64_t first_splat = view * all.count + int64_t(in_view) * all.size;
    const int size = int(min(int64_t(all.size), all.count - int64_t(in_view) * all.size));
    int area = 0;
    gs_splat splat = {};
    if (thread < size) { // by 16 bytes at a time, but for `reserved`
        const float4 *const words = reinterpret_cast<const float4 *>(all.splats + first_splat + thread);
        const float4 a = words[0], b = words[1], c = words[2];
        splat = {{a.x, a.y}, {a.z, a.w, b.x}, b.y, {b.z, b.w, c.x}, c.y, {}};
        all.depth[first_splat + thread] = __float_as_uint(splat.depth);
    }
    if (splat.depth > 0) {
        const splat_reach reach = reach_of(splat);
        const tile_box box = box_of(reach, grid);
        const int columns = box.x_end - box.x_begin;
        area = area_of(box);
        candidates[thread] = {reach, box.x_begin, box.y_begin, columns, 1 / float(columns)};
    }
    int items;
    first[thread] = scan_of_block<bin_block>(area, &items);
    if (thread == 0) first[bin_block] = items;
    __syncthreads();

    // Neighbouring lanes have neighbouring items.
    const int share = (items + bin_block - 1) / bin_block * 32, warp = thread / 32;
    const int begin = warp * share + thread % 32, end = min((warp + 1) * share, items);
    int low = 0, high = bin_block; // the box of item `begin` is among low .. high - 1
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (first[middle] <= begin ? low : high) = middle;
    }
    typename Tickets::ticket last = {};
    for (int k = begin; k < end; k += 32) {
        while (k >= first[low + 1]) low++;
        const candidate c = candidates[low];
        // The row is exact: a box has at most 1024 rows, and the half keeps the product away from integers.
        const int item = k - first[low], row = int((float(item) + 0.5f) * c.inv_columns);
        const int x = c.x_begin + item - row * c.columns, y = c.y_begin + row;
        // The centres of the tile's pixels that are inside the image.
        const int left = x * GS_TILE_SIZE, top = y * GS_TILE_SIZE;
        const rectangle centres = {float(left) + 0.5f, float(top) + 0.5f,
                                   float(min(left + GS_TILE_SIZE, grid.width)) - 0.5f,
                                   float(min(top + GS_TILE_SIZE, grid.height)) - 0.5f};
        typename Tickets::ticket next = {};
        if (reaches(c.reach, centres))
            next = tickets.take(first_tile + y * grid.tiles_x + x, uint32_t(first_splat + low), portion);
        tickets.use(last);
        last = next;
    }
    tickets.use(last);
}

// A tile has one counter, or several where few tiles have many splats; a portion of splats uses the one given by
// its number. Atomics to one line of the L2 are serialised, and neighbouring tiles have splats alike in number.
// So a counter has a sector of 32 bytes to itself, and the other three of its line are of tiles far away.
constexpr int counters_of_line = 4, sector_words = 8;
struct tile_counters {
    uint32_t *first; // [1 << log2_lines][counters_of_line][sector_words]
    int log2_copies, log2_lines;
    __device__ int number(int tile, int portion) const {
        return (tile << log2_copies) + (portion & ((1 << log2_copies) - 1));
    }
    __device__ uint32_t *at(int number) const {
        const int line = number & ((1 << log2_lines) - 1);
        return first + (line * counters_of_line + (number >> log2_lines)) * sector_words;
    }
};

// Each counter has a bucket of `room` entries.
struct buckets {
    tile_counters length; // count up, beyond the room too
    uint32_t *entry;      // [counters][room]
    uint32_t room;
    struct ticket {
        uint32_t *bucket; // NULL: no ticket
        uint32_t place, splat;
    };
    __device__ ticket take(int tile, uint32_t splat, int portion) const {
        const int number = length.number(tile, portion);
        return {entry + int64_t(number) * room, atomicAdd(length.at(number), 1u), splat};
    }
    __device__ void use(const ticket &t) const {
        if (t.bucket && t.place < room) t.bucket[t.place] = t.splat;
    }
};

struct writing {
    tile_counters counters;
    uint32_t *end;             // [counters]: of each one's range in the tile's list; counts down to its begin
    const int64_t *tile_begin; // [tiles + 1]
    uint32_t *list;
    struct ticket {
        int64_t begin;
        uint32_t left, splat; // left = 0: no ticket
    };
    __device__ ticket take(int tile, uint32_t splat, int portion) const {
        return {tile_begin[tile], atomicSub(end + counters.number(tile, portion), 1u), splat};
    }
    __device__ void use(const ticket &t) const {
        if (t.left > 0) list[t.begin + t.left - 1] = t.splat;
    }
};

__global__ void __launch_bounds__(bin_block)
    append_kernel(const splat_portions all, tile_grid grid, buckets tickets) {
    let_next_start();
    for_tiles_of_splats(all, int(blockIdx.x), grid, tickets);
}

// ---- begin: where each list begins, their order, and the division of the blend's work ----

constexpr int scan_block = 1024, sort_block = 256;
constexpr int tiles_at_once = 16; // tiles that a multiprocessor blends at once, about
// Where threads have four pixels: a list is long above isects / (multiprocessors * shares_of_four). Elsewhere
// tiles_at_once takes its place.
constexpr int shares_of_four = 10;
constexpr int shortest_split = 64; // entries: two batches
// Lists are classified by length, eight classes an octave, longest first. Class 0 has lengths of nearly 2^32,
// the last class the empty lists.
constexpr int classes = 33 * 8;
__host__ __device__ int class_of(int64_t length) {
    if (length < 1) return classes - 1;
    const float rounded = float(length);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (127 + 33) * 8 - 2 - int(bits >> 20);
}

// The first class whose lists get no more warps than others. Those before it are longer than a share of all intersections,
// of which each multiprocessor has shares_of_four or tiles_at_once.
__host__ __device__ int split_class(int64_t isects, int multiprocessors, int pixels_per_thread) {
    const int64_t share =
        isects / (multiprocessors * (pixels_per_thread == 4 ? shares_of_four : tiles_at_once));
    return class_of(share > shortest_split ? share : int64_t(shortest_split));
}

// The limits that gs_bin works to.
struct bin_limits {
    int multiprocessors;
    uint32_t bucket_room;
    int64_t isect_capacity;
    int64_t call;       // of bin_report
    bin_report *report; // or NULL
};

// Read by the kernels that follow; and by gs_settle where there was no report.
struct bin_summary {
    int64_t
        isects; // needed; if they do not fit, the numbers from cut_end to in_lists are of empty lists. First:
                // gs_tile_ranges.device_isects points here
    int64_t buckets;                  // of bin_report
    int32_t pixels_per_thread, split; // of gs_tile_ranges
    // tile_order is sorted by length. Its lists up to cut_end are cut into parts, those up to part_block_end are sorted
    // by a block of part_block threads, those up to block_end by a block of sort_block threads, the rest by a warp.
    int32_t cut_end, part_block_end, block_end;
    int32_t parts; // of all lists
    // 1: a bucket had no room, so that the unsorted entries are in the lists. 64 bits: the struct has no padding.
    int64_t in_lists;
    unsigned long long described; // parts that cut_kernel has described so far
};

// gs_tile_ranges.pixels_per_thread. With more pixels per thread, more work is shared, if there are enough tiles. But if
// the longest list is much longer than the average, the GPU waits for it, and fewer pixels per thread finish it sooner.
// The measure is the excess of the longest list over the average, relative to a multiprocessor's work.
__host__ __device__ int pixels_of_thread(int64_t isects, int64_t longest, int tiles, int multiprocessors) {
    const double work = double(isects) / multiprocessors;
    const double average = double(isects) / (tiles > multiprocessors ? tiles : multiprocessors);
    const double outlasts = double(longest) - average;
    if (outlasts > 0.75 * work) return 1;
    return outlasts > 0.28 * work || tiles < 3 * multiprocessors ? 2 : 4;
}

// One block. Writes where each tile's list begins, where each class begins in the order of tiles, and the summary; and
// to `ends` the end of each counter's range in its tile's list. If the intersections do not fit, all lists are empty.
__global__ void __launch_bounds__(scan_block)
    tile_begin_kernel(const tile_counters length, uint32_t *ends, int tiles, const bin_limits limits,
                      int64_t *tile_begin, uint32_t *class_begin, bin_summary *summary) {
    in_turn();
    static_assert(classes <= scan_block, "a thread a class");
    __shared__ int in_class[classes];
    __shared__ unsigned longest, parts, most; // most: in a counter
    const int thread = int(threadIdx.x);
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
    int64_t own = 0, isects;
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
    int64_t begin = __shfl_sync(distwar::all_lanes, scan_of_block<scan_block>(own, &isects), 0);
    const bool fits = isects <= limits.isect_capacity;
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
    if (thread == 0) tile_begin[tiles] = fits ? isects : 0;

    int all;
    const int before = scan_of_block<scan_block>(fits && thread < classes ? in_class[thread] : 0, &all);
    if (thread < classes) class_begin[thread] = uint32_t(before);
    const int pixels = pixels_of_thread(isects, longest, tiles, limits.multiprocessors);
    if (thread == split_class(isects, limits.multiprocessors, pixels)) {
        const int64_t buckets = int64_t(most) * counters;
        summary->buckets = buckets, summary->isects = isects;
        summary->pixels_per_thread = pixels, summary->split = before;
        if (limits.report) {
            limits.report->isects = isects, limits.report->buckets = buckets;
            limits.report->pixels_per_thread = pixels, limits.report->split_tiles = before;
            __threadfence_system(); // call last: the host may wait for it
            *const_cast<volatile int64_t *>(&limits.report->call) = limits.call;
        }
    }
    // Each of these lengths is the first of its class.
    if (thread == class_of(sorted_by_block<part_block>) + 1) summary->cut_end = before;
    if (thread == class_of(sorted_by_block<sort_block>) + 1) summary->part_block_end = before;
    if (thread == class_of(sorted_by_warp) + 1) summary->block_end = before;
    if (thread == 0) {
        summary->parts = fits ? parts : 0, summary->described = 0;
        summary->in_lists = fits && most > limits.bucket_room;
    }
}

// Writes the order of tiles, and the unsorted lists if a bucket had no room; blocks then take turns. Increments
// class_begin.
__global__ void __launch_bounds__(bin_block)
    write_kernel(const splat_portions all, tile_grid grid, writing tickets, const bin_summary *summary,
                 uint32_t *class_begin, uint32_t *tile_order) {
    in_turn();
    const int tiles = tiles_of(grid), portions = all.per_view * grid.views;
    const int t = int(blockIdx.x) * bin_block + int(threadIdx.x);
    if (t < tiles) {
        const int64_t size = tickets.tile_begin[t + 1] - tickets.tile_begin[t];
        tile_order[atomicAdd(&class_begin[class_of(size)], 1u)] = uint32_t(t);
    }
    if (summary->in_lists == 0) return;
    for (int portion = int(blockIdx.x); portion < portions; portion += int(gridDim.x)) {
        __syncthreads(); // the previous portion's boxes have been read
        for_tiles_of_splats(all, portion, grid, tickets);
    }
}

// class_end: where each class ends in the order of tiles, as write_kernel leaves class_begin. One block. The first tile
// of the order does not always have the longest list: within a class, the order is that in which blocks came to it.
__global__ void __launch_bounds__(scan_block)
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
    if (thread == 0) out->isects = tile_begin[tiles], out->longest = longest;
}

// ---- sort: the lists by (depth, index); long ones are first cut into parts ----

// Sampled keys decide where a list is cut. With 64 samples per part, a part comes out twice as long as intended with a
// probability of 3e-9: the tail of a sum of 64 exponential variables at twice its mean.
constexpr int samples_of_part = 64;

// Where the entries of a list are before they are sorted, for all tiles.
struct unsorted_lists {
    buckets in;
    const uint32_t *ends, *list;

    __device__ unsorted of(uint32_t tile, const int64_t *tile_begin, bool in_lists) const {
        const int64_t first = int64_t(tile) << in.length.log2_copies, begin = tile_begin[tile];
        const int length = int(tile_begin[tile + 1] - begin), log2_copies = in.length.log2_copies;
        const uint32_t *const in_list = in_lists ? list + begin : nullptr;
        return {begin, length, in_list, in.entry + first * in.room, ends + first, log2_copies, in.room};
    }
};

// Cuts the lists that are long enough into parts by key: every key of a part is less than every key of the next, so that
// the parts can be sorted independently. Writes the parts to `other`, each in any order, and describes them in `parts`.
// Blocks take turns.
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
__global__ void __launch_bounds__(part_block)
    cut_kernel(const uint32_t *depth, const uint32_t *tile_order, const int64_t *tile_begin,
               const unsorted_lists lists, uint32_t *other, bin_summary *summary, part *parts) {
    in_turn();
    __shared__ uint64_t keys[sorted_by_block<part_block>];
    __shared__ int place[part_block]; // a counter for each part, then the next free place in it
    __shared__ unsigned long long described;
    const int thread = int(threadIdx.x), lane = thread % 32, cut_end = summary->cut_end;
    const bool in_lists = summary->in_lists != 0;
    for (int turn = int(blockIdx.x); turn < cut_end; turn += int(gridDim.x)) {
        __syncthreads(); // the previous list's keys have been read
        const unsorted list = lists.of(tile_order[turn], tile_begin, in_lists);
        const int n = list.length, count = parts_of(n);

        const int samples = min(samples_of_part * count, sorted_by_block<part_block>);
        sort_in_block<part_block>(
            depth, samples, [=](int i) { return list(int64_t(i) * n / samples); }, keys);
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
                index[e] = i < n ? list(i) : 0;
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
            const unsigned leader = unsigned(__ffs(int(peers))) - 1;
            int first = 0;
            if (lane == int(leader) && part_of[e] >= 0) first = atomicAdd(&place[part_of[e]], __popc(peers));
            return __shfl_sync(distwar::all_lanes, first, int(leader)) + __popc(peers & ((1u << lane) - 1));
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
        if (thread < count) parts[described + unsigned(thread)] = {list.begin + before, length};
        __syncthreads();
        for (int64_t first = 0; first < n; first += entries_at_once) {
            read(first);
            DISTWAR_UNROLL
            for (int e = 0; e < at_once; e++) {
                const int at = take(e);
                if (part_of[e] >= 0) other[list.begin + at] = index[e];
            }
        }
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
__global__ void __launch_bounds__(part_block, part_blocks)
    sort_parts_kernel(const uint32_t *depth, const uint32_t *tile_order, const int64_t *tile_begin,
                      const part *parts, const unsorted_lists from, const bin_summary *summary,
                      uint32_t *list, uint32_t *other) {
    in_turn();
    __shared__ uint64_t keys[sorted_by_block<part_block>];
    const bin_summary lists = *summary;
    const int all = lists.parts + lists.part_block_end - lists.cut_end;
    for (int turn = int(blockIdx.x); turn < all; turn += int(gridDim.x)) {
        __syncthreads(); // the previous keys have been read
        if (turn < lists.parts) {
            const part mine = parts[turn];
            sort_entries<part_block>(depth, other + mine.begin, mine.length, list + mine.begin,
                                     other + mine.begin, keys);
            continue;
        }
        const unsorted of_tile = from.of(tile_order[turn - lists.parts + lists.cut_end], tile_begin,
                                         lists.in_lists != 0); // at most sorted_by_block<part_block>
        sort_into<part_block>(list + of_tile.begin, depth, of_tile.length, of_tile, keys);
    }
}

// Sorts the lists part_block_end .. tiles - 1: blocks for those before block_end one list each, others one per warp.
__global__ void __launch_bounds__(sort_block)
    sort_kernel(const uint32_t *depth, const uint32_t *tile_order, const int64_t *tile_begin, int tiles,
                const unsorted_lists from, const bin_summary *summary, uint32_t *list) {
    in_turn();
    constexpr int E = sorted_by_warp / 32;
    __shared__ uint64_t keys[sorted_by_block<sort_block>];
    const bin_summary lists = *summary;
    const int block = lists.part_block_end + int(blockIdx.x), thread = int(threadIdx.x), warp = thread / 32;
    const bool one_warp = block >= lists.block_end;
    const int place =
        one_warp ? lists.block_end + (block - lists.block_end) * (sort_block / 32) + warp : block;
    if (place >= tiles) return;
    const unsorted of_tile = from.of(tile_order[place], tile_begin, lists.in_lists != 0);
    const int n = of_tile.length;
    list += of_tile.begin;
    const auto put = [=](int k, uint64_t key) { list[k] = uint32_t(key); };
    if (!one_warp)
        sort_into<sort_block>(list, depth, n, of_tile, keys);
    else if (n > 128)
        sort_short<E>(depth, n, of_tile, put);
    else if (n > 64)
        sort_short<4>(depth, n, of_tile, put);
    else if (n > 32)
        sort_short<2>(depth, n, of_tile, put);
    else if (n > 0)
        sort_short<1>(depth, n, of_tile, put);
}

// ---- host: memory, grids, limits ----

constexpr int blocks_wanted = 16;      // portions of splats per multiprocessor
constexpr int writers_at_once = 4;     // blocks per multiprocessor that write lists
constexpr int part_blocks_at_once = 6; // blocks per multiprocessor that cut lists and sort parts

// What lies in gs_view.memory: read after gs_bin.
struct kept_arrays {
    bin_summary *summary;
    uint32_t *class_begin;
    int64_t *tile_begin;
    uint32_t *tile_order, *list;
};

// What lies in the context's memory: not read after gs_bin.
struct bin_arrays {
    buckets into;
    size_t counter_words;
    uint32_t *depth, *ends, *other;
    part *parts;
};

// The logarithm of the number of a tile's counters: enough that each counts few splats, few enough for one block to scan.
int log2_copies(int64_t count, int tiles) {
    constexpr int most = 5, counters = 8192, splats = 256;
    int k = 0;
    while (k < most && tiles << (k + 1) <= counters && count > (int64_t(tiles) << k) * splats) k++;
    return k;
}

constexpr int64_t max_isects = int64_t(1) << 40;

gs_status check(const char *function, const gs_view *view) {
    GS_TRY(check_extent(function, view));
    GS_TRY(check_channels(function, view->gaussians.channels));
    for (const int64_t capacity : {view->memory.isect_capacity, view->memory.bucket_capacity})
        GS_ARGUMENT(capacity >= 0 && capacity <= max_isects,
                    "isect_capacity and bucket_capacity must be in 0..2^40");
    return libgs_require(function,
                         view->rows.begin >= 0 && view->rows.begin <= view->rows.end &&
                             view->rows.end <= tile_rows_of(view),
                         "rows must be a range of the rows of tiles");
}

// An upper bound of the parts of lists that hold isect_capacity intersections in all. A list that one block of
// part_block threads sorts counts as one part. The shortest list with three parts has the most for its length.
int64_t most_parts(int64_t isect_capacity) {
    return isect_capacity * 3 / sorted_by_block<part_block>;
}

// Entries that all buckets get unless more are given: more than 256 MB only for long lists, more than 4 GB hardly ever.
int64_t most_buckets(int64_t isects) {
    constexpr int64_t small = 1 << 26, large = 1 << 30;
    return std::max({small, std::min(8 * isects, large), isects});
}

// Entries of a bucket. Unless given, all have 32 for an intersection: some tiles have much longer lists than others.
uint32_t room_of(const gs_view_memory &memory, int64_t counters) {
    const int64_t least = 32, isects = memory.isect_capacity;
    const int64_t all =
        memory.bucket_capacity > 0 ? memory.bucket_capacity : std::min(32 * isects, most_buckets(isects));
    return uint32_t(std::min(std::max(all / counters, least), int64_t(UINT32_MAX)));
}

gs_status place_arrays(block_layout *layout, const gs_view *view, bin_arrays *out) {
    const int64_t count = splat_count(view); // of all views
    const int tiles = tiles_of(grid_of(view));
    tile_counters &length = out->into.length;
    length.log2_copies = log2_copies(count, tiles), length.log2_lines = 0;
    const size_t counters = size_t(tiles) << length.log2_copies;
    while ((size_t(counters_of_line) << length.log2_lines) < counters) length.log2_lines++;
    out->counter_words = size_t(counters_of_line * sector_words) << length.log2_lines;
    out->into.room = room_of(view->memory, int64_t(counters));
    layout_add(layout, out->counter_words, &length.first);
    layout_add(layout, counters, &out->ends);
    layout_add(layout, size_t(count), &out->depth);
    layout_add(layout, size_t(view->memory.isect_capacity), &out->other);
    layout_add(layout, counters * out->into.room, &out->into.entry);
    layout_add(layout, size_t(most_parts(view->memory.isect_capacity)), &out->parts);
    return GS_OK;
}

// Whether an array of the view lies in its memory, or is still to be placed there: the caller has not given it.
bool is_own(const gs_view *view, const void *array) {
    return !array || uintptr_t(array) - uintptr_t(view->memory.memory) < view->memory.bytes;
}

// Places what a view keeps in its memory, with its own arrays, and returns the bytes. memory NULL: nowhere, its own arrays
// become NULL. The lists come last: no other place depends on their room, which gs_settle changes.
size_t place_kept(void *memory, gs_view *view, kept_arrays *out) {
    block_layout layout = {static_cast<char *>(memory), 0};
    const size_t tiles = size_t(tiles_of(grid_of(view))),
                 pixels = size_t(view_count(view)) * size_t(view->camera.width) * size_t(view->camera.height);
    layout_add(&layout, 1, &out->summary);
    layout_add(&layout, classes, &out->class_begin);
    layout_add(&layout, tiles + 1, &out->tile_begin);
    layout_add(&layout, tiles, &out->tile_order);
    const auto place = [&](auto **array, size_t values) { // none is NULL: its place may be the memory's end
        if (is_own(view, *array)) *array = nullptr;
        if (!*array && values > 0) layout_add(&layout, values, array);
    };
    place(&view->image.transmittance, pixels);
    place(&view->image.n_contrib, pixels);
    place(&view->image.color, pixels * size_t(channels_of(&view->gaussians)));
    place(&view->splats, size_t(splat_count(view)));
    layout_add(&layout, size_t(view->memory.isect_capacity), &out->list);
    return layout.bytes;
}

// The one rule by which lists get room: before there is none left, as repeating a picture costs more than memory.
void grow(int64_t *capacity, int64_t needed) {
    if (needed + needed / 8 > *capacity) *capacity = std::min(needed + needed / 4, max_isects);
}

// Waits until the device has written the report of the context's call; not for what is queued behind it.
gs_status wait_for(const char *function, gs_context *context, int64_t call, bin_report *out) {
    constexpr int reads_a_query = 4096;
    bin_report *report;
    GS_TRY(libgs_report(function, context, call, &report));
    const volatile int64_t *const written = &report->call;
    bool is_done = false; // and what it wrote has arrived
    for (unsigned k = 1; *written != call; k++) {
        if (k % reads_a_query != 0) continue;
        GS_ARGUMENT(!is_done, "gs_bin was not queued in this context, or too many since");
        const cudaError_t status = cudaStreamQuery(context->stream);
        is_done = status == cudaSuccess;
        if (status == cudaErrorNotReady)
            (void)cudaGetLastError(); // it is no error
        else
            GS_CUDA(status);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    *out = *report;
    return GS_OK;
}

bool is_capturing([[maybe_unused]] gs_stream stream) {
#ifdef __SIMT__
    return false;
#else
    cudaStreamCaptureStatus status;
    return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
#endif
}

} // namespace

gs_status libgs_hold(const char *function, gs_view *view, gs_context *context) {
    gs_view_memory &memory = view->memory;
    kept_arrays kept;
    GS_TRY(check(function, view));
    const size_t needed = place_kept(nullptr, view, &kept);
    GS_TRY(libgs_grow(function, context, &memory.memory, &memory.bytes, needed));
    place_kept(memory.memory, view, &kept);
    return GS_OK;
}

size_t libgs_bin_bytes(const gs_view *view) {
    block_layout layout = {};
    bin_arrays unplaced;
    place_arrays(&layout, view, &unplaced);
    return layout.bytes;
}

gs_status gs_reserve(gs_view *view, distwar_strategy strategy, int64_t isects, gs_context *context) {
    GS_REQUIRE(view && isects >= 0, "view must be given, and isects not negative");
    GS_TRY(check_strategy(__func__, strategy, blend_strategy_bits));
    view->memory.isect_capacity = std::max(view->memory.isect_capacity, isects);
    GS_TRY(libgs_hold(__func__, view, context));
    const gs_camera &camera = view->camera;
    const size_t bin = libgs_bin_bytes(view),
                 loss = libgs_loss_bytes(camera.width, camera.height, view_count(view)),
                 fixed = strategy == DISTWAR_FIXED
                             ? libgs_fixed_bytes(splat_count(view), channels_of(&view->gaussians))
                             : 0;
    void *unused;
    return libgs_memory(__func__, context, CONTEXT_SCRATCH, std::max({bin, loss, fixed}), &unused);
}

void gs_view_free(gs_view *view, gs_context *context) {
    gs_view_memory &memory = view->memory;
    if (!memory.memory || libgs_context(__func__, &context) != GS_OK) return;
    const gs_allocator &by = context->allocator;
    by.release(by.user, memory.memory, context->stream);
    kept_arrays gone;
    place_kept(nullptr, view, &gone);
    view->ranges = {}, memory.memory = nullptr, memory.bytes = 0;
}

gs_status gs_bin(gs_view *view, gs_context *context) {
    GS_TRY(check(__func__, view));
    GS_TRY(libgs_context(__func__, &context));
    const gs_stream stream = context->stream;
    const int64_t count = view->gaussians.count, isect_capacity = view->memory.isect_capacity;
    GS_REQUIRE(count == 0 || view->splats, "splats must be given");
    const tile_grid grid = grid_of(view);
    // A graph that is replayed cannot say which of its passes wrote a report.
    const int64_t call = is_capturing(stream) ? 0 : ++context->calls;
    bin_report *report = nullptr;
    if (call > 0) GS_TRY(libgs_report(__func__, context, call, &report));
    kept_arrays kept;
    bin_arrays a;
    GS_TRY(libgs_hold(__func__, view, context));
    place_kept(view->memory.memory, view, &kept);
    GS_TRY(libgs_place(__func__, context, CONTEXT_SCRATCH,
                       [&](block_layout *layout) { return place_arrays(layout, view, &a); }));

    int multiprocessors;
    GS_CUDA(distwar::detail::read_attribute(cudaDevAttrMultiProcessorCount, &multiprocessors));
    const int tiles = tiles_of(grid);
    int per_block = bin_block; // as many splats as possible while there are enough blocks to fill the GPU
    while (per_block > 1 && splat_count(view) < int64_t(multiprocessors) * blocks_wanted * per_block)
        per_block /= 2;
    const splat_portions portions = {view->splats, count, per_block, int(blocks_for(count, per_block)),
                                     a.depth};
    const unsigned splat_blocks = unsigned(portions.per_view) * unsigned(grid.views);
    const unsigned most_writers = unsigned(multiprocessors) * writers_at_once;
    const tile_counters &counters = a.into.length;
    GS_CUDA(cudaMemsetAsync(counters.first, 0, a.counter_words * sizeof(uint32_t), stream));
    GS_CUDA(launch(stream, splat_blocks, bin_block, append_kernel, portions, grid, a.into));
    GS_CUDA(launch_in_turn(stream, 1, scan_block, tile_begin_kernel, counters, a.ends, tiles,
                           bin_limits{multiprocessors, a.into.room, isect_capacity, call, report},
                           kept.tile_begin, kept.class_begin, kept.summary));
    const unsorted_lists unsorted_entries = {a.into, a.ends, kept.list};
    GS_CUDA(launch_in_turn(
        stream, std::max(std::min(splat_blocks, most_writers), blocks_for(tiles, bin_block)), bin_block,
        write_kernel, portions, grid, writing{counters, a.ends, kept.tile_begin, kept.list}, kept.summary,
        kept.class_begin, kept.tile_order));
    // Upper bounds of the blocks that sort lists: no list is longer than a view has splats.
    const auto lists_of = [&](int shortest) {
        return count < shortest ? 0u : unsigned(std::min(isect_capacity / shortest, int64_t(tiles)));
    };
    const int64_t parts = count < sorted_by_block<sort_block> ? 0 : most_parts(isect_capacity);
    const unsigned at_once = unsigned(multiprocessors) * part_blocks_at_once,
                   block_lists = lists_of(sorted_by_warp);
    GS_CUDA(launch_in_turn(stream, std::min(lists_of(sorted_by_block<part_block>), at_once), part_block,
                           cut_kernel, a.depth, kept.tile_order, kept.tile_begin, unsorted_entries, a.other,
                           kept.summary, a.parts));
    GS_CUDA(launch_in_turn(stream, unsigned(std::min(parts, int64_t(at_once))), part_block, sort_parts_kernel,
                           a.depth, kept.tile_order, kept.tile_begin, a.parts, unsorted_entries, kept.summary,
                           kept.list, a.other));
    GS_CUDA(launch_in_turn(stream, block_lists + blocks_for(tiles - int(block_lists), sort_block / 32),
                           sort_block, sort_kernel, a.depth, kept.tile_order, kept.tile_begin, tiles,
                           unsorted_entries, kept.summary, kept.list));
    gs_tile_ranges &ranges = view->ranges;
    ranges.tiles_x = grid.tiles_x, ranges.tiles_y = grid.tiles_y, ranges.views = grid.views;
    ranges.tile_begin = kept.tile_begin, ranges.tile_order = kept.tile_order, ranges.splat_index = kept.list;
    ranges.isects = isect_capacity, ranges.call = call, ranges.device_isects = &kept.summary->isects;
    // How the blend divides the work of lists whose lengths the host does not know: as before, if that was valid.
    const int pixels = ranges.pixels_per_thread, split = ranges.split_tiles;
    if ((pixels == 1 || pixels == 2 || pixels == 4) && split >= 0 && split <= tiles) return GS_OK;
    ranges.pixels_per_thread = pixels_of_thread(0, 0, tiles, multiprocessors);
    ranges.split_tiles = tiles < multiprocessors * tiles_at_once ? tiles : 0;
    return GS_OK;
}

gs_status gs_settle(gs_view *view, gs_context *context) {
    GS_TRY(check_lists(__func__, view));
    GS_TRY(libgs_context(__func__, &context));
    gs_tile_ranges &ranges = view->ranges;
    if (!ranges.device_isects) return GS_OK; // it is settled
    bin_report report = {};
    if (ranges.call > 0) {
        GS_TRY(wait_for(__func__, context, ranges.call, &report));
    } else { // the pass of a graph
        bin_summary summary;
        GS_CUDA(cudaMemcpyAsync(&summary, ranges.device_isects, sizeof summary, cudaMemcpyDeviceToHost,
                                context->stream));
        GS_CUDA(cudaStreamSynchronize(context->stream));
        report.isects = summary.isects, report.buckets = summary.buckets;
    }
    view->isects_needed = report.isects;
    gs_view_memory &room = view->memory;
    grow(&room.isect_capacity, report.isects);
    if (room.bucket_capacity > 0)
        grow(&room.bucket_capacity, std::min(report.buckets, most_buckets(room.isect_capacity)));
    if (report.isects > ranges.isects)
        return libgs_fail(GS_ISECTS_DO_NOT_FIT, "%s: %lld intersections, room for %lld", __func__,
                          static_cast<long long>(report.isects), static_cast<long long>(ranges.isects));
    if (ranges.call == 0) return GS_OK; // each replay has others
    ranges.isects = report.isects, ranges.device_isects = nullptr;
    ranges.pixels_per_thread = report.pixels_per_thread, ranges.split_tiles = report.split_tiles;
    return GS_OK;
}

gs_status libgs_list_lengths(const gs_view *view, list_lengths *lengths, gs_stream stream) {
    GS_TRY(check_lists(__func__, view));
    GS_REQUIRE(lengths && view->memory.memory, "lengths, and lists that gs_bin has written, must be given");
    gs_view placed = *view;
    kept_arrays kept;
    place_kept(view->memory.memory, &placed, &kept);
    GS_CUDA(launch(stream, 1, scan_block, lengths_kernel, kept.tile_begin, kept.class_begin,
                   tiles_of(grid_of(view)), lengths));
    return GS_OK;
}

gs_status libgs_divide_lists(gs_view *view, const list_lengths *lengths, int64_t isects, int64_t longest) {
    GS_TRY(check_lists(__func__, view));
    GS_REQUIRE(lengths && isects >= lengths->isects && longest >= lengths->longest,
               "lengths must be given, and isects and longest of the image not be less");
    int multiprocessors;
    GS_CUDA(distwar::detail::read_attribute(cudaDevAttrMultiProcessorCount, &multiprocessors));
    const int pixels = pixels_of_thread(isects, longest, tiles_of(grid_of(view)), multiprocessors);
    const int split = split_class(isects, multiprocessors, pixels);
    view->ranges.pixels_per_thread = pixels;
    view->ranges.split_tiles = split > 0 ? lengths->class_end[split - 1] : 0;
    return GS_OK;
}

gs_status gs_forward(gs_view *view, gs_context *context) {
    gs_status status;
    do {
        GS_TRY(libgs_hold(__func__, view, context));
        GS_TRY(gs_project(view, context));
        GS_TRY(gs_bin(view, context));
        GS_TRY(gs_render(view, context));
        status = gs_settle(view, context);
    } while (status == GS_ISECTS_DO_NOT_FIT); // there is room now
    return status;
}
