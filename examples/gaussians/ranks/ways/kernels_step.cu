// SPDX-License-Identifier: MIT
// Kernels of a step in parts (kernels.h): the splats that parts of images need, the moments that come back, and with
// DISTWAR_FIXED what the scales need of a whole image, and the integers.
#include "blend_backward.cuh"
#include "kernels.h"
#include "partition.cuh"
#include <distwar/block.cuh>
#include <type_traits>

using namespace gs;

namespace {

constexpr int block = 256, largest_blocks = 64;

// The rows of tiles that a splat reaches; empty if it is culled or beside the image.
__device__ gs_rows rows_of(const gs_splat &splat, const tile_grid &grid) {
    if (!(splat.depth > 0)) return {0, 0};
    const tile_box box = box_of(reach_of(splat), grid);
    return area_of(box) > 0 ? gs_rows{box.y_begin, box.y_end} : gs_rows{0, 0};
}

// The splats of all views, among parts. Columns are views.
struct splats_of_parts {
    struct item {
        gs_splat splat;
        gs_rows rows;
    };
    const gs_splat *splats;
    int64_t count;  // of a view
    tile_grid grid; // of the whole images: parts have their own rows
    int groups;
    image_part part[MOST_PARTS];
    // Arguments of parts_gather:
    uint32_t *index;
    gs_splat *copies;
    int64_t room;

    __device__ item load(int64_t i) const {
        if (i >= count) return {{}, {0, 0}};
        const gs_splat splat = splats[blockIdx.y * count + i];
        return {splat, rows_of(splat, grid)};
    }
    __device__ bool may_have(int p) const { return part[p].view == int(blockIdx.y); }
    __device__ bool has(const item &of, int p) const {
        return max(of.rows.begin, part[p].rows.begin) < min(of.rows.end, part[p].rows.end);
    }
    __device__ void put(const item &of, int64_t i, int64_t place) const {
        if (place >= room) return;
        index[place] = uint32_t(blockIdx.y * count + i);
        copies[place] = of.splat;
    }
};

splats_of_parts items_of(const gs_view *view, const tile_partition *of, uint32_t *index, gs_splat *copies,
                         int64_t room) {
    gs_view whole = *view;
    whole.rows = {0, 0};
    splats_of_parts out = {};
    out.splats = view->splats, out.count = view->gaussians.count;
    out.grid = grid_of(&whole);
    out.groups = of->count;
    for (int p = 0; p < of->count; p++) out.part[p] = of->parts[p];
    out.index = index, out.copies = copies, out.room = room;
    return out;
}

// The records of a part that are not 0, by segments, which are the columns. Values: of a record that travel.
template <typename T, int Values>
struct records_of_segments {
    struct item {
        T value[Values];
        bool counts;
    };
    const T *records;
    T *packed;
    int groups;
    int64_t begin[RANKS_MAX], count[RANKS_MAX];

    __device__ item load(int64_t i) const {
        item out;
        out.counts = false;
        if (i >= count[blockIdx.y]) return out;
        const T *const record = records + (begin[blockIdx.y] + i) * GS_SPLAT_GRAD_STRIDE;
        DISTWAR_UNROLL
        for (int k = 0; k < Values; k++) out.value[k] = record[k];
        DISTWAR_UNROLL
        for (int k = 0; k < Values; k++) out.counts |= !(out.value[k] == 0); // NaN counts
        return out;
    }
    __device__ bool may_have(int segment) const { return segment == int(blockIdx.y); }
    __device__ bool has(const item &of, int) const { return of.counts; }
    __device__ void put(const item &of, int64_t i, int64_t place) const {
        T *const to = packed + place * (Values + 1);
        DISTWAR_UNROLL
        for (int k = 0; k < Values; k++) to[k] = of.value[k];
        *reinterpret_cast<uint32_t *>(to + Values) =
            uint32_t(i); // the place, in the first bytes of the last value
    }
};

template <typename T, int Values>
__global__ void __launch_bounds__(block)
    add_packed_kernel(const uint32_t *index, const T *packed, int64_t values, T *to) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= values) return;
    const int64_t record = i / Values, k = i - record * Values;
    const T *const from = packed + record * (Values + 1);
    const uint32_t place = *reinterpret_cast<const uint32_t *>(from + Values);
    to[int64_t(index[place]) * GS_SPLAT_GRAD_STRIDE + k] += from[k];
}

__global__ void __launch_bounds__(block)
    row_isects_kernel(const int64_t *tile_begin, int tiles_x, int rows, int64_t *pairs) {
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
    color = warp_max(color);
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
    if (k < GS_SPLAT_GRAD_STRIDE) out->scale[k] = in->scale[k];
    if (k == 0) out->invalid = in->flag != 0, out->summed = float(summed);
}

__global__ void __launch_bounds__(block)
    from_sums_kernel(const long long *sums, const fixed_units *units, int64_t values, float *out) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x, of_all = blockIdx.y * values + i;
    const fixed_units &of_view = units[blockIdx.y];
    if (i >= values) return;
    const int k = int(i % GS_SPLAT_GRAD_STRIDE);
    const bool summed = k < int(of_view.summed) && of_view.scale[k] > 0;
    out[of_all] = !summed                ? 0
                  : of_view.invalid != 0 ? NAN
                                         : distwar::fixed_to_float(sums[of_all], of_view.scale[k]);
}

// A partition in memory of this thread's context: that of gs_density_plan_step, which has no use in parts. Its scratch has the
// sums of parts_fixed_sums.
gs_status place_in_context(const char *function, int64_t items, int groups, partition *out) {
    block_layout layout = {}; // counts bytes
    GS_TRY(place_partition(&layout, items, groups, out));
    GS_TRY(libgs_memory(function, nullptr, CONTEXT_PLAN, layout.bytes, &layout.memory));
    layout.bytes = 0;
    return place_partition(&layout, items, groups, out);
}

// call(T, Values): the type of a record's values, and how many of them travel.
template <typename Call>
gs_status with_records(bool fixed, bool whole, const Call &call) {
    constexpr std::integral_constant<int, GS_SPLAT_GRAD_SUMS> sums = {};
    constexpr std::integral_constant<int, GS_SPLAT_GRAD_STRIDE> all = {};
    if (fixed) return whole ? call(0ll, all) : call(0ll, sums);
    return whole ? call(0.0f, all) : call(0.0f, sums);
}

} // namespace

gs_status parts_count(const gs_view *view, const tile_partition *of, int64_t *begin) {
    partition p;
    GS_TRY(place_in_context(__func__, view->gaussians.count, of->count, &p));
    return count_items(p, unsigned(view_count(view)), items_of(view, of, nullptr, nullptr, 0), begin);
}

gs_status parts_gather(const gs_view *view, const tile_partition *of, uint32_t *index, gs_splat *splats,
                       int64_t room) {
    partition p;
    GS_TRY(place_in_context(__func__, view->gaussians.count, of->count, &p));
    return put_items(p, unsigned(view_count(view)), items_of(view, of, index, splats, room));
}

gs_status parts_pack(const void *records, bool fixed, bool whole, int32_t segments, const int64_t *begin,
                     const int64_t *count, void *packed, int64_t *packed_begin) {
    const char *const function = __func__;
    return with_records(fixed, whole, [&](auto zero, auto values) {
        using T = decltype(zero);
        partition p;
        int64_t longest = 0;
        records_of_segments<T, values> items = {};
        items.records = static_cast<const T *>(records), items.packed = static_cast<T *>(packed);
        items.groups = segments;
        for (int s = 0; s < segments; s++) {
            items.begin[s] = begin[s], items.count[s] = count[s];
            if (count[s] > longest) longest = count[s];
        }
        GS_TRY(place_in_context(function, longest, segments, &p));
        GS_TRY(count_items(p, unsigned(segments), items, packed_begin));
        return put_items(p, unsigned(segments), items);
    });
}

gs_status parts_add_packed(const uint32_t *index, const void *packed, int64_t count, bool fixed, bool whole,
                           void *to) {
    return with_records(fixed, whole, [&](auto zero, auto values) {
        using T = decltype(zero);
        return GS_STATUS(launch_for(nullptr, count * values, block, add_packed_kernel<T, values>, index,
                                    static_cast<const T *>(packed), count * values, static_cast<T *>(to)));
    });
}

gs_status parts_row_isects(const gs_view *view, int64_t *pairs) {
    return GS_STATUS(launch_for(nullptr, view->ranges.tiles_y, block, row_isects_kernel,
                                view->ranges.tile_begin, view->ranges.tiles_x, view->ranges.tiles_y, pairs));
}

gs_status parts_largest(const gs_view *view, gs_largest_values *largest) {
    const int64_t count = view->gaussians.count;
    const unsigned views = unsigned(view_count(view)), blocks = blocks_for(count, block);
    GS_CUDA(cudaMemsetAsync(largest, 0, views * sizeof *largest, nullptr));
    return GS_STATUS(launch(nullptr, dim3(blocks < largest_blocks ? blocks : largest_blocks, views), block,
                            largest_kernel, view->splats, count, largest));
}

gs_status parts_row_sums(const gs_view *view, gs_rows rows, const float *gradient, double *sums) {
    return GS_STATUS(launch(nullptr, dim3(unsigned(rows.end - rows.begin), GS_CHANNELS), block,
                            row_sums_kernel, gradient, view->camera.width, view->camera.height, rows.begin,
                            sums));
}

gs_status parts_bound(const gs_view *view, const double *sums, gs_largest_values *largest) {
    return GS_STATUS(launch(nullptr, 1, 1, bound_of_rows_kernel, sums, tile_rows_of(view), largest));
}

gs_status parts_fixed_sums(const gs_view *view, const gs_gradient *gradient, const int64_t **sums,
                           fixed_units *units) {
    const int64_t count = view->gaussians.count;
    fixed::sums_memory memory;
    GS_TRY(
        fixed::sums_of(__func__, count, GS_CHANNELS, nullptr, &memory)); // the integers of gs_render_backward
    *sums = reinterpret_cast<const int64_t *>(memory.sums);
    if (view->ranges.isects == 0) { // nothing was drawn, so nothing was written
        GS_CUDA(cudaMemsetAsync(memory.sums, 0, size_t(count) * sizeof(gs_splat_grad) * 2, nullptr));
        return GS_STATUS(cudaMemsetAsync(units, 0, sizeof *units, nullptr));
    }
    return GS_STATUS(
        launch(nullptr, 1, 32, units_kernel, memory.head, fixed::summed_moments(*gradient), units));
}

gs_status parts_from_sums(const int64_t *sums, const fixed_units *units, int64_t count, int32_t views,
                          gs_splat_grad *splat_grad) {
    const int64_t values = count * GS_SPLAT_GRAD_STRIDE;
    return GS_STATUS(launch(nullptr, dim3(blocks_for(values, block), unsigned(views)), block,
                            from_sums_kernel, reinterpret_cast<const long long *>(sums), units, values,
                            reinterpret_cast<float *>(splat_grad)));
}
