// SPDX-License-Identifier: MIT
// A scene on several GPUs: the splats that parts of images need, and the moments that come back (distwar_gs_share.h).
#include "gpu/block_layout.h"
#include "distwar_gs_share.h"
#include "launch.cuh"
#include "gpu/scan_sort.h"
#include "status.h"
#include "bin/tiles.cuh"
#include <distwar/warp.cuh>

using namespace gs;

namespace {

constexpr int share_block = 256;

// The parts of a launch, as kernels take them.
struct part_list {
    int count;
    gs_part at[GS_MAX_PARTS];
};

struct share_arrays {
    int64_t *
        begin; // [parts][blocks] and the end: entries of a part that a block of splats has; then where they begin
    void *scan;
    size_t scan_bytes;
};

unsigned blocks_of(const gs_view *view) {
    return blocks_for(view->gaussians.count, share_block);
}

gs_status place_arrays(const gs_view *view, int32_t parts, void *memory, share_arrays *out, size_t *bytes) {
    const int64_t counters = int64_t(parts) * blocks_of(view) + 1;
    block_layout layout = {static_cast<char *>(memory), 0};
    GS_CUDA(scan_exclusive_bytes(counters, &out->scan_bytes));
    layout_add(&layout, size_t(counters), &out->begin);
    out->scan = layout_add(&layout, out->scan_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

// The rows of tiles that a splat reaches; empty if it is culled or beside the image.
__device__ gs_rows rows_of(const gs_splat &splat, const tile_grid &grid) {
    if (!(splat.depth > 0)) return {0, 0};
    const tile_box box = box_of(reach_of(splat), grid);
    return area_of(box) > 0 ? gs_rows{box.y_begin, box.y_end} : gs_rows{0, 0};
}

// Calls body(part, needed) for every part of the block's view: whether the part needs the thread's splat. By all
// threads of the block; blockIdx.y is the view.
template <typename Body>
__device__ __forceinline__ void for_parts(const part_list &parts, const gs_rows &rows, const Body &body) {
    for (int p = 0; p < parts.count; p++) {
        const gs_part part = parts.at[p];
        if (part.view == int(blockIdx.y))
            body(p, max(rows.begin, part.rows.begin) < min(rows.end, part.rows.end));
    }
}

// Whether a part of the block's view has rows. By all threads of the block alike.
__device__ bool any_rows(const part_list &parts) {
    bool any = false;
    for (int p = 0; p < parts.count; p++)
        any = any || (parts.at[p].view == int(blockIdx.y) && parts.at[p].rows.begin < parts.at[p].rows.end);
    return any;
}

__global__ void __launch_bounds__(share_block)
    count_parts_kernel(const gs_splat *splats, int64_t count, tile_grid grid, part_list parts,
                       int64_t *counters) {
    const int64_t i = int64_t(blockIdx.x) * share_block + threadIdx.x;
    const bool reads = any_rows(parts) && i < count;
    const gs_rows rows = reads ? rows_of(splats[blockIdx.y * count + i], grid) : gs_rows{0, 0};
    for_parts(parts, rows, [&](int p, bool needed) {
        const int all = __syncthreads_count(needed);
        if (threadIdx.x == 0) counters[int64_t(p) * gridDim.x + blockIdx.x] = all;
    });
}

__global__ void __launch_bounds__(share_block)
    part_begin_kernel(const int64_t *begin, int parts, int64_t blocks, int64_t *part_begin) {
    const int p = int(threadIdx.x);
    if (p <= parts) part_begin[p] = begin[p * blocks];
}

// Where gather_kernel writes: members of gs_share.
struct gathered {
    uint32_t *index;
    gs_splat *splats;
    int64_t room, splats_room;
    int skip, skip_end;
};

// parts: begins with those before the first one that is gathered, which have no rows.
__global__ void __launch_bounds__(share_block)
    gather_kernel(const gs_splat *splats, int64_t count, tile_grid grid, part_list parts,
                  const int64_t *begin, const gathered out) {
    __shared__ int in_warp[share_block / 32];
    const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t i = int64_t(blockIdx.x) * share_block + thread, of_all = blockIdx.y * count + i;
    gs_splat splat = {};
    gs_rows rows = {0, 0};
    if (!any_rows(parts)) return;
    if (i < count) splat = splats[of_all], rows = rows_of(splat, grid);
    for_parts(parts, rows, [&](int p, bool needed) {
        const unsigned lanes = __ballot_sync(distwar::all_lanes, needed);
        __syncthreads(); // the counts of the part before have been read
        if (lane == 0) in_warp[warp] = __popc(lanes);
        __syncthreads();
        int before = __popc(lanes & ((1u << lane) - 1));
        for (int w = 0; w < warp; w++) before += in_warp[w];
        if (!needed) return;
        const int64_t at = begin[int64_t(p) * gridDim.x + blockIdx.x] + before;
        const int64_t skipped =
            begin[int64_t(out.skip_end) * gridDim.x] - begin[int64_t(out.skip) * gridDim.x];
        if (at < out.room) out.index[at] = uint32_t(of_all);
        if (at - skipped < out.splats_room) out.splats[at - skipped] = splat;
    });
}

template <typename T>
__global__ void __launch_bounds__(share_block)
    add_kernel(const uint32_t *index, const T *from, int64_t values, T *to) {
    const int64_t i = int64_t(blockIdx.x) * share_block + threadIdx.x;
    if (i >= values) return;
    const int64_t record = i / GS_MOMENTS_STRIDE, k = i - record * GS_MOMENTS_STRIDE;
    to[int64_t(index[record]) * GS_MOMENTS_STRIDE + k] += from[i];
}

// The segments of gs_packing.
struct segment_list {
    int64_t begin[GS_MAX_GPUS], count[GS_MAX_GPUS];
};

// A record's place, in the bits of its last value.
__device__ void put_place(float *to, uint32_t place) {
    *to = __uint_as_float(place);
}
__device__ void put_place(long long *to, uint32_t place) {
    *to = place;
}
__device__ uint32_t place_in(float from) {
    return __float_as_uint(from);
}
__device__ uint32_t place_in(long long from) {
    return uint32_t(from);
}

// Record i of the block's segment, and whether it counts. By all threads of the block.
template <typename T, int Values>
__device__ bool read_record(const T *records, const segment_list &segments, int64_t i, T (&value)[Values]) {
    bool counts = false;
    if (i >= segments.count[blockIdx.y]) return false;
    const T *const record = records + (segments.begin[blockIdx.y] + i) * GS_MOMENTS_STRIDE;
    DISTWAR_UNROLL
    for (int k = 0; k < Values; k++) value[k] = record[k];
    DISTWAR_UNROLL
    for (int k = 0; k < Values; k++) counts |= !(value[k] == 0); // NaN counts
    return counts;
}

// counters: [segments][blocks]. Blocks (b, s): records of segment s. Values: of a record that travel.
template <typename T, int Values>
__global__ void __launch_bounds__(share_block)
    count_records_kernel(const T *records, const segment_list segments, int64_t *counters) {
    const int64_t i = int64_t(blockIdx.x) * share_block + threadIdx.x;
    T value[Values];
    const int all = __syncthreads_count(read_record(records, segments, i, value));
    if (threadIdx.x == 0) counters[int64_t(blockIdx.y) * gridDim.x + blockIdx.x] = all;
}

// begin: where the records of each block go.
template <typename T, int Values>
__global__ void __launch_bounds__(share_block)
    pack_records_kernel(const T *records, const segment_list segments, const int64_t *begin, T *packed) {
    __shared__ int in_warp[share_block / 32];
    const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t i = int64_t(blockIdx.x) * share_block + thread;
    T value[Values];
    const bool counts = read_record(records, segments, i, value);
    const unsigned lanes = __ballot_sync(distwar::all_lanes, counts);
    if (lane == 0) in_warp[warp] = __popc(lanes);
    __syncthreads();
    if (!counts) return;
    int before = __popc(lanes & ((1u << lane) - 1));
    for (int w = 0; w < warp; w++) before += in_warp[w];
    T *const to = packed + (begin[int64_t(blockIdx.y) * gridDim.x + blockIdx.x] + before) * (Values + 1);
    DISTWAR_UNROLL
    for (int k = 0; k < Values; k++) to[k] = value[k];
    put_place(to + Values, uint32_t(i));
}

template <typename T, int Values>
__global__ void __launch_bounds__(share_block)
    add_packed_kernel(const uint32_t *index, const T *packed, int64_t values, T *to) {
    const int64_t i = int64_t(blockIdx.x) * share_block + threadIdx.x;
    if (i >= values) return;
    const int64_t record = i / Values, k = i - record * Values;
    const T *const from = packed + record * (Values + 1);
    to[int64_t(index[place_in(from[Values])]) * GS_MOMENTS_STRIDE + k] += from[k];
}

__global__ void __launch_bounds__(share_block)
    row_pairs_kernel(const int64_t *tile_begin, int tiles_x, int rows, int64_t *pairs) {
    const int row = int(blockIdx.x) * share_block + int(threadIdx.x);
    if (row < rows) pairs[row] = tile_begin[(row + 1) * tiles_x] - tile_begin[row * tiles_x];
}

gs_status check_share(const char *function, const gs_view *view, const gs_share *share,
                      share_arrays *arrays) {
    GS_TRY(check_extent(function, view));
    GS_REQUIRE_OF(function, share && share->count >= 0 && share->count <= GS_MAX_PARTS,
                  "share must be given, with 0..128 parts");
    GS_REQUIRE_OF(function, share->count == 0 || share->parts, "parts must be given");
    for (int32_t p = 0; p < share->count; p++) {
        GS_REQUIRE_OF(function, share->parts[p].view >= 0 && share->parts[p].view < view_count(view),
                      "the view of a part must be one of the cameras");
        GS_TRY(check_rows(function, view, share->parts[p].rows));
    }
    GS_REQUIRE_OF(function, view->gaussians.count == 0 || view->splats, "splats must be given");
    GS_REQUIRE_OF(function, share->part_begin, "part_begin must be given");
    size_t needed = 0;
    GS_TRY(place_arrays(view, share->count, share->workspace, arrays, &needed));
    return check_workspace(function, share->workspace, share->workspace_bytes, needed);
}

part_list list_of(const gs_share *share) {
    part_list out = {};
    out.count = share->count;
    for (int p = 0; p < share->count; p++) out.at[p] = share->parts[p];
    return out;
}

// The tiles of the whole images: parts have their own rows.
tile_grid whole_grid(const gs_view *view) {
    gs_view whole = *view;
    whole.rows = {0, 0};
    return grid_of(&whole);
}

struct pack_arrays {
    int64_t *begin; // [segments][blocks] and the end
    void *scan;
    size_t scan_bytes;
    unsigned blocks; // of the longest segment
};

gs_status place_packing(const char *function, const gs_packing *packing, pack_arrays *out, size_t *bytes) {
    GS_REQUIRE_OF(function,
                  packing && packing->segments >= 1 && packing->segments <= GS_MAX_GPUS && packing->count,
                  "packing must be given, with 1..64 segments and their counts");
    int64_t longest = 0, all = 0;
    for (int s = 0; s < packing->segments; s++) {
        GS_TRY(check_count(function, packing->count[s]));
        all += packing->count[s];
        if (packing->count[s] > longest) longest = packing->count[s];
    }
    GS_TRY(check_count(function, all));
    out->blocks = blocks_for(longest, share_block);
    const int64_t counters = int64_t(packing->segments) * out->blocks + 1;
    block_layout layout = {static_cast<char *>(packing->workspace), 0};
    GS_CUDA(scan_exclusive_bytes(counters, &out->scan_bytes));
    layout_add(&layout, size_t(counters), &out->begin);
    out->scan = layout_add(&layout, out->scan_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

template <typename T, int Values>
gs_status queue_pack(const gs_packing *packing, const pack_arrays &a, gs_stream stream) {
    const int64_t counters = int64_t(packing->segments) * a.blocks + 1;
    const dim3 grid(a.blocks, unsigned(packing->segments));
    segment_list segments = {};
    for (int s = 0; s < packing->segments; s++)
        segments.begin[s] = packing->begin[s], segments.count[s] = packing->count[s];
    const T *const records = static_cast<const T *>(packing->records);
    GS_CUDA(cudaMemsetAsync(a.begin + counters - 1, 0, sizeof(int64_t), stream));
    GS_CUDA(launch(stream, grid, share_block, count_records_kernel<T, Values>, records, segments, a.begin));
    GS_CUDA(scan_exclusive(a.begin, a.begin, counters, a.scan, a.scan_bytes, stream));
    GS_CUDA(launch(stream, 1, share_block, part_begin_kernel, a.begin, packing->segments, a.blocks,
                   packing->packed_begin));
    GS_CUDA(launch(stream, grid, share_block, pack_records_kernel<T, Values>, records, segments, a.begin,
                   static_cast<T *>(packing->packed)));
    return GS_OK;
}

template <typename T, int Values>
gs_status queue_add_packed(const uint32_t *index, const void *packed, int64_t count, void *to,
                           gs_stream stream) {
    GS_CUDA(launch_for(stream, count * Values, share_block, add_packed_kernel<T, Values>, index,
                       static_cast<const T *>(packed), count * Values, static_cast<T *>(to)));
    return GS_OK;
}

template <typename T>
gs_status queue_add(const char *function, const uint32_t *index, const T *from, int64_t count, T *to,
                    gs_stream stream) {
    GS_TRY(check_count(function, count));
    GS_REQUIRE_OF(function, count == 0 || (index && from && to), "index and both arrays must be given");
    GS_CUDA(launch_for(stream, count * GS_MOMENTS_STRIDE, share_block, add_kernel<T>, index, from,
                       count * GS_MOMENTS_STRIDE, to));
    return GS_OK;
}

} // namespace

gs_status gs_share_bytes(const gs_view *view, int32_t parts, size_t *bytes) {
    GS_TRY(check_extent(__func__, view));
    GS_REQUIRE(parts >= 0 && parts <= GS_MAX_PARTS, "parts must be in 0..128");
    GS_REQUIRE(bytes, "bytes must be given");
    share_arrays unplaced;
    return place_arrays(view, parts, nullptr, &unplaced, bytes);
}

gs_status gs_share_count(const gs_view *view, const gs_share *share, gs_stream stream) {
    share_arrays a;
    GS_TRY(check_share(__func__, view, share, &a));
    const unsigned blocks = blocks_of(view);
    const int64_t counters = int64_t(share->count) * blocks + 1;
    GS_CUDA(cudaMemsetAsync(a.begin + counters - 1, 0, sizeof(int64_t), stream));
    GS_CUDA(launch(stream, dim3(blocks, unsigned(view_count(view))), share_block, count_parts_kernel,
                   view->splats, view->gaussians.count, whole_grid(view), list_of(share), a.begin));
    GS_CUDA(scan_exclusive(a.begin, a.begin, counters, a.scan, a.scan_bytes, stream));
    GS_CUDA(
        launch(stream, 1, share_block, part_begin_kernel, a.begin, share->count, blocks, share->part_begin));
    return GS_OK;
}

gs_status gs_share_gather(const gs_view *view, const gs_share *share, gs_stream stream) {
    share_arrays a;
    GS_TRY(check_share(__func__, view, share, &a));
    GS_REQUIRE(share->first >= 0 && share->first <= share->end && share->end <= share->count,
               "first .. end must be a range of the parts");
    GS_REQUIRE(share->skip >= 0 && share->skip <= share->skip_end && share->skip_end <= share->first,
               "skip .. skip_end must be a range of the parts before");
    GS_REQUIRE(share->room >= 0 && share->splats_room >= 0, "room and splats_room must not be negative");
    if (share->first == share->end) return GS_OK;
    GS_REQUIRE((share->room == 0 || share->index) && (share->splats_room == 0 || share->splats),
               "index and splats must be given");
    part_list parts = list_of(share);
    for (int p = 0; p < share->first; p++) parts.at[p].rows = {0, 0};
    parts.count = share->end;
    GS_CUDA(launch(stream, dim3(blocks_of(view), unsigned(view_count(view))), share_block, gather_kernel,
                   view->splats, view->gaussians.count, whole_grid(view), parts, a.begin,
                   gathered{share->index, share->splats, share->room, share->splats_room, share->skip,
                            share->skip_end}));
    return GS_OK;
}

gs_status gs_share_pack_bytes(const gs_packing *packing, size_t *bytes) {
    GS_REQUIRE(bytes, "bytes must be given");
    pack_arrays unplaced;
    return place_packing(__func__, packing, &unplaced, bytes);
}

gs_status gs_share_pack(const gs_packing *packing, gs_stream stream) {
    pack_arrays a;
    size_t needed = 0;
    GS_TRY(place_packing(__func__, packing, &a, &needed));
    GS_REQUIRE(packing->begin && packing->packed_begin, "begin and packed_begin must be given");
    GS_REQUIRE(a.blocks == 0 || (packing->records && packing->packed), "records and packed must be given");
    GS_TRY(check_workspace(__func__, packing->workspace, packing->workspace_bytes, needed));
    if (packing->whole)
        return packing->fixed ? queue_pack<long long, GS_MOMENTS_STRIDE>(packing, a, stream)
                              : queue_pack<float, GS_MOMENTS_STRIDE>(packing, a, stream);
    return packing->fixed ? queue_pack<long long, GS_MOMENTS>(packing, a, stream)
                          : queue_pack<float, GS_MOMENTS>(packing, a, stream);
}

gs_status gs_share_add_packed(const uint32_t *index, const void *packed, int64_t count, int32_t fixed,
                              int32_t whole, void *to, gs_stream stream) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(count == 0 || (index && packed && to), "index, packed and the sums must be given");
    if (whole)
        return fixed ? queue_add_packed<long long, GS_MOMENTS_STRIDE>(index, packed, count, to, stream)
                     : queue_add_packed<float, GS_MOMENTS_STRIDE>(index, packed, count, to, stream);
    return fixed ? queue_add_packed<long long, GS_MOMENTS>(index, packed, count, to, stream)
                 : queue_add_packed<float, GS_MOMENTS>(index, packed, count, to, stream);
}

gs_status gs_share_add_moments(const uint32_t *index, const gs_moments *from, int64_t count, gs_moments *to,
                               gs_stream stream) {
    return queue_add(__func__, index, reinterpret_cast<const float *>(from), count,
                     reinterpret_cast<float *>(to), stream);
}

gs_status gs_share_add_sums(const uint32_t *index, const int64_t *from, int64_t count, int64_t *to,
                            gs_stream stream) {
    return queue_add(__func__, index, from, count, to, stream);
}

gs_status gs_share_row_pairs(const gs_view *view, int64_t *pairs, gs_stream stream) {
    GS_TRY(check_lists(__func__, view));
    GS_TRY(check_one_view(__func__, view));
    GS_REQUIRE(pairs, "pairs must be given");
    GS_CUDA(launch_for(stream, view->lists.tiles_y, share_block, row_pairs_kernel, view->lists.tile_begin,
                       view->lists.tiles_x, view->lists.tiles_y, pairs));
    return GS_OK;
}
