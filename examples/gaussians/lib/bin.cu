// SPDX-License-Identifier: MIT
// Splats into tiles: count every tile's splats, scan, write each splat into the lists of its tiles in any
// order, sort each list by (depth, index).
#include "gs.h"
#include "launch.cuh"
#include "reach.cuh"
#include "status.h"
#include <distwar/lanes.cuh>
#include <math.h>

namespace {

constexpr int bin_block = 256, scan_block = 1024, sort_block = 256;
constexpr unsigned full_warp = 0xffffffffu;
constexpr int blocks_wanted = 16;   // a multiprocessor, to count and write
constexpr int tiles_at_once = 16;   // of a multiprocessor in the blend, about
constexpr int shortest_split = 64;  // lists of two batches
constexpr int sorted_by_warp = 256; // the longest list, or part of one, that a warp sorts

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

// The tile's pixel centres inside the image.
__device__ rectangle centres_of(int tile, const tile_grid &grid) {
    const int x = tile % grid.tiles_x * GS_TILE_SIZE, y = tile / grid.tiles_x * GS_TILE_SIZE;
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
            const T before = __shfl_up_sync(full_warp, x, unsigned(distance));
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
        const int tile = (c.y_begin + row) * grid.tiles_x + c.x_begin + of_box - row * c.columns;
        typename Tickets::ticket next = {};
        if (reaches(c.far, centres_of(tile, grid))) next = tickets.take(tile, uint32_t(first_splat + low));
        tickets.use(last);
        last = next;
    }
    tickets.use(last);
}

struct counting {
    uint32_t *length; // [tiles], counts up
    struct ticket {};
    __device__ ticket take(int tile, uint32_t) const {
        atomicAdd(&length[tile], 1u);
        return {};
    }
    __device__ void use(const ticket &) const {}
};

struct writing {
    uint32_t *length;          // [tiles], counts down to 0: writes are bounded by the count
    const int64_t *tile_begin; // [tiles + 1]
    uint32_t *list;
    struct ticket {
        int64_t begin;
        uint32_t left, splat; // left: 0 is no ticket
    };
    __device__ ticket take(int tile, uint32_t splat) const {
        return {tile_begin[tile], atomicSub(&length[tile], 1u), splat};
    }
    __device__ void use(const ticket &t) const {
        if (t.left > 0) list[t.begin + t.left - 1] = t.splat;
    }
};

__global__ void __launch_bounds__(bin_block)
    count_kernel(const gs_splat *splats, int64_t count, int per_block, tile_grid grid, counting tickets) {
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
    int64_t by_block;       // the first so many of tile_order have lists that a block sorts
};

// One block: where each tile's list begins, where in the order of tiles each class begins, and the summary.
// Lists are worth splitting if they are longer than the average share of the `shares` in which the GPU works.
__global__ void __launch_bounds__(scan_block)
    tile_begin_kernel(const uint32_t *length, int tiles, int shares, int64_t *tile_begin,
                      uint32_t *class_begin, bin_summary *summary) {
    static_assert(classes <= scan_block, "a thread a class");
    __shared__ int in_class[classes];
    __shared__ unsigned longest;
    const int thread = int(threadIdx.x);
    if (thread < classes) in_class[thread] = 0;
    if (thread == 0) longest = 0;
    __syncthreads();

    // Each thread has a run of neighbouring tiles, and reads some of them at once.
    constexpr int at_once = 8;
    const int run = (tiles + scan_block - 1) / scan_block;
    const int first = min(thread * run, tiles), last = min(first + run, tiles);
    const auto for_run = [=](const auto &body) {
        for (int t = first; t < last; t += at_once) {
            uint32_t some[at_once];
            DISTWAR_UNROLL
            for (int k = 0; k < at_once; k++) some[k] = t + k < last ? length[t + k] : 0;
            DISTWAR_UNROLL
            for (int k = 0; k < at_once; k++)
                if (t + k < last) body(t + k, some[k]);
        }
    };
    int64_t own = 0, pairs;
    unsigned own_longest = 0;
    for_run([&](int, uint32_t n) {
        own += n;
        own_longest = max(own_longest, n);
        atomicAdd(&in_class[class_of(n)], 1);
    });
    atomicMax(&longest, own_longest);
    int64_t begin = scan_of_block<scan_block>(own, &pairs);
    for_run([&](int t, uint32_t n) {
        tile_begin[t] = begin;
        begin += n;
    });
    if (thread == 0) tile_begin[tiles] = pairs;

    int all;
    const int before = scan_of_block<scan_block>(thread < classes ? in_class[thread] : 0, &all);
    if (thread < classes) class_begin[thread] = uint32_t(before);
    if (thread == class_of(max(pairs / shares, int64_t(shortest_split))))
        summary->pairs = pairs, summary->longest = longest, summary->split = before;
    if (thread == class_of(sorted_by_warp) + 1) summary->by_block = before;
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

// Positive floats order as their bits do.
__device__ uint64_t key_of(const gs_splat *splats, uint32_t index) {
    return uint64_t(__float_as_uint(splats[index].depth)) << 32 | index;
}

// Sorts 32 E keys by a bitonic network in registers; key k of the order is key[k % E] of lane k / E, before
// in any order. By the whole warp.
template <int E>
__device__ void sort_warp(uint64_t (&key)[E]) {
    const int lane = int(threadIdx.x % 32);
    DISTWAR_UNROLL
    for (int run = 2; run <= 32 * E; run *= 2) { // of keys, rising and falling in turn
        const bool lane_rises = (lane * E & run) == 0;
        DISTWAR_UNROLL
        for (int distance = run / 2; distance > 0; distance /= 2) {
            if (distance >= E) {
                const bool takes_less = ((lane & distance / E) == 0) == lane_rises;
                DISTWAR_UNROLL
                for (int e = 0; e < E; e++) {
                    const uint64_t other = __shfl_xor_sync(full_warp, key[e], distance / E);
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

// Sorts a list of at most 32 E splats; put(k, key) is called with the k-th. By the whole warp.
template <int E, typename Put>
__device__ void sort_short(const gs_splat *splats, const uint32_t *list, int n, const Put &put) {
    const int lane = int(threadIdx.x % 32);
    uint64_t key[E];
    DISTWAR_UNROLL
    for (int e = 0; e < E; e++)
        key[e] = 32 * e + lane < n ? key_of(splats, list[32 * e + lane]) : ~uint64_t{0};
    __syncwarp(); // all is read
    sort_warp(key);
    DISTWAR_UNROLL
    for (int e = 0; e < E; e++)
        if (lane * E + e < n) put(lane * E + e, key[e]);
}

// Merges sorted runs among n entries two by two; by the whole block, of which each thread makes an equal
// share of the result. key(i) is that of entry i; put(at, i) is called for entry i's new place.
template <typename Key, typename Put>
__device__ void merge_runs(int n, int run, const Key &key, const Put &put) {
    const int share = (n + sort_block - 1) / sort_block;
    int at = min(int(threadIdx.x) * share, n);
    const int end = min(at + share, n);
    while (at < end) {
        const int first = at - at % (2 * run), second = min(first + run, n), last = min(second + run, n);
        // How many of the results before `at` come from the first run.
        const int before = at - first;
        int low = max(0, before - (last - second)), high = min(before, second - first);
        while (low < high) {
            const int middle = (low + high) / 2;
            if (key(first + middle) < key(second + before - middle - 1))
                low = middle + 1;
            else
                high = middle;
        }
        int a = first + low, b = second + before - low;
        for (const int stop = min(end, last); at < stop; at++) {
            const bool take_a = a < second && (b >= last || key(a) < key(b));
            put(at, take_a ? a++ : b++);
        }
    }
    __syncthreads();
}

// Sorts lists by (depth, index): in the first by_block blocks one list, in the others one for each warp.
// `other`: room for as many entries as there are in `list`.
__global__ void __launch_bounds__(sort_block)
    sort_kernel(const gs_splat *splats, const uint32_t *tile_order, const int64_t *tile_begin, int tiles,
                int by_block, uint32_t *list, uint32_t *other) {
    constexpr int E = sorted_by_warp / 32, capacity = sorted_by_warp * sort_block / 32;
    __shared__ uint64_t keys[2][capacity];
    const int block = int(blockIdx.x), thread = int(threadIdx.x), warp = thread / 32;
    const bool alone = block >= by_block;
    const int turn = alone ? by_block + (block - by_block) * (sort_block / 32) + warp : block;
    if (turn >= tiles) return;
    const int64_t begin = tile_begin[tile_order[turn]];
    const int n = int(tile_begin[tile_order[turn] + 1] - begin);
    list += begin, other += begin;
    if (alone) {
        const auto put = [=](int k, uint64_t key) { list[k] = uint32_t(key); };
        if (n > 128)
            sort_short<E>(splats, list, n, put);
        else if (n > 64)
            sort_short<4>(splats, list, n, put);
        else if (n > 32)
            sort_short<2>(splats, list, n, put);
        else if (n > 1)
            sort_short<1>(splats, list, n, put);
        return;
    }
    int merges = 0; // in global memory
    for (int64_t run = capacity; run < n; run *= 2) merges++;
    uint32_t *from = list, *to = merges % 2 == 0 ? list : other; // so that the last merge ends in `list`
    for (int first = 0; first < n; first += capacity) {
        const int size = min(capacity, n - first), own = warp * sorted_by_warp;
        if (own < size)
            sort_short<E>(splats, from + first + own, size - own,
                          [&](int k, uint64_t key) { keys[0][own + k] = key; });
        __syncthreads();
        int here = 0;
        for (int run = sorted_by_warp; run < size; run *= 2, here ^= 1)
            merge_runs(
                size, run, [&](int i) { return keys[here][i]; },
                [&](int at, int i) { keys[here ^ 1][at] = keys[here][i]; });
        for (int i = thread; i < size; i += sort_block) to[first + i] = uint32_t(keys[here][i]);
        __syncthreads();
    }
    for (int64_t run = capacity; run < n; run *= 2) {
        from = to, to = from == list ? other : list;
        merge_runs(
            n, int(run), [&](int i) { return key_of(splats, from[i]); },
            [&](int at, int i) { to[at] = from[i]; });
    }
}

tile_grid grid_of(int width, int height) {
    return {width, height, (width + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
            (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE};
}

// Where everything lies in the workspace.
struct bin_layout {
    size_t length, class_begin, summary, tile_begin, tile_order, list, other, total;
};

// Of the backward blend. More pixels a thread share more of the work; but where one list is much longer than
// the average share, it decides, and with fewer pixels a thread it is done sooner.
int pixels_of_thread(const bin_summary &summary, int shares) {
    return summary.longest > 4 * (summary.pairs / shares + 1) ? 2 : 4;
}

// Of splats: as many as leave enough blocks to keep the GPU busy.
int splats_of_block(int64_t count, int multiprocessors) {
    int per_block = bin_block;
    while (per_block > 1 && count < int64_t(multiprocessors) * blocks_wanted * per_block) per_block /= 2;
    return per_block;
}

constexpr int64_t max_pairs = int64_t(1) << 40;

gs_status check(const char *function, int64_t count, int width, int height, int64_t pair_capacity) {
    GS_REQUIRE_OF(function, count >= 0 && count < INT32_MAX, "count must be in 0..2^31 - 2");
    GS_REQUIRE_OF(function, width >= 1 && width <= GS_MAX_SIZE && height >= 1 && height <= GS_MAX_SIZE,
                  "width and height must be in 1..16384");
    GS_REQUIRE_OF(function, pair_capacity >= 0 && pair_capacity <= max_pairs,
                  "pair_capacity must be in 0..2^40");
    return GS_OK;
}

bin_layout layout_of(const tile_grid &grid, int64_t pair_capacity) {
    size_t end = 0;
    const auto place = [&end](size_t bytes) {
        const size_t at = end;
        end += (bytes + 255) / 256 * 256;
        return at;
    };
    const size_t tiles = size_t(grid.tiles_x) * grid.tiles_y;
    bin_layout out;
    out.length = place(tiles * sizeof(uint32_t));
    out.class_begin = place(classes * sizeof(uint32_t));
    out.summary = place(sizeof(bin_summary));
    out.tile_begin = place((tiles + 1) * sizeof(int64_t));
    out.tile_order = place(tiles * sizeof(uint32_t));
    out.list = place(size_t(pair_capacity) * sizeof(uint32_t));
    out.other = place(size_t(pair_capacity) * sizeof(uint32_t));
    out.total = end;
    return out;
}

} // namespace

gs_status gs_bin_workspace(int64_t count, int32_t width, int32_t height, int64_t pair_capacity,
                           size_t *bytes) {
    const gs_status status = check(__func__, count, width, height, pair_capacity);
    if (status != GS_OK) return status;
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = layout_of(grid_of(width, height), pair_capacity).total;
    return GS_OK;
}

gs_status gs_bin(const gs_splat *splats, int64_t count, int32_t width, int32_t height, int64_t pair_capacity,
                 void *workspace, size_t workspace_bytes, gs_lists *lists, int64_t *pairs_needed,
                 gs_stream stream) {
    const gs_status status = check(__func__, count, width, height, pair_capacity);
    if (status != GS_OK) return status;
    GS_REQUIRE((count == 0 || splats) && workspace && lists && pairs_needed,
               "splats, workspace, lists and pairs_needed must be given");
    const tile_grid grid = grid_of(width, height);
    const bin_layout layout = layout_of(grid, pair_capacity);
    GS_REQUIRE(workspace_bytes >= layout.total, "the workspace is smaller than gs_bin_workspace asks for");
    char *base = static_cast<char *>(workspace);
    uint32_t *length = reinterpret_cast<uint32_t *>(base + layout.length);
    uint32_t *class_begin = reinterpret_cast<uint32_t *>(base + layout.class_begin);
    bin_summary *device_summary = reinterpret_cast<bin_summary *>(base + layout.summary);
    int64_t *tile_begin = reinterpret_cast<int64_t *>(base + layout.tile_begin);
    uint32_t *tile_order = reinterpret_cast<uint32_t *>(base + layout.tile_order);
    uint32_t *list = reinterpret_cast<uint32_t *>(base + layout.list);
    uint32_t *other = reinterpret_cast<uint32_t *>(base + layout.other);

    int device = 0, multiprocessors = 0;
    GS_CUDA(cudaGetDevice(&device));
    GS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    const int tiles = grid.tiles_x * grid.tiles_y, shares = multiprocessors * tiles_at_once;
    const int per_block = splats_of_block(count, multiprocessors);
    const unsigned splat_blocks = blocks_for(count, per_block);
    GS_CUDA(cudaMemsetAsync(length, 0, size_t(tiles) * sizeof *length, stream));
    GS_CUDA(launch(stream, splat_blocks, bin_block, count_kernel, splats, count, per_block, grid,
                   counting{length}));
    GS_CUDA(launch(stream, 1, scan_block, tile_begin_kernel, length, tiles, shares, tile_begin, class_begin,
                   device_summary));
    bin_summary summary = {};
    GS_CUDA(cudaMemcpyAsync(&summary, device_summary, sizeof summary, cudaMemcpyDeviceToHost, stream));
    GS_CUDA(cudaStreamSynchronize(stream));
    *pairs_needed = summary.pairs;
    if (summary.pairs > pair_capacity)
        return libgs_fail(GS_PAIRS_DO_NOT_FIT, "gs_bin: %lld pairs, room for %lld",
                          static_cast<long long>(summary.pairs), static_cast<long long>(pair_capacity));

    const unsigned tile_blocks = blocks_for(tiles, bin_block);
    GS_CUDA(launch(stream, splat_blocks > tile_blocks ? splat_blocks : tile_blocks, bin_block, write_kernel,
                   splats, count, per_block, grid, writing{length, tile_begin, list}, class_begin,
                   tile_order));
    const unsigned sort_blocks =
        unsigned(summary.by_block) + blocks_for(tiles - summary.by_block, sort_block / 32);
    GS_CUDA(launch(stream, sort_blocks, sort_block, sort_kernel, splats, tile_order, tile_begin, tiles,
                   int(summary.by_block), list, other));
    *lists = {grid.tiles_x,
              grid.tiles_y,
              summary.pairs,
              tile_begin,
              list,
              pixels_of_thread(summary, shares),
              int32_t(summary.split),
              tile_order};
    return GS_OK;
}
