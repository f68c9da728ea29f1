// SPDX-License-Identifier: MIT
// Splats into tiles: count every tile's splats, scan, write each splat into the lists of its tiles in any
// order, sort each list by (depth, index).
#include "check.h"
#include "depth_sort.cuh"
#include "gs.h"
#include "launch.cuh"
#include "reach.cuh"
#include "status.h"
#include <distwar/lanes.cuh>
#include <math.h>

namespace {

constexpr int bin_block = 256, scan_block = 1024, sort_block = 256;
constexpr int blocks_wanted = 16;  // a multiprocessor, to count and write
constexpr int tiles_at_once = 16;  // of a multiprocessor in the blend, about
constexpr int shortest_split = 64; // lists of two batches
// Lists from sorted_by_block<part_block> on are cut into parts, of about half of what a block sorts, and at
// most one a thread. Where the cuts are is decided by so many samples a part that none comes out twice as
// long: the odds are 3e-9, the tail of a sum of 64 exponential times at twice its mean.
constexpr int part_block = 512, samples_of_part = 64;
__device__ int parts_of(int64_t length) {
    constexpr int longest = sorted_by_block<part_block>;
    return length < longest ? 0 : int(min((length + longest / 2 - 1) / (longest / 2), int64_t(part_block)));
}

struct tile_grid {
    int width, height, tiles_x, tiles_y;
};

// Half-open ranges of tiles.
struct tile_box {
    int x_begin, x_end, y_begin, y_end;
};

__device__ int area_of(const tile_box &box) {
    return box.x_end > box.x_begin && box.y_end > box.y_begin
               ? (box.x_end - box.x_begin) * (box.y_end - box.y_begin)
               : 0;
}

__device__ int clamped_tile(float tile, int tiles) {
    return int(fminf(fmaxf(tile, 0.0f), float(tiles)));
}

// The tiles that the bounding box of the splat's ellipse, a little enlarged, touches; tile t holds the pixel
// centres 16 t + 0.5 .. 16 t + 15.5.
__device__ tile_box box_of(const reach &r, const tile_grid &grid) {
    const float root = sqrtf(r.limit), tilt = r.whiten[1] / r.whiten[2];
    const float half_x = root / r.whiten[0] * sqrtf(1 + tilt * tilt) * 1.001f + 0.01f;
    const float half_y = root / r.whiten[2] * 1.001f + 0.01f;
    constexpr float size = GS_TILE_SIZE;
    return {clamped_tile(ceilf((r.mean[0] - half_x - (size - 0.5f)) / size), grid.tiles_x),
            clamped_tile(floorf((r.mean[0] + half_x - 0.5f) / size) + 1, grid.tiles_x),
            clamped_tile(ceilf((r.mean[1] - half_y - (size - 0.5f)) / size), grid.tiles_y),
            clamped_tile(floorf((r.mean[1] + half_y - 0.5f) / size) + 1, grid.tiles_y)};
}

// The pixel centres inside the image of the tile in this column and row.
__device__ rectangle centres_of(int column, int row, const tile_grid &grid) {
    const int x = column * GS_TILE_SIZE, y = row * GS_TILE_SIZE;
    return {float(x) + 0.5f, float(y) + 0.5f, float(min(x + GS_TILE_SIZE, grid.width)) - 0.5f,
            float(min(y + GS_TILE_SIZE, grid.height)) - 0.5f};
}

// The sum of `value` over the threads of the block before this one, and over all; by the whole block.
template <int Threads, typename T>
__device__ T scan_of_block(T value, T *all) {
    __shared__ T of_warp[32];
    const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
    const auto scan_of_warp = [lane](T x) { // inclusive
        for (int distance = 1; distance < 32; distance *= 2) {
            const T before = __shfl_up_sync(distwar::all_lanes, x, unsigned(distance));
            if (lane >= distance) x += before;
        }
        return x;
    };
    const T inclusive = scan_of_warp(value);
    __syncthreads(); // nobody reads the last call's sums any more
    if (lane == 31) of_warp[warp] = inclusive;
    __syncthreads();
    if (warp == 0) of_warp[lane] = scan_of_warp(lane < Threads / 32 ? of_warp[lane] : 0);
    __syncthreads();
    *all = of_warp[Threads / 32 - 1];
    return inclusive - value + (warp > 0 ? of_warp[warp - 1] : 0);
}

// A splat and its box of tiles.
struct alignas(16) candidate {
    reach far;
    int x_begin, y_begin, columns;
    float per_column;
};

// Takes a ticket for every tile that a splat reaches, for all splats, of which a block has `per_block`; a
// ticket is used one turn after it was asked for, when it has come. The tiles of all their boxes, in a row,
// are shared out evenly. One body for counting and for writing.
template <typename Tickets>
__device__ void for_tiles_of_splats(const gs_splat *splats, int64_t count, int per_block,
                                    const tile_grid &grid, const Tickets &tickets) {
    __shared__ candidate candidates[bin_block];
    __shared__ int first[bin_block + 1]; // tile of each box in the row
    const int thread = int(threadIdx.x);
    const int64_t first_splat = int64_t(blockIdx.x) * per_block;
    int area = 0;
    if (thread < per_block && first_splat + thread < count && splats[first_splat + thread].depth > 0) {
        const reach far = reach_of(splats[first_splat + thread]);
        const tile_box box = box_of(far, grid);
        const int columns = box.x_end - box.x_begin;
        area = area_of(box);
        candidates[thread] = {far, box.x_begin, box.y_begin, columns, 1 / float(columns)};
    }
    int all;
    first[thread] = scan_of_block<bin_block>(area, &all);
    if (thread == 0) first[bin_block] = all;
    __syncthreads();

    // Neighbouring lanes have neighbouring tiles.
    const int share = (all + bin_block - 1) / bin_block * 32, warp = thread / 32;
    const int begin = warp * share + thread % 32, end = min((warp + 1) * share, all);
    int low = 0, high = bin_block; // the box of tile `begin` is among low .. high - 1
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (first[middle] <= begin ? low : high) = middle;
    }
    typename Tickets::ticket last = {};
    for (int k = begin; k < end; k += 32) {
        while (k >= first[low + 1]) low++;
        const candidate c = candidates[low];
        // Its row is exact: there are at most 1024, and the half keeps off the whole numbers.
        const int of_box = k - first[low], row = int((float(of_box) + 0.5f) * c.per_column);
        const int x = c.x_begin + of_box - row * c.columns, y = c.y_begin + row;
        typename Tickets::ticket next = {};
        if (reaches(c.far, centres_of(x, y, grid)))
            next = tickets.take(y * grid.tiles_x + x, uint32_t(first_splat + low));
        tickets.use(last);
        last = next;
    }
    tickets.use(last);
}

// A tile's counters, next to each other. Additions to one address, or to few lines of addresses, wait for one
// another: so where few tiles have many splats, they have several counters, each for some of the blocks.
struct tile_counters {
    uint32_t *first; // [tiles << log2_copies]
    int log2_copies;
    __device__ uint32_t *own(int tile) const {
        return first + (tile << log2_copies) + (blockIdx.x & ((1u << log2_copies) - 1));
    }
};

struct counting {
    tile_counters length; // count up
    struct ticket {};
    __device__ ticket take(int tile, uint32_t) const {
        atomicAdd(length.own(tile), 1u);
        return {};
    }
    __device__ void use(const ticket &) const {}
};

struct writing {
    tile_counters end;         // in the tile's list, of each counter's splats; count down to their beginning
    const int64_t *tile_begin; // [tiles + 1]
    uint32_t *list;
    struct ticket {
        int64_t begin;
        uint32_t left, splat; // left: 0 is no ticket
    };
    __device__ ticket take(int tile, uint32_t splat) const {
        return {tile_begin[tile], atomicSub(end.own(tile), 1u), splat};
    }
    __device__ void use(const ticket &t) const {
        if (t.left > 0) list[t.begin + t.left - 1] = t.splat;
    }
};

__global__ void __launch_bounds__(bin_block)
    count_kernel(const gs_splat *splats, int64_t count, int per_block, tile_grid grid, counting tickets,
                 uint32_t *depth) {
    const int64_t own = int64_t(blockIdx.x) * per_block + threadIdx.x;
    if (int(threadIdx.x) < per_block && own < count) depth[own] = __float_as_uint(splats[own].depth);
    for_tiles_of_splats(splats, count, per_block, grid, tickets);
}

// Classes of lists by length, an eighth of an octave each; longer ones first. Class 0 has lists of nearly
// 2^32, the last one the empty ones.
constexpr int classes = 33 * 8;
__device__ int class_of(int64_t length) {
    if (length < 1) return classes - 1;
    return (127 + 33) * 8 - 2 - int(__float_as_uint(float(length)) >> 20);
}

// What the host reads.
struct bin_summary {
    int64_t pairs, longest; // longest: of the lists
    int64_t split;          // gs_lists.split_tiles
    // The first so many of tile_order have lists that are cut into parts; those up to by_part_block are
    // sorted by a block of part_block threads, those up to by_block by one of sort_block.
    int64_t in_parts, by_part_block, by_block;
    int64_t parts;                // of all lists
    unsigned long long described; // parts whose place is known, counts up later
};

// Entries of the lists.
struct part {
    int64_t begin;
    int length;
};

// One block: where each tile's list begins, and in it the splats of each counter end (of several, that is:
// one alone keeps the length, which is the same), where in the order of tiles each class begins, and the
// summary.
// Lists are worth splitting if they are longer than the average share of the `shares` in which the GPU works.
__global__ void __launch_bounds__(scan_block)
    tile_begin_kernel(const tile_counters length, int tiles, int shares, int64_t *tile_begin,
                      uint32_t *class_begin, bin_summary *summary) {
    static_assert(classes <= scan_block, "a thread a class");
    __shared__ int in_class[classes];
    __shared__ unsigned longest, parts;
    const int thread = int(threadIdx.x);
    if (thread < classes) in_class[thread] = 0;
    if (thread == 0) longest = parts = 0;
    __syncthreads();

    // Each thread has a run of neighbouring tiles, and reads some of their counters at once.
    constexpr int at_once = 8;
    const int run = (tiles + scan_block - 1) / scan_block, copies = 1 << length.log2_copies;
    const int first = min(thread * run, tiles) * copies, last = min(first + run * copies, tiles * copies);
    const auto for_run = [=](const auto &body, bool sets_ends) {
        uint32_t n = 0;
        for (int c = first; c < last; c += at_once) {
            uint32_t some[at_once];
            DISTWAR_UNROLL
            for (int k = 0; k < at_once; k++) some[k] = c + k < last ? length.first[c + k] : 0;
            DISTWAR_UNROLL
            for (int k = 0; k < at_once; k++) {
                if (c + k >= last) continue;
                n += some[k];
                if (sets_ends && copies > 1) length.first[c + k] = n;
                if (((c + k + 1) & (copies - 1)) != 0) continue; // not the tile's last counter
                body((c + k) >> length.log2_copies, n);
                n = 0;
            }
        }
    };
    int64_t own = 0, pairs;
    unsigned own_longest = 0, own_parts = 0;
    for_run(
        [&](int, uint32_t n) {
            own += n;
            own_longest = max(own_longest, n);
            own_parts += unsigned(parts_of(n));
            atomicAdd(&in_class[class_of(n)], 1);
        },
        false);
    atomicMax(&longest, own_longest);
    if (own_parts > 0) atomicAdd(&parts, own_parts);
    int64_t begin = scan_of_block<scan_block>(own, &pairs);
    for_run(
        [&](int t, uint32_t n) {
            tile_begin[t] = begin;
            begin += n;
        },
        true);
    if (thread == 0) tile_begin[tiles] = pairs;

    int all;
    const int before = scan_of_block<scan_block>(thread < classes ? in_class[thread] : 0, &all);
    if (thread < classes) class_begin[thread] = uint32_t(before);
    if (thread == class_of(max(pairs / shares, int64_t(shortest_split))))
        summary->pairs = pairs, summary->longest = longest, summary->split = before;
    // The class of each of these lengths begins with it.
    if (thread == class_of(sorted_by_block<part_block>) + 1) summary->in_parts = before;
    if (thread == class_of(sorted_by_block<sort_block>) + 1) summary->by_part_block = before;
    if (thread == class_of(sorted_by_warp) + 1) summary->by_block = before;
    if (thread == 0) summary->parts = parts, summary->described = 0;
}

// Writes the lists, unsorted, and the order of tiles. class_begin counts up.
__global__ void __launch_bounds__(bin_block)
    write_kernel(const gs_splat *splats, int64_t count, int per_block, tile_grid grid, writing tickets,
                 uint32_t *class_begin, uint32_t *tile_order) {
    const int tiles = grid.tiles_x * grid.tiles_y, t = int(blockIdx.x) * bin_block + int(threadIdx.x);
    if (t < tiles) {
        const int64_t size = tickets.tile_begin[t + 1] - tickets.tile_begin[t];
        tile_order[atomicAdd(&class_begin[class_of(size)], 1u)] = uint32_t(t);
    }
    for_tiles_of_splats(splats, count, per_block, grid, tickets);
}

// Cuts the list whose turn it is into parts of neighbouring keys, which are written to `other`, each in any
// order, and described in `parts`; a block a list.
__global__ void __launch_bounds__(part_block)
    cut_kernel(const uint32_t *depth, const uint32_t *tile_order, const int64_t *tile_begin,
               const uint32_t *list, uint32_t *other, bin_summary *summary, part *parts) {
    __shared__ uint64_t keys[sorted_by_block<part_block>];
    __shared__ int place[part_block]; // in each part, the next
    __shared__ unsigned long long described;
    const int thread = int(threadIdx.x), lane = thread % 32;
    const uint32_t tile = tile_order[blockIdx.x];
    const int64_t begin = tile_begin[tile];
    const int n = int(tile_begin[tile + 1] - begin), count = parts_of(n);
    list += begin, other += begin;

    const int samples = min(samples_of_part * count, sorted_by_block<part_block>);
    sort_in_block<part_block>(
        depth, samples, [=](int i) { return list[int64_t(i) * n / samples]; }, keys);
    const uint64_t cut = thread < count ? keys[int64_t(thread) * samples / count] : 0;
    if (thread == 0) described = atomicAdd(&summary->described, (unsigned long long)count);
    place[thread] = 0;
    __syncthreads();
    keys[thread] = cut; // of part `thread`, but the first, the least key
    __syncthreads();

    constexpr int at_once = 8, turn = part_block * at_once;
    uint32_t index[at_once];
    int of_part[at_once]; // -1: beyond the list
    const auto read = [&](int64_t first) {
        uint64_t key[at_once];
        DISTWAR_UNROLL
        for (int e = 0; e < at_once; e++) {
            const int64_t i = first + e * part_block + thread;
            index[e] = i < n ? list[i] : 0;
            of_part[e] = i < n ? 0 : -1;
        }
        DISTWAR_UNROLL
        for (int e = 0; e < at_once; e++) key[e] = of_part[e] == 0 ? key_of(depth, index[e]) : 0;
        DISTWAR_UNROLL
        for (int e = 0; e < at_once; e++) {
            if (of_part[e] < 0) continue;
            int low = 0, high = count;
            while (high - low > 1) {
                const int middle = (low + high) / 2;
                (keys[middle] <= key[e] ? low : high) = middle;
            }
            of_part[e] = low;
        }
    };
    // The next place in each entry's part; the warp's entries of one part take theirs together.
    const auto take = [&](int e) {
        const unsigned peers = distwar::lanes_with_key(distwar::all_lanes, of_part[e]);
        const unsigned leader = distwar::lowest_lane(peers);
        int first = 0;
        if (lane == int(leader) && of_part[e] >= 0)
            first = atomicAdd(&place[of_part[e]], distwar::count_lanes(peers));
        return __shfl_sync(distwar::all_lanes, first, int(leader)) +
               distwar::count_lanes(peers & ((1u << lane) - 1));
    };
    for (int64_t first = 0; first < n; first += turn) {
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
    for (int64_t first = 0; first < n; first += turn) {
        read(first);
        DISTWAR_UNROLL
        for (int e = 0; e < at_once; e++) {
            const int at = take(e);
            if (of_part[e] >= 0) other[at] = index[e];
        }
    }
}

// Registers for three blocks on a multiprocessor, before compute capability 8.0 for the two that it has
// threads for.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int part_blocks = 2;
#else
constexpr int part_blocks = 3;
#endif

// Sorts the parts of lists, a block each, and then the lists that are up to by_part_block in the order.
__global__ void __launch_bounds__(part_block, part_blocks)
    sort_parts_kernel(const uint32_t *depth, const uint32_t *tile_order, const int64_t *tile_begin,
                      const part *parts, int part_count, int in_parts, uint32_t *list, uint32_t *other) {
    __shared__ uint64_t keys[sorted_by_block<part_block>];
    const int block = int(blockIdx.x);
    if (block < part_count) {
        const part mine = parts[block];
        sort_entries<part_block>(depth, other + mine.begin, mine.length, list + mine.begin,
                                 other + mine.begin, keys);
        return;
    }
    const uint32_t tile = tile_order[in_parts + block - part_count];
    const int64_t begin = tile_begin[tile];
    sort_entries<part_block>(depth, list + begin, int(tile_begin[tile + 1] - begin), list + begin,
                             other + begin, keys);
}

// Sorts the other lists: in the first `by_block` blocks one, in the others one for each warp. `tile_order`
// begins with the first of them, `tiles` of them are left.
__global__ void __launch_bounds__(sort_block)
    sort_kernel(const uint32_t *depth, const uint32_t *tile_order, const int64_t *tile_begin, int tiles,
                int by_block, uint32_t *list) {
    constexpr int E = sorted_by_warp / 32;
    __shared__ uint64_t keys[sorted_by_block<sort_block>];
    const int block = int(blockIdx.x), thread = int(threadIdx.x), warp = thread / 32;
    const bool alone = block >= by_block;
    const int turn = alone ? by_block + (block - by_block) * (sort_block / 32) + warp : block;
    if (turn >= tiles) return;
    const int64_t begin = tile_begin[tile_order[turn]];
    const int n = int(tile_begin[tile_order[turn] + 1] - begin);
    list += begin;
    if (alone) {
        const auto put = [=](int k, uint64_t key) { list[k] = uint32_t(key); };
        if (n > 128)
            sort_short<E>(depth, list, n, put);
        else if (n > 64)
            sort_short<4>(depth, list, n, put);
        else if (n > 32)
            sort_short<2>(depth, list, n, put);
        else if (n > 1)
            sort_short<1>(depth, list, n, put);
        return;
    }
    sort_in_block<sort_block>(
        depth, n, [=](int i) { return list[i]; }, keys);
    for (int i = thread; i < n; i += sort_block) list[i] = uint32_t(keys[i]);
}

tile_grid grid_of(int width, int height) {
    return {width, height, (width + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
            (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE};
}

// Where everything lies in the workspace.
struct bin_layout {
    size_t depth, length, class_begin, summary, tile_begin, tile_order, list, other, parts, total;
};

// Of the backward blend. More pixels a thread share more of the work, if there are tiles enough; but where
// the longest list outlasts the average one, it is waited for, and with fewer pixels a thread it is done
// sooner. By how much of what a multiprocessor has to do in all it outlasts them, decides.
int pixels_of_thread(const bin_summary &summary, int tiles, int multiprocessors) {
    const double work = double(summary.pairs) / multiprocessors;
    const double average = double(summary.pairs) / (tiles > multiprocessors ? tiles : multiprocessors);
    const double outlasts = double(summary.longest) - average;
    if (outlasts > 0.75 * work) return 1;
    return outlasts > 0.2 * work || tiles < 3 * multiprocessors ? 2 : 4;
}

// Of counters: so many that each has few splats to count, as long as one block can go through them quickly.
int log2_copies(int64_t count, int tiles) {
    constexpr int most = 5, counters = 8192, splats = 256;
    int k = 0;
    while (k < most && tiles << (k + 1) <= counters && count > (int64_t(tiles) << k) * splats) k++;
    return k;
}

// Of splats: as many as leave enough blocks to keep the GPU busy.
int splats_of_block(int64_t count, int multiprocessors) {
    int per_block = bin_block;
    while (per_block > 1 && count < int64_t(multiprocessors) * blocks_wanted * per_block) per_block /= 2;
    return per_block;
}

constexpr int64_t max_pairs = int64_t(1) << 40;

gs_status check(const char *function, const gs_view *view) {
    GS_TRY(check_extent(function, view));
    GS_REQUIRE_OF(function, view->pair_capacity >= 0 && view->pair_capacity <= max_pairs,
                  "pair_capacity must be in 0..2^40");
    return GS_OK;
}

bin_layout layout_of(const tile_grid &grid, int64_t count, int64_t pair_capacity) {
    size_t end = 0;
    const auto place = [&end](size_t bytes) {
        const size_t at = end;
        end += (bytes + 255) / 256 * 256;
        return at;
    };
    const size_t tiles = size_t(grid.tiles_x) * grid.tiles_y;
    bin_layout out;
    out.depth = place(size_t(count) * sizeof(uint32_t));
    out.length = place((tiles << log2_copies(count, int(tiles))) * sizeof(uint32_t));
    out.class_begin = place(classes * sizeof(uint32_t));
    out.summary = place(sizeof(bin_summary));
    out.tile_begin = place((tiles + 1) * sizeof(int64_t));
    out.tile_order = place(tiles * sizeof(uint32_t));
    out.list = place(size_t(pair_capacity) * sizeof(uint32_t));
    out.other = place(size_t(pair_capacity) * sizeof(uint32_t));
    // The shortest list that has three parts has the most for its length.
    out.parts = place(size_t(pair_capacity) * 3 / sorted_by_block<part_block> * sizeof(part));
    out.total = end;
    return out;
}

} // namespace

gs_status gs_bin_bytes(const gs_view *view, size_t *bytes) {
    GS_TRY(check(__func__, view));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = layout_of(grid_of(view->camera.width, view->camera.height), view->gaussians.count,
                       view->pair_capacity)
                 .total;
    return GS_OK;
}

gs_status gs_bin(gs_view *view, gs_stream stream) {
    GS_TRY(check(__func__, view));
    const gs_splat *splats = view->splats;
    const int64_t count = view->gaussians.count, pair_capacity = view->pair_capacity;
    GS_REQUIRE(count == 0 || splats, "splats must be given");
    const tile_grid grid = grid_of(view->camera.width, view->camera.height);
    const bin_layout layout = layout_of(grid, count, pair_capacity);
    GS_TRY(check_workspace(__func__, view->workspace, view->workspace_bytes, layout.total));
    char *base = static_cast<char *>(view->workspace);
    uint32_t *depth = reinterpret_cast<uint32_t *>(base + layout.depth);
    uint32_t *class_begin = reinterpret_cast<uint32_t *>(base + layout.class_begin);
    bin_summary *device_summary = reinterpret_cast<bin_summary *>(base + layout.summary);
    int64_t *tile_begin = reinterpret_cast<int64_t *>(base + layout.tile_begin);
    uint32_t *tile_order = reinterpret_cast<uint32_t *>(base + layout.tile_order);
    uint32_t *list = reinterpret_cast<uint32_t *>(base + layout.list);
    uint32_t *other = reinterpret_cast<uint32_t *>(base + layout.other);
    part *parts = reinterpret_cast<part *>(base + layout.parts);

    int device = 0, multiprocessors = 0;
    GS_CUDA(cudaGetDevice(&device));
    GS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    const int tiles = grid.tiles_x * grid.tiles_y, shares = multiprocessors * tiles_at_once;
    const int per_block = splats_of_block(count, multiprocessors);
    const unsigned splat_blocks = blocks_for(count, per_block);
    const tile_counters counters = {reinterpret_cast<uint32_t *>(base + layout.length),
                                    log2_copies(count, tiles)};
    GS_CUDA(cudaMemsetAsync(counters.first, 0, (size_t(tiles) << counters.log2_copies) * sizeof(uint32_t),
                            stream));
    GS_CUDA(launch(stream, splat_blocks, bin_block, count_kernel, splats, count, per_block, grid,
                   counting{counters}, depth));
    GS_CUDA(launch(stream, 1, scan_block, tile_begin_kernel, counters, tiles, shares, tile_begin, class_begin,
                   device_summary));
    bin_summary summary = {};
    GS_CUDA(cudaMemcpyAsync(&summary, device_summary, sizeof summary, cudaMemcpyDeviceToHost, stream));
    GS_CUDA(cudaStreamSynchronize(stream));
    view->pairs_needed = summary.pairs;
    if (summary.pairs > pair_capacity)
        return libgs_fail(GS_PAIRS_DO_NOT_FIT, "gs_bin: %lld pairs, room for %lld",
                          static_cast<long long>(summary.pairs), static_cast<long long>(pair_capacity));

    const unsigned tile_blocks = blocks_for(tiles, bin_block);
    GS_CUDA(launch(stream, splat_blocks > tile_blocks ? splat_blocks : tile_blocks, bin_block, write_kernel,
                   splats, count, per_block, grid, writing{counters, tile_begin, list}, class_begin,
                   tile_order));
    GS_CUDA(launch(stream, unsigned(summary.in_parts), part_block, cut_kernel, depth, tile_order, tile_begin,
                   list, other, device_summary, parts));
    GS_CUDA(launch(stream, unsigned(summary.parts + summary.by_part_block - summary.in_parts), part_block,
                   sort_parts_kernel, depth, tile_order, tile_begin, parts, int(summary.parts),
                   int(summary.in_parts), list, other));
    const int rest = tiles - int(summary.by_part_block),
              by_block = int(summary.by_block) - int(summary.by_part_block);
    GS_CUDA(launch(stream, unsigned(by_block) + blocks_for(rest - by_block, sort_block / 32), sort_block,
                   sort_kernel, depth, tile_order + summary.by_part_block, tile_begin, rest, by_block, list));
    view->lists = {grid.tiles_x,
                   grid.tiles_y,
                   summary.pairs,
                   tile_begin,
                   list,
                   pixels_of_thread(summary, tiles, multiprocessors),
                   int32_t(summary.split),
                   tile_order};
    return GS_OK;
}
