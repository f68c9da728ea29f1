// SPDX-License-Identifier: MIT
// Splats to tiles' lists: append each splat to the buckets of its tiles (bin_append.cuh), scan the lengths
// (bin_begin.cuh), sort each bucket by (depth, index) into the tile's list (bin_sort.cuh). Where a bucket had no room,
// all splats are written a second time, to the lists, whose places are then known, and sorted there.
#include "bin_sort.cuh"
#include "gpu/block_layout.h"
#include "check.h"
#include "distwar_gs.h"
#include "status.h"
#include <algorithm>
#include <atomic>

using namespace gs;

namespace {

constexpr int blocks_wanted = 16;      // portions of splats per multiprocessor
constexpr int writers_at_once = 4;     // blocks per multiprocessor that write lists
constexpr int part_blocks_at_once = 6; // blocks per multiprocessor that cut lists and sort parts

// The arrays in the workspace.
struct bin_arrays {
    uint32_t *depth, *length, *ends, *class_begin;
    bin_summary *summary;
    int64_t *tile_begin;
    uint32_t *tile_order, *list, *other, *bucket;
    uint32_t bucket_room;
    part *parts;
};

// Counters a tile, as a power of two: enough that each counts few splats, few enough for one block to scan.
int log2_copies(int64_t count, int tiles) {
    constexpr int most = 5, counters = 8192, splats = 256;
    int k = 0;
    while (k < most && tiles << (k + 1) <= counters && count > (int64_t(tiles) << k) * splats) k++;
    return k;
}

// tile_counters.log2_lines.
int log2_lines(int64_t counters) {
    int k = 0;
    while ((int64_t(counters_of_line) << k) < counters) k++;
    return k;
}
size_t counter_words(int64_t counters) {
    return size_t(counters_of_line * sector_words) << log2_lines(counters);
}

// Splats per block: as many as possible while there are enough blocks to fill the GPU.
int splats_of_block(int64_t count, int multiprocessors) {
    int per_block = bin_block;
    while (per_block > 1 && count < int64_t(multiprocessors) * blocks_wanted * per_block) per_block /= 2;
    return per_block;
}

constexpr int64_t max_pairs = int64_t(1) << 40;
std::atomic<int64_t> calls; // of gs_bin: gs_lists.call

gs_status check(const char *function, const gs_view *view) {
    GS_TRY(check_extent(function, view));
    for (const int64_t capacity : {view->pair_capacity, view->bucket_capacity})
        GS_REQUIRE_OF(function, capacity >= 0 && capacity <= max_pairs,
                      "pair_capacity and bucket_capacity must be in 0..2^40");
    return check_rows(function, view, view->rows);
}

// An upper bound of the parts of lists that hold pair_capacity pairs in all. A list that one block of
// part_block threads sorts counts as one part. The shortest list with three parts has the most for its
// length.
int64_t most_parts(int64_t pair_capacity) {
    return pair_capacity * 3 / sorted_by_block<part_block>;
}

// Entries of a bucket. Not given: 32 times the mean of lists that fill pair_capacity, as some tiles have much more than
// others; less where that would take more than 256 MB and more than eight times the lists, and where that would take more
// than 4 GB as much as the lists.
uint32_t room_of(const gs_view *view, int64_t counters) {
    constexpr int64_t least = 32, small = int64_t(1) << 26, large = int64_t(1) << 30;
    const int64_t pairs = view->pair_capacity, most = std::max({small, std::min(8 * pairs, large), pairs});
    const int64_t all = view->bucket_capacity > 0 ? view->bucket_capacity : std::min(32 * pairs, most);
    return uint32_t(std::min(std::max(all / counters, least), int64_t(UINT32_MAX)));
}

// Places the arrays in `memory` (NULL: nowhere) and returns their bytes.
size_t place_arrays(void *memory, const gs_view *view, bin_arrays *out) {
    block_layout layout = {static_cast<char *>(memory), 0};
    const int64_t count = splat_count(view); // of all views
    const size_t tiles = size_t(tiles_of(grid_of(view))), pairs = size_t(view->pair_capacity),
                 counters = tiles << log2_copies(count, int(tiles));
    out->bucket_room = room_of(view, int64_t(counters));
    layout_add(&layout, counter_words(int64_t(counters)), &out->length);
    layout_add(&layout, counters, &out->ends);
    layout_add(&layout, classes, &out->class_begin);
    layout_add(&layout, 1, &out->summary);
    layout_add(&layout, tiles + 1, &out->tile_begin);
    layout_add(&layout, tiles, &out->tile_order);
    layout_add(&layout, pairs, &out->list); // what follows is not read after gs_bin
    layout_add(&layout, size_t(count), &out->depth);
    layout_add(&layout, pairs, &out->other);
    layout_add(&layout, counters * out->bucket_room, &out->bucket);
    layout_add(&layout, size_t(most_parts(view->pair_capacity)), &out->parts);
    return layout.bytes;
}

// The blocks of the kernels that sort.
struct sort_grids {
    unsigned cut, parts, lists;
};

sort_grids grids_of(const bin_summary &summary, int tiles) {
    const int block_lists = summary.block_end - summary.part_block_end;
    return {unsigned(summary.cut_end), unsigned(summary.parts + summary.part_block_end - summary.cut_end),
            unsigned(block_lists) + blocks_for(tiles - summary.block_end, sort_block / 32)};
}

// Upper bounds of the blocks that sort lists of pair_capacity pairs in all, of `count` splats per view: no list is
// longer.
sort_grids most_grids(int64_t pair_capacity, int64_t count, int tiles) {
    const auto lists_of = [&](int shortest) {
        if (count < shortest) return 0u;
        return unsigned(pair_capacity / shortest < tiles ? pair_capacity / shortest : tiles);
    };
    const int64_t parts = count < sorted_by_block<sort_block> ? 0 : most_parts(pair_capacity),
                  most = int64_t(tiles) * part_block;
    const unsigned block_lists = lists_of(sorted_by_warp);
    return {lists_of(sorted_by_block<part_block>), unsigned(parts < most ? parts : most),
            block_lists + blocks_for(tiles - int(block_lists), sort_block / 32)};
}

gs_status pairs_do_not_fit(const char *function, const gs_view *view) {
    return libgs_fail(GS_PAIRS_DO_NOT_FIT, "%s: %lld pairs, room for %lld", function,
                      static_cast<long long>(view->pairs_needed),
                      static_cast<long long>(view->pair_capacity));
}

// How the blend divides the work of lists whose lengths the host does not know: as before, if that was valid.
void keep_division(int tiles, int multiprocessors, gs_lists *lists) {
    const int pixels = lists->pixels_per_thread, split = lists->split_tiles;
    if ((pixels == 1 || pixels == 2 || pixels == 4) && split >= 0 && split <= tiles) return;
    lists->pixels_per_thread = pixels_of_thread(0, 0, tiles, multiprocessors);
    lists->split_tiles = tiles < multiprocessors * tiles_at_once ? tiles : 0;
}

} // namespace

gs_status gs_bin_bytes(const gs_view *view, size_t *bytes) {
    GS_TRY(check(__func__, view));
    GS_REQUIRE(bytes, "bytes must be given");
    bin_arrays unplaced;
    *bytes = place_arrays(nullptr, view, &unplaced);
    return GS_OK;
}

gs_status gs_bin(gs_view *view, gs_stream stream) {
    GS_TRY(check(__func__, view));
    const gs_splat *splats = view->splats;
    const int64_t count = view->gaussians.count, pair_capacity = view->pair_capacity;
    GS_REQUIRE(count == 0 || splats, "splats must be given");
    const bool waits = !view->report;
    const int64_t call = ++calls;
    const tile_grid grid = grid_of(view);
    bin_arrays a;
    const size_t needed = place_arrays(view->workspace, view, &a);
    GS_TRY(check_workspace(__func__, view->workspace, view->workspace_bytes, needed));

    int device = 0, multiprocessors = 0;
    GS_CUDA(cudaGetDevice(&device));
    GS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    const int tiles = tiles_of(grid), per_block = splats_of_block(splat_count(view), multiprocessors);
    const splat_portions portions = {splats, count, per_block, int(blocks_for(count, per_block)), a.depth};
    const unsigned splat_blocks = unsigned(portions.per_view) * unsigned(grid.views);
    const unsigned most_writers = unsigned(multiprocessors) * writers_at_once;
    const int copies = log2_copies(splat_count(view), tiles);
    const int64_t counter_count = int64_t(tiles) << copies;
    const tile_counters counters = {a.length, copies, log2_lines(counter_count)};
    const buckets into = {counters, a.bucket, a.bucket_room};
    GS_CUDA(cudaMemsetAsync(counters.first, 0, counter_words(counter_count) * sizeof(uint32_t), stream));
    GS_CUDA(launch(stream, splat_blocks, bin_block, append_kernel, portions, grid, into));
    GS_CUDA(launch_in_turn(stream, 1, scan_block, tile_begin_kernel, counters, a.ends, tiles,
                           bin_limits{multiprocessors, a.bucket_room, pair_capacity, call, view->report},
                           a.tile_begin, a.class_begin, a.summary));
    bin_summary summary = {};
    if (!waits) { // on the device; the host keeps what it had
        summary.pairs = pair_capacity;
        summary.pixels_per_thread = view->lists.pixels_per_thread, summary.split = view->lists.split_tiles;
    } else {
        GS_CUDA(cudaMemcpyAsync(&summary, a.summary, sizeof summary, cudaMemcpyDeviceToHost, stream));
        GS_CUDA(cudaStreamSynchronize(stream));
        view->pairs_needed = summary.pairs, view->buckets_needed = summary.buckets;
        if (summary.pairs > pair_capacity) return pairs_do_not_fit(__func__, view);
    }
    const bin_work work = {summary, waits ? nullptr : a.summary};
    const unsorted_lists unsorted_entries = {into, a.ends, a.list};
    GS_CUDA(
        launch_in_turn(stream, std::max(std::min(splat_blocks, most_writers), blocks_for(tiles, bin_block)),
                       bin_block, write_kernel, portions, grid,
                       writing{counters, a.ends, a.tile_begin, a.list}, work, a.class_begin, a.tile_order));
    const unsigned most_part_blocks = unsigned(multiprocessors) * part_blocks_at_once;
    const sort_grids grids = waits ? grids_of(summary, tiles) : most_grids(pair_capacity, count, tiles);
    GS_CUDA(launch_in_turn(stream, std::min(grids.cut, most_part_blocks), part_block, cut_kernel, a.depth,
                           a.tile_order, a.tile_begin, unsorted_entries, a.other, work, a.summary, a.parts));
    GS_CUDA(launch_in_turn(stream, std::min(grids.parts, most_part_blocks), part_block, sort_parts_kernel,
                           a.depth, a.tile_order, a.tile_begin, a.parts, unsorted_entries, work, a.list,
                           a.other));
    GS_CUDA(launch_in_turn(stream, grids.lists, sort_block, sort_kernel, a.depth, a.tile_order, a.tile_begin,
                           tiles, unsorted_entries, work, a.list));
    gs_lists &lists = view->lists;
    lists.tiles_x = grid.tiles_x, lists.tiles_y = grid.tiles_y, lists.views = grid.views;
    lists.tile_begin = a.tile_begin, lists.tile_order = a.tile_order, lists.splat_index = a.list;
    lists.pairs = summary.pairs, lists.call = call, lists.device_pairs = waits ? nullptr : &a.summary->pairs;
    lists.pixels_per_thread = summary.pixels_per_thread, lists.split_tiles = summary.split;
    if (!waits) keep_division(tiles, multiprocessors, &view->lists);
    return GS_OK;
}

gs_status libgs_list_lengths(const gs_view *view, list_lengths *lengths, gs_stream stream) {
    GS_TRY(check_lists(__func__, view));
    GS_REQUIRE(lengths && view->lists.tile_order,
               "lengths, and lists that gs_bin has written, must be given");
    bin_arrays a;
    const size_t needed = place_arrays(view->workspace, view, &a);
    GS_TRY(check_workspace(__func__, view->workspace, view->workspace_bytes, needed));
    GS_CUDA(launch(stream, 1, scan_block, lengths_kernel, a.tile_begin, a.class_begin,
                   tiles_of(grid_of(view)), lengths));
    return GS_OK;
}

gs_status libgs_divide_lists(gs_view *view, const list_lengths *lengths, int64_t pairs, int64_t longest) {
    GS_TRY(check_lists(__func__, view));
    GS_REQUIRE(lengths && pairs >= lengths->pairs && longest >= lengths->longest,
               "lengths must be given; those of the image are not less");
    int device = 0, multiprocessors = 0;
    GS_CUDA(cudaGetDevice(&device));
    GS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    const int pixels = pixels_of_thread(pairs, longest, tiles_of(grid_of(view)), multiprocessors);
    const int split = split_class(pairs, multiprocessors, pixels);
    view->lists.pixels_per_thread = pixels;
    view->lists.split_tiles = split > 0 ? lengths->class_end[split - 1] : 0;
    return GS_OK;
}

gs_status gs_bin_wait(gs_view *view, gs_stream stream) {
    GS_TRY(check_lists(__func__, view));
    const gs_bin_report *const report = view->report;
    GS_REQUIRE(report, "report must be given");
    constexpr int reads_a_query = 4096;
    const volatile int64_t *const written = &report->call;
    bool is_done = false; // and what it wrote has arrived
    for (unsigned k = 1; *written != view->lists.call; k++) {
        if (k % reads_a_query != 0) continue;
        GS_REQUIRE(!is_done, "gs_bin was not queued with this report on this stream");
        const cudaError_t status = cudaStreamQuery(stream);
        is_done = status == cudaSuccess;
        if (status == cudaErrorNotReady)
            (void)cudaGetLastError(); // it is no error
        else
            GS_CUDA(status);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    view->pairs_needed = report->pairs_needed, view->buckets_needed = report->buckets_needed;
    if (view->pairs_needed > view->pair_capacity) return pairs_do_not_fit(__func__, view);
    view->lists.pairs = view->pairs_needed;
    view->lists.pixels_per_thread = report->pixels_per_thread;
    view->lists.split_tiles = report->split_tiles;
    return GS_OK;
}
