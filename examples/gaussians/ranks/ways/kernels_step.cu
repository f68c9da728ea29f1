// SPDX-License-Identifier: MIT
// Kernels of a step in parts (kernels.h): the splats that parts of images need, the moments that come back, and with
// DISTWAR_FIXED what the scales need of a whole image, and the integers.
#include "blend_backward.cuh"
#include "check.h"
#include "gpu/block_layout.h"
#include "gpu/scan_sort.h"
#include "kernels.h"
#include "launch.cuh"
#include <distwar/block.cuh>
#include <distwar/warp.cuh>

using namespace gs;

namespace {

constexpr int block = 256, largest_blocks = 64;

// The parts of a launch, as kernels take them.
struct part_list {
    int count;
    image_part at[MOST_PARTS];
};

struct count_arrays {
    int64_t *
        begin; // [parts][blocks] and the end: entries of a part that a block of splats has; then where they begin
    void *scan;
    size_t scan_bytes;
};

unsigned blocks_of(const gs_view *view) {
    return blocks_for(view->gaussians.count, block);
}

gs_status place_arrays(const gs_view *view, int32_t parts, void *memory, count_arrays *out, size_t *bytes) {
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
        const image_part part = parts.at[p];
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

__global__ void __launch_bounds__(block)
    count_parts_kernel(const gs_splat *splats, int64_t count, tile_grid grid, part_list parts,
                       int64_t *counters) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    const bool reads = any_rows(parts) && i < count;
    const gs_rows rows = reads ? rows_of(splats[blockIdx.y * count + i], grid) : gs_rows{0, 0};
    for_parts(parts, rows, [&](int p, bool needed) {
        const int all = __syncthreads_count(needed);
        if (threadIdx.x == 0) counters[int64_t(p) * gridDim.x + blockIdx.x] = all;
    });
}

__global__ void __launch_bounds__(block)
    part_begin_kernel(const int64_t *begin, int parts, int64_t blocks, int64_t *part_begin) {
    const int p = int(threadIdx.x);
    if (p <= parts) part_begin[p] = begin[p * blocks];
}

// Where gather_kernel writes: members of part_entries.
struct gathered {
    uint32_t *index;
    gs_splat *splats;
    int64_t room, splats_room;
    int skip, skip_end;
};

// parts: begins with those before the first one that is gathered, which have no rows.
__global__ void __launch_bounds__(block)
    gather_kernel(const gs_splat *splats, int64_t count, tile_grid grid, part_list parts,
                  const int64_t *begin, const gathered out) {
    __shared__ int in_warp[block / 32];
    const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t i = int64_t(blockIdx.x) * block + thread, of_all = blockIdx.y * count + i;
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
__global__ void __launch_bounds__(block)
    add_kernel(const uint32_t *index, const T *from, int64_t values, T *to) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= values) return;
    const int64_t record = i / GS_MOMENTS_STRIDE, k = i - record * GS_MOMENTS_STRIDE;
    to[int64_t(index[record]) * GS_MOMENTS_STRIDE + k] += from[i];
}

// The segments of moment_packing.
struct segment_list {
    int64_t begin[RANKS_MAX], count[RANKS_MAX];
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
__global__ void __launch_bounds__(block)
    count_records_kernel(const T *records, const segment_list segments, int64_t *counters) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    T value[Values];
    const int all = __syncthreads_count(read_record(records, segments, i, value));
    if (threadIdx.x == 0) counters[int64_t(blockIdx.y) * gridDim.x + blockIdx.x] = all;
}

// begin: where the records of each block go.
template <typename T, int Values>
__global__ void __launch_bounds__(block)
    pack_records_kernel(const T *records, const segment_list segments, const int64_t *begin, T *packed) {
    __shared__ int in_warp[block / 32];
    const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int64_t i = int64_t(blockIdx.x) * block + thread;
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
__global__ void __launch_bounds__(block)
    add_packed_kernel(const uint32_t *index, const T *packed, int64_t values, T *to) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= values) return;
    const int64_t record = i / Values, k = i - record * Values;
    const T *const from = packed + record * (Values + 1);
    to[int64_t(index[place_in(from[Values])]) * GS_MOMENTS_STRIDE + k] += from[k];
}

__global__ void __launch_bounds__(block)
    row_pairs_kernel(const int64_t *tile_begin, int tiles_x, int rows, int64_t *pairs) {
    const int row = int(blockIdx.x) * block + int(threadIdx.x);
    if (row < rows) pairs[row] = tile_begin[(row + 1) * tiles_x] - tile_begin[row * tiles_x];
}

// Floats >= 0 order as their bits do.
__global__ void __launch_bounds__(block)
    largest_kernel(const gs_splat *splats, int64_t count, gs_largest_values *largest) {
    const int64_t step = int64_t(gridDim.x) * block;
    unsigned color = 0;
    for (int64_t i = int64_t(blockIdx.x) * block + threadIdx.x; i < count; i += step) {
        // A copy: through a reference, nvcc 13.0 reads other members of some splats, 24 bytes on, in the loop that it unrolls.
        const gs_splat splat = splats[blockIdx.y * count + i];
        if (splat.depth == 0) continue;
        for (int c = 0; c < GS_CHANNELS; c++) color = max(color, __float_as_uint(fabsf(splat.color[c])));
    }
    __syncwarp();
    color = largest_in_warp(color);
    if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned *>(&largest[blockIdx.y].color), color);
}

// Block (r, c): row first + r of tiles, channel c.
__global__ void __launch_bounds__(block)
    row_sums_kernel(const float *gradient, int width, int height, int first, double *sums) {
    __shared__ distwar::block_sum_memory<1, block, double> memory;
    const int row = first + int(blockIdx.x), begin = row * GS_TILE_SIZE,
              end = min(begin + GS_TILE_SIZE, height);
    const float *const plane = gradient + int64_t(blockIdx.y) * width * height;
    double sum[1] = {}, total[1];
    for (int64_t i = int64_t(begin) * width + threadIdx.x; i < int64_t(end) * width; i += block)
        sum[0] += double(fabsf(plane[i]));
    distwar::block_sum(sum, memory, total);
    if (threadIdx.x == 0) sums[row * GS_CHANNELS + int(blockIdx.y)] = total[0];
}

__global__ void bound_of_rows_kernel(const double *sums, int rows, gs_largest_values *largest) {
    double color = 0;
    for (int k = 0; k < rows * GS_CHANNELS; k++) color += sums[k];
    largest->d_color = fixed::at_least(color);
}

__global__ void units_kernel(const fixed::header *in, int summed, fixed_units *out) {
    const int k = int(threadIdx.x);
    if (k < GS_MOMENTS_STRIDE) out->scale[k] = in->scale[k];
    if (k == 0) out->invalid = in->flag != 0, out->summed = float(summed);
}

__global__ void __launch_bounds__(block)
    from_sums_kernel(const long long *sums, const fixed_units *units, int64_t values, float *out) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x, of_all = blockIdx.y * values + i;
    const fixed_units &of_view = units[blockIdx.y];
    if (i >= values) return;
    const int k = int(i % GS_MOMENTS_STRIDE);
    const bool summed = k < int(of_view.summed) && of_view.scale[k] > 0;
    out[of_all] = !summed                ? 0
                  : of_view.invalid != 0 ? NAN
                                         : distwar::fixed_to_float(sums[of_all], of_view.scale[k]);
}

part_list list_of(const part_entries *entries, int first, int end) {
    part_list out = {};
    out.count = end;
    for (int p = first; p < end; p++) out.at[p] = entries->parts[p];
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

gs_status place_packing(const moment_packing *packing, pack_arrays *out, size_t *bytes) {
    int64_t longest = 0;
    for (int s = 0; s < packing->segments; s++)
        if (packing->count[s] > longest) longest = packing->count[s];
    out->blocks = blocks_for(longest, block);
    const int64_t counters = int64_t(packing->segments) * out->blocks + 1;
    block_layout layout = {static_cast<char *>(packing->workspace), 0};
    GS_CUDA(scan_exclusive_bytes(counters, &out->scan_bytes));
    layout_add(&layout, size_t(counters), &out->begin);
    out->scan = layout_add(&layout, out->scan_bytes);
    *bytes = layout.bytes;
    return GS_OK;
}

template <typename T, int Values>
gs_status queue_pack(const moment_packing *packing, gs_stream stream) {
    pack_arrays a;
    size_t bytes;
    GS_TRY(place_packing(packing, &a, &bytes));
    const int64_t counters = int64_t(packing->segments) * a.blocks + 1;
    const dim3 grid(a.blocks, unsigned(packing->segments));
    segment_list segments = {};
    for (int s = 0; s < packing->segments; s++)
        segments.begin[s] = packing->begin[s], segments.count[s] = packing->count[s];
    const T *const records = static_cast<const T *>(packing->records);
    GS_CUDA(cudaMemsetAsync(a.begin + counters - 1, 0, sizeof(int64_t), stream));
    GS_CUDA(launch(stream, grid, block, count_records_kernel<T, Values>, records, segments, a.begin));
    GS_CUDA(scan_exclusive(a.begin, a.begin, counters, a.scan, a.scan_bytes, stream));
    GS_CUDA(launch(stream, 1, block, part_begin_kernel, a.begin, packing->segments, a.blocks,
                   packing->packed_begin));
    return GS_STATUS(launch(stream, grid, block, pack_records_kernel<T, Values>, records, segments, a.begin,
                            static_cast<T *>(packing->packed)));
}

template <typename T, int Values>
gs_status queue_add_packed(const uint32_t *index, const void *packed, int64_t count, void *to,
                           gs_stream stream) {
    return GS_STATUS(launch_for(stream, count * Values, block, add_packed_kernel<T, Values>, index,
                                static_cast<const T *>(packed), count * Values, static_cast<T *>(to)));
}

template <typename T>
gs_status queue_add(const uint32_t *index, const void *from, int64_t count, void *to, gs_stream stream) {
    return GS_STATUS(launch_for(stream, count * GS_MOMENTS_STRIDE, block, add_kernel<T>, index,
                                static_cast<const T *>(from), count * GS_MOMENTS_STRIDE,
                                static_cast<T *>(to)));
}

} // namespace

gs_status parts_count_bytes(const gs_view *view, int32_t parts, size_t *bytes) {
    count_arrays unplaced;
    return place_arrays(view, parts, nullptr, &unplaced, bytes);
}

gs_status parts_count(const gs_view *view, const part_entries *entries, gs_stream stream) {
    count_arrays a;
    size_t bytes;
    GS_TRY(place_arrays(view, entries->count, entries->workspace, &a, &bytes));
    const unsigned blocks = blocks_of(view);
    const int64_t counters = int64_t(entries->count) * blocks + 1;
    GS_CUDA(cudaMemsetAsync(a.begin + counters - 1, 0, sizeof(int64_t), stream));
    GS_CUDA(launch(stream, dim3(blocks, unsigned(view_count(view))), block, count_parts_kernel, view->splats,
                   view->gaussians.count, whole_grid(view), list_of(entries, 0, entries->count), a.begin));
    GS_CUDA(scan_exclusive(a.begin, a.begin, counters, a.scan, a.scan_bytes, stream));
    return GS_STATUS(
        launch(stream, 1, block, part_begin_kernel, a.begin, entries->count, blocks, entries->begin));
}

gs_status parts_gather(const gs_view *view, const part_entries *entries, gs_stream stream) {
    count_arrays a;
    size_t bytes;
    GS_TRY(place_arrays(view, entries->count, entries->workspace, &a, &bytes));
    if (entries->first == entries->end) return GS_OK;
    return GS_STATUS(launch(stream, dim3(blocks_of(view), unsigned(view_count(view))), block, gather_kernel,
                            view->splats, view->gaussians.count, whole_grid(view),
                            list_of(entries, entries->first, entries->end), a.begin,
                            gathered{entries->index, entries->splats, entries->room, entries->splats_room,
                                     entries->skip, entries->skip_end}));
}

gs_status parts_add(const uint32_t *index, const void *from, int64_t count, bool fixed, void *to,
                    gs_stream stream) {
    return (fixed ? queue_add<int64_t> : queue_add<float>)(index, from, count, to, stream);
}

gs_status parts_pack_bytes(const moment_packing *packing, size_t *bytes) {
    pack_arrays unplaced;
    return place_packing(packing, &unplaced, bytes);
}

gs_status parts_pack(const moment_packing *packing, gs_stream stream) {
    if (packing->whole)
        return packing->fixed ? queue_pack<long long, GS_MOMENTS_STRIDE>(packing, stream)
                              : queue_pack<float, GS_MOMENTS_STRIDE>(packing, stream);
    return packing->fixed ? queue_pack<long long, GS_MOMENTS>(packing, stream)
                          : queue_pack<float, GS_MOMENTS>(packing, stream);
}

gs_status parts_add_packed(const uint32_t *index, const void *packed, int64_t count, bool fixed, bool whole,
                           void *to, gs_stream stream) {
    if (whole)
        return fixed ? queue_add_packed<long long, GS_MOMENTS_STRIDE>(index, packed, count, to, stream)
                     : queue_add_packed<float, GS_MOMENTS_STRIDE>(index, packed, count, to, stream);
    return fixed ? queue_add_packed<long long, GS_MOMENTS>(index, packed, count, to, stream)
                 : queue_add_packed<float, GS_MOMENTS>(index, packed, count, to, stream);
}

gs_status parts_row_pairs(const gs_view *view, int64_t *pairs, gs_stream stream) {
    return GS_STATUS(launch_for(stream, view->lists.tiles_y, block, row_pairs_kernel, view->lists.tile_begin,
                                view->lists.tiles_x, view->lists.tiles_y, pairs));
}

gs_status parts_largest(const gs_view *view, gs_largest_values *largest, gs_stream stream) {
    const int64_t count = view->gaussians.count;
    const unsigned views = unsigned(view_count(view)), blocks = blocks_for(count, block);
    GS_CUDA(cudaMemsetAsync(largest, 0, views * sizeof *largest, stream));
    return GS_STATUS(launch(stream, dim3(blocks < largest_blocks ? blocks : largest_blocks, views), block,
                            largest_kernel, view->splats, count, largest));
}

gs_status parts_row_sums(const gs_view *view, gs_rows rows, const float *gradient, double *sums,
                         gs_stream stream) {
    return GS_STATUS(launch(stream, dim3(unsigned(rows.end - rows.begin), GS_CHANNELS), block,
                            row_sums_kernel, gradient, view->camera.width, view->camera.height, rows.begin,
                            sums));
}

gs_status parts_bound(const gs_view *view, const double *sums, gs_largest_values *largest, gs_stream stream) {
    return GS_STATUS(launch(stream, 1, 1, bound_of_rows_kernel, sums, tile_rows_of(view), largest));
}

gs_status parts_fixed_sums(const gs_view *view, const gs_gradient *gradient, const int64_t **sums,
                           fixed_units *units, gs_stream stream) {
    const int64_t count = view->gaussians.count;
    const fixed::sums_memory memory = fixed::memory_of(gradient->moments, count, GS_CHANNELS);
    *sums = reinterpret_cast<const int64_t *>(memory.sums);
    if (view->lists.pairs == 0) { // nothing was drawn, so nothing was written
        GS_CUDA(cudaMemsetAsync(memory.sums, 0, size_t(count) * sizeof(gs_moments) * 2, stream));
        return GS_STATUS(cudaMemsetAsync(units, 0, sizeof *units, stream));
    }
    return GS_STATUS(
        launch(stream, 1, 32, units_kernel, memory.head, fixed::summed_moments(*gradient), units));
}

gs_status parts_from_sums(const int64_t *sums, const fixed_units *units, int64_t count, int32_t views,
                          gs_moments *moments, gs_stream stream) {
    const int64_t values = count * GS_MOMENTS_STRIDE;
    return GS_STATUS(launch(stream, dim3(blocks_for(values, block), unsigned(views)), block, from_sums_kernel,
                            reinterpret_cast<const long long *>(sums), units, values,
                            reinterpret_cast<float *>(moments)));
}
