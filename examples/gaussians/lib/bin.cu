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
constexpr int tiles_at_once = 16;   // of a multiprocessor in the blend, about
constexpr int shortest_split = 64;  // lists of two batches
constexpr int sort_capacity = 2048; // entries that a block sorts in shared memory

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

// Calls body(tile) for those tiles of the box that the splat reaches, of which this thread takes every
// `stride`th from `first` on.
template <typename Body>
__device__ void for_tiles(const reach &far, const tile_box &box, int first, int stride, const tile_grid &grid,
                          const Body &body) {
    const int columns = box.x_end - box.x_begin, area = area_of(box);
    const float per_column = 1 / float(columns);
    for (int k = first; k < area; k += stride) {
        // k / columns: exact, as rows are at most 1024 and the half keeps off the whole numbers.
        const int row = int((float(k) + 0.5f) * per_column);
        const int tile = (box.y_begin + row) * grid.tiles_x + box.x_begin + k - row * columns;
        if (reaches(far, centres_of(tile, grid))) body(tile);
    }
}

// Calls body(tile, splat) once for every tile that a splat reaches, for all splats. A group of `group`
// threads (a power of two, at most a block) has a splat; one with many tiles is left to the whole block. One
// body for counting and for writing.
template <typename Body>
__device__ void for_tiles_of_splats(const gs_splat *splats, int64_t count, int group, const tile_grid &grid,
                                    const Body &body) {
    constexpr int most_turns = 16; // of a group
    __shared__ uint32_t large[bin_block];
    __shared__ int large_count;
    const int thread = int(threadIdx.x), within = thread & (group - 1);
    const int64_t i = (int64_t(blockIdx.x) * bin_block + thread) / group;
    if (thread == 0) large_count = 0;
    __syncthreads();
    if (i < count && splats[i].depth > 0) {
        const reach far = reach_of(splats[i]);
        const tile_box box = box_of(far, grid);
        if (area_of(box) <= most_turns * group)
            for_tiles(far, box, within, group, grid, [&](int tile) { body(tile, uint32_t(i)); });
        else if (within == 0)
            large[atomicAdd(&large_count, 1)] = uint32_t(i);
    }
    __syncthreads();
    for (int k = 0; k < large_count; k++) {
        const reach far = reach_of(splats[large[k]]);
        for_tiles(far, box_of(far, grid), thread, bin_block, grid, [&](int tile) { body(tile, large[k]); });
    }
}

__global__ void __launch_bounds__(bin_block)
    count_kernel(const gs_splat *splats, int64_t count, int group, tile_grid grid, uint32_t *length) {
    for_tiles_of_splats(splats, count, group, grid,
                        [=](int tile, uint32_t) { atomicAdd(&length[tile], 1u); });
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
};

// The sum of `value` over the threads of the block before this one, and over all.
__device__ int64_t scan_of_block(int64_t value, int64_t *all) {
    __shared__ int64_t of_warp[scan_block / 32];
    const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32);
    const auto scan_of_warp = [lane](int64_t x) { // inclusive
        for (int distance = 1; distance < 32; distance *= 2) {
            const int64_t before = __shfl_up_sync(full_warp, x, unsigned(distance));
            if (lane >= distance) x += before;
        }
        return x;
    };
    const int64_t inclusive = scan_of_warp(value);
    __syncthreads(); // nobody reads the last call's sums any more
    if (lane == 31) of_warp[warp] = inclusive;
    __syncthreads();
    if (warp == 0) of_warp[lane] = scan_of_warp(of_warp[lane]);
    __syncthreads();
    *all = of_warp[scan_block / 32 - 1];
    return inclusive - value + (warp > 0 ? of_warp[warp - 1] : 0);
}

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

    // Each thread has a run of neighbouring tiles.
    const int run = (tiles + scan_block - 1) / scan_block;
    const int first = min(thread * run, tiles), last = min(first + run, tiles);
    int64_t own = 0;
    unsigned own_longest = 0;
    for (int t = first; t < last; t++) {
        own += length[t];
        own_longest = max(own_longest, length[t]);
        atomicAdd(&in_class[class_of(length[t])], 1);
    }
    atomicMax(&longest, own_longest);
    int64_t pairs;
    int64_t begin = scan_of_block(own, &pairs);
    for (int t = first; t < last; t++) {
        tile_begin[t] = begin;
        begin += length[t];
    }
    if (thread == 0) tile_begin[tiles] = pairs;

    int64_t all;
    const int64_t before = scan_of_block(thread < classes ? in_class[thread] : 0, &all);
    if (thread < classes) class_begin[thread] = uint32_t(before);
    if (thread == class_of(max(pairs / shares, int64_t(shortest_split))))
        *summary = {pairs, int64_t(longest), before};
}

// Writes the lists, unsorted, and the order of tiles. length[tile] counts down to 0: writes are bounded by
// the count. class_begin counts up.
__global__ void __launch_bounds__(bin_block)
    write_kernel(const gs_splat *splats, int64_t count, int group, tile_grid grid, const int64_t *tile_begin,
                 uint32_t *length, uint32_t *class_begin, uint32_t *list, uint32_t *tile_order) {
    const int tiles = grid.tiles_x * grid.tiles_y, t = int(blockIdx.x) * bin_block + int(threadIdx.x);
    if (t < tiles)
        tile_order[atomicAdd(&class_begin[class_of(tile_begin[t + 1] - tile_begin[t])], 1u)] = uint32_t(t);
    for_tiles_of_splats(splats, count, group, grid, [=](int tile, uint32_t splat) {
        const uint32_t left = atomicSub(&length[tile], 1u);
        if (left > 0) list[tile_begin[tile] + left - 1] = splat;
    });
}

// Positive floats order as their bits do.
__device__ uint64_t key_of(const gs_splat *splats, uint32_t index) {
    return uint64_t(__float_as_uint(splats[index].depth)) << 32 | index;
}

// Sorts n keys in shared memory; by the whole block. A bitonic network whose comparators all point one way:
// those of places from n on are not needed. Comparators of a warp stay within 64 places while they are at
// most 32 apart, and then the warp alone is waited for.
__device__ void sort_keys(uint64_t *key, int n) {
    for (int run = 1; run < n; run *= 2) { // sorted runs of this length become sorted runs of twice it
        for (int distance = run; distance > 0; distance /= 2) {
            for (int i = int(threadIdx.x); 2 * i < n + distance; i += sort_block) {
                const int place = i & (distance - 1), low = 2 * i - place;
                // The first comparators of a run mirror its second half: rising, then falling, is bitonic.
                const int high = low + (distance == run ? 2 * (distance - place) - 1 : distance);
                if (high >= n) continue;
                const uint64_t a = key[low], b = key[high];
                if (b < a) key[low] = b, key[high] = a;
            }
            const int next = distance > 1 ? distance / 2 : 2 * run;
            if (distance > 32 || next > 32)
                __syncthreads();
            else
                __syncwarp();
        }
    }
    __syncthreads();
}

// Merges sorted runs, two by two, into `to`; by the whole block, of which each thread makes an equal share.
__device__ void merge_runs(const gs_splat *splats, const uint32_t *from, int n, int run, uint32_t *to) {
    const int share = (n + sort_block - 1) / sort_block;
    int at = min(int(threadIdx.x) * share, n);
    const int end = min(at + share, n);
    while (at < end) {
        const int first = at - at % (2 * run), second = min(first + run, n), last = min(first + 2 * run, n);
        // How many of the results before `at` come from the first run.
        int low = max(0, at - first - (last - second)), high = min(at, second) - first;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (key_of(splats, from[first + middle]) < key_of(splats, from[second + at - first - middle - 1]))
                low = middle + 1;
            else
                high = middle;
        }
        int a = first + low, b = second + at - first - low;
        for (const int stop = min(end, last); at < stop; at++) {
            const bool take_a =
                a < second && (b >= last || key_of(splats, from[a]) < key_of(splats, from[b]));
            to[at] = from[take_a ? a++ : b++];
        }
    }
    __syncthreads();
}

// A block a tile: sorts its list by (depth, index); `other` is room for as many.
__global__ void __launch_bounds__(sort_block)
    sort_kernel(const gs_splat *splats, const uint32_t *tile_order, const int64_t *tile_begin, uint32_t *list,
                uint32_t *other) {
    __shared__ uint64_t key[sort_capacity];
    const int64_t begin = tile_begin[tile_order[blockIdx.x]], end = tile_begin[tile_order[blockIdx.x] + 1];
    const int n = int(end - begin);
    list += begin, other += begin;
    int merges = 0;
    for (int64_t run = sort_capacity; run < n; run *= 2) merges++;
    uint32_t *from = list, *to = merges % 2 == 0 ? list : other; // so that the last merge ends in `list`
    for (int first = 0; first < n; first += sort_capacity) {
        const int size = min(sort_capacity, n - first);
        for (int i = int(threadIdx.x); i < size; i += sort_block) key[i] = key_of(splats, from[first + i]);
        __syncthreads();
        sort_keys(key, size);
        for (int i = int(threadIdx.x); i < size; i += sort_block) to[first + i] = uint32_t(key[i]);
        __syncthreads();
    }
    for (int run = sort_capacity; run < n; run *= 2) {
        from = to, to = from == list ? other : list;
        merge_runs(splats, from, n, run, to);
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

// Threads for a splat: as many as keep the GPU busy.
int group_of(int64_t count, int multiprocessors) {
    int group = 1;
    while (group < bin_block && 2 * group * count <= int64_t(multiprocessors) * 8192) group *= 2;
    return group;
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
    const int group = group_of(count, multiprocessors);
    const unsigned splat_blocks = blocks_for(count * group, bin_block);
    GS_CUDA(cudaMemsetAsync(length, 0, size_t(tiles) * sizeof *length, stream));
    GS_CUDA(launch(stream, splat_blocks, bin_block, count_kernel, splats, count, group, grid, length));
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
                   splats, count, group, grid, tile_begin, length, class_begin, list, tile_order));
    GS_CUDA(launch(stream, unsigned(tiles), sort_block, sort_kernel, splats, tile_order, tile_begin, list,
                   other));
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
