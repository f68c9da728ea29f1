// SPDX-License-Identifier: MIT
// Splats into tiles: sort by depth, count tiles, scan, write (tile, splat) pairs, sort by tile (stable, so
// the depth order stays), find where each tile's list begins.
#include "gs.h"
#include "launch.cuh"
#include "reach.cuh"
#include "scan_sort.h"
#include "status.h"
#include <math.h>

namespace {

constexpr int bin_block = 256;
constexpr unsigned full_warp = 0xffffffffu;
constexpr int depth_bits = 31; // of a positive float
constexpr uint32_t culled_key = (1u << depth_bits) - 1;
constexpr int small_area = 16; // tiles of a box that a thread goes through alone

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

// Tile k of the box, row by row.
__device__ int tile_of(const tile_box &box, int k, const tile_grid &grid) {
    const int columns = box.x_end - box.x_begin;
    return (box.y_begin + k / columns) * grid.tiles_x + box.x_begin + k % columns;
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

// Culled splats come last.
__global__ void __launch_bounds__(bin_block)
    depth_key_kernel(const gs_splat *splats, int64_t count, uint32_t *keys, uint32_t *values) {
    const int64_t i = int64_t(blockIdx.x) * bin_block + threadIdx.x;
    if (i >= count) return;
    // Positive floats order as their bits do.
    keys[i] = splats[i].depth > 0 ? __float_as_uint(splats[i].depth) : culled_key;
    values[i] = uint32_t(i);
}

// A splat on its way into tiles.
struct candidate {
    reach far;
    tile_box box;
    uint32_t splat;
    int64_t at, end; // where its pairs go; writes are bounded by the count
};

__device__ candidate shuffle(const candidate &mine, int lane) {
    const auto from = [lane](auto value) { return __shfl_sync(full_warp, value, lane); };
    candidate c;
    for (int k = 0; k < 2; k++) c.far.mean[k] = from(mine.far.mean[k]);
    for (int k = 0; k < 3; k++) c.far.whiten[k] = from(mine.far.whiten[k]);
    c.far.limit = from(mine.far.limit), c.far.slope = from(mine.far.slope),
    c.far.along_x = from(mine.far.along_x);
    c.box = {from(mine.box.x_begin), from(mine.box.x_end), from(mine.box.y_begin), from(mine.box.y_end)};
    c.splat = from(mine.splat);
    c.at = from(mine.at), c.end = from(mine.end);
    return c;
}

// Finds the tiles of every splat, in the order of depth; one body for counting and for writing. A thread has
// a splat; those with large boxes are taken one after another by the whole warp, 32 tiles at a time.
//
// Counting: writes tiles_of[count + 1], of which the last is 0, so that its scan ends in the total. Writing:
// begin is that scan; keys receive tiles and values splats, so that a stable sort by tile leaves each tile in
// the order (depth, index).
template <bool Writing>
__global__ void __launch_bounds__(bin_block)
    tiles_kernel(const gs_splat *splats, const uint32_t *order, int64_t count, tile_grid grid,
                 int64_t *tiles_of, const int64_t *begin, uint32_t *keys, uint32_t *values) {
    const int64_t i = int64_t(blockIdx.x) * bin_block + threadIdx.x;
    const int lane = int(threadIdx.x % 32);
    const auto write = [keys, values](const candidate &c, int64_t place, int tile) {
        if (c.at + place < c.end) keys[c.at + place] = uint32_t(tile), values[c.at + place] = c.splat;
    };

    candidate mine = {};
    if (i < count) {
        mine.splat = order[i];
        if (Writing) mine.at = begin[i], mine.end = begin[i + 1];
        if (splats[mine.splat].depth > 0) {
            mine.far = reach_of(splats[mine.splat]);
            mine.box = box_of(mine.far, grid);
        }
    }
    const int area = area_of(mine.box);
    int64_t tiles = 0;
    for (int k = 0; area <= small_area && k < area; k++) {
        const int tile = tile_of(mine.box, k, grid);
        if (!reaches(mine.far, centres_of(tile, grid))) continue;
        if (Writing) write(mine, tiles, tile);
        tiles++;
    }
    for (unsigned large = __ballot_sync(full_warp, area > small_area); large != 0; large &= large - 1) {
        const int owner = __ffs(int(large)) - 1;
        const candidate its = shuffle(mine, owner);
        const int its_area = area_of(its.box);
        int64_t found = 0;
        for (int k = 0; k < its_area; k += 32) {
            const int tile = tile_of(its.box, k + lane, grid);
            const bool here = k + lane < its_area && reaches(its.far, centres_of(tile, grid));
            const unsigned mask = __ballot_sync(full_warp, here);
            if (Writing && here) write(its, found + __popc(mask & ((1u << lane) - 1)), tile);
            found += __popc(mask);
        }
        if (lane == owner) tiles = found;
    }
    if (!Writing && i <= count) tiles_of[i] = tiles;
}

// One thread a boundary between pairs i - 1 and i, the two ends included: tiles after pair i - 1's, up to
// pair i's, begin here, so that empty tiles are covered too.
__global__ void __launch_bounds__(bin_block)
    tile_begin_kernel(const uint32_t *keys, int64_t pairs, int tiles, int64_t *tile_begin) {
    const int64_t i = int64_t(blockIdx.x) * bin_block + threadIdx.x;
    if (i > pairs) return;
    const int before = i == 0 ? -1 : int(keys[i - 1]), here = i == pairs ? tiles : int(keys[i]);
    for (int t = before + 1; t <= here; t++) tile_begin[t] = i;
}

tile_grid grid_of(int width, int height) {
    return {width, height, (width + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
            (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE};
}

// Where everything lies in the workspace.
struct bin_layout {
    size_t depth_keys[2], order[2], tiles_of, begin, tile_begin, keys[2], values[2], temporary,
        temporary_bytes, total;
};

// As many as leave enough warps for every multiprocessor: more pixels a thread share more of the work, but
// a GPU that runs dry early, on the longest lists of a small image, costs more.
cudaError_t choose_pixels_per_thread(int tiles, int *pixels) {
    // A multiprocessor. From one scene at three sizes on one GPU (docs/notes/performance.md, section 2).
    constexpr int warps_wanted = 48;
    int device = 0, multiprocessors = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    *pixels = 4;
    while (*pixels > 1 && int64_t(tiles) * 8 / *pixels < int64_t(multiprocessors) * warps_wanted)
        *pixels /= 2;
    return status;
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

gs_status layout_of(int64_t count, const tile_grid &grid, int64_t pair_capacity, bin_layout *out) {
    size_t scan_bytes, sort_bytes, end = 0;
    GS_CUDA(scan_exclusive_bytes(count + 1, &scan_bytes));
    GS_CUDA(sort_pairs_bytes(pair_capacity > count ? pair_capacity : count, &sort_bytes));
    const auto place = [&end](size_t bytes) {
        const size_t at = end;
        end += (bytes + 255) / 256 * 256;
        return at;
    };
    for (size_t &at : out->depth_keys) at = place(size_t(count) * sizeof(uint32_t));
    for (size_t &at : out->order) at = place(size_t(count) * sizeof(uint32_t));
    out->tiles_of = place(size_t(count + 1) * sizeof(int64_t));
    out->begin = place(size_t(count + 1) * sizeof(int64_t));
    out->tile_begin = place((size_t(grid.tiles_x) * grid.tiles_y + 1) * sizeof(int64_t));
    for (size_t &at : out->keys) at = place(size_t(pair_capacity) * sizeof(uint32_t));
    for (size_t &at : out->values) at = place(size_t(pair_capacity) * sizeof(uint32_t));
    out->temporary_bytes = scan_bytes > sort_bytes ? scan_bytes : sort_bytes;
    out->temporary = place(out->temporary_bytes);
    out->total = end;
    return GS_OK;
}

} // namespace

gs_status gs_bin_workspace(int64_t count, int32_t width, int32_t height, int64_t pair_capacity,
                           size_t *bytes) {
    const gs_status status = check(__func__, count, width, height, pair_capacity);
    if (status != GS_OK) return status;
    GS_REQUIRE(bytes, "bytes must be given");
    bin_layout layout;
    const gs_status laid_out = layout_of(count, grid_of(width, height), pair_capacity, &layout);
    if (laid_out == GS_OK) *bytes = layout.total;
    return laid_out;
}

gs_status gs_bin(const gs_splat *splats, int64_t count, int32_t width, int32_t height, int64_t pair_capacity,
                 void *workspace, size_t workspace_bytes, gs_lists *lists, int64_t *pairs_needed,
                 gs_stream stream) {
    gs_status status = check(__func__, count, width, height, pair_capacity);
    if (status != GS_OK) return status;
    GS_REQUIRE((count == 0 || splats) && workspace && lists && pairs_needed,
               "splats, workspace, lists and pairs_needed must be given");
    const tile_grid grid = grid_of(width, height);
    bin_layout layout;
    status = layout_of(count, grid, pair_capacity, &layout);
    if (status != GS_OK) return status;
    GS_REQUIRE(workspace_bytes >= layout.total, "the workspace is smaller than gs_bin_workspace asks for");

    char *base = static_cast<char *>(workspace);
    int64_t *tiles_of = reinterpret_cast<int64_t *>(base + layout.tiles_of);
    int64_t *begin = reinterpret_cast<int64_t *>(base + layout.begin);
    int64_t *tile_begin = reinterpret_cast<int64_t *>(base + layout.tile_begin);
    uint32_t *depth_keys[2], *order[2], *keys[2], *values[2];
    for (int k = 0; k < 2; k++) {
        depth_keys[k] = reinterpret_cast<uint32_t *>(base + layout.depth_keys[k]);
        order[k] = reinterpret_cast<uint32_t *>(base + layout.order[k]);
        keys[k] = reinterpret_cast<uint32_t *>(base + layout.keys[k]);
        values[k] = reinterpret_cast<uint32_t *>(base + layout.values[k]);
    }
    void *temporary = base + layout.temporary;

    const unsigned splat_blocks = blocks_for(count + 1, bin_block);
    int ordered = 0, sorted = 0;
    GS_CUDA(
        launch(stream, splat_blocks, bin_block, depth_key_kernel, splats, count, depth_keys[0], order[0]));
    GS_CUDA(sort_pairs(depth_keys, order, &ordered, count, 0, depth_bits, temporary, layout.temporary_bytes,
                       stream));
    GS_CUDA(launch(stream, splat_blocks, bin_block, tiles_kernel<false>, splats, order[ordered], count, grid,
                   tiles_of, nullptr, nullptr, nullptr));
    GS_CUDA(scan_exclusive(tiles_of, begin, count + 1, temporary, layout.temporary_bytes, stream));
    int64_t pairs = 0;
    GS_CUDA(cudaMemcpyAsync(&pairs, begin + count, sizeof pairs, cudaMemcpyDeviceToHost, stream));
    GS_CUDA(cudaStreamSynchronize(stream));
    *pairs_needed = pairs;
    if (pairs > pair_capacity)
        return libgs_fail(GS_PAIRS_DO_NOT_FIT, "gs_bin: %lld pairs, room for %lld",
                          static_cast<long long>(pairs), static_cast<long long>(pair_capacity));

    const int tiles = grid.tiles_x * grid.tiles_y;
    int pixels_per_thread = 0;
    GS_CUDA(choose_pixels_per_thread(tiles, &pixels_per_thread));
    int tile_bits = 0;
    while (tiles > 1 << tile_bits) tile_bits++;
    GS_CUDA(launch(stream, splat_blocks, bin_block, tiles_kernel<true>, splats, order[ordered], count, grid,
                   nullptr, begin, keys[0], values[0]));
    GS_CUDA(
        sort_pairs(keys, values, &sorted, pairs, 0, tile_bits, temporary, layout.temporary_bytes, stream));
    GS_CUDA(launch(stream, blocks_for(pairs + 1, bin_block), bin_block, tile_begin_kernel, keys[sorted],
                   pairs, tiles, tile_begin));
    *lists = {grid.tiles_x, grid.tiles_y, pairs, tile_begin, values[sorted], pixels_per_thread};
    return GS_OK;
}
