// SPDX-License-Identifier: MIT
// A scene on several GPUs with the strategy fixed: what its scales need of a whole image, and its integers
// (distwar_gs_share.h).
#include "blend/blend_fixed.cuh"
#include "check.h"
#include "distwar_gs_share.h"
#include "launch.cuh"
#include "status.h"
#include <distwar/block.cuh>

using namespace gs;

namespace {

constexpr int share_block = 256, largest_blocks = 64;

// Floats >= 0 order as their bits do.
__global__ void __launch_bounds__(share_block)
    largest_kernel(const gs_splat *splats, int64_t count, bool inverse_depth, gs_largest_values *largest) {
    const int64_t step = int64_t(gridDim.x) * share_block;
    unsigned color = 0, depth = 0;
    for (int64_t i = int64_t(blockIdx.x) * share_block + threadIdx.x; i < count; i += step) {
        const gs_splat &splat = splats[blockIdx.y * count + i];
        if (splat.depth == 0) continue;
        for (int c = 0; c < GS_CHANNELS; c++) color = max(color, __float_as_uint(fabsf(splat.color[c])));
        depth = max(depth, __float_as_uint(summed_depth(splat.depth, inverse_depth)));
    }
    __syncwarp();
    color = largest_in_warp(color), depth = largest_in_warp(depth);
    if (threadIdx.x % 32 != 0) return;
    atomicMax(reinterpret_cast<unsigned *>(&largest[blockIdx.y].color), color);
    atomicMax(reinterpret_cast<unsigned *>(&largest[blockIdx.y].depth), depth);
}

// Block (r, c): row first + r of tiles, channel c, or depth.
__global__ void __launch_bounds__(share_block)
    row_sums_kernel(const float *color_gradient, const float *depth_gradient, int width, int height,
                    int first, double *sums) {
    __shared__ distwar::block_sum_memory<1, share_block, double> memory;
    const int row = first + int(blockIdx.x), begin = row * GS_TILE_SIZE,
              end = min(begin + GS_TILE_SIZE, height);
    const bool of_depth = blockIdx.y == GS_CHANNELS;
    const float *const plane =
        of_depth ? depth_gradient : color_gradient + int64_t(blockIdx.y) * width * height;
    double sum[1] = {}, total[1];
    for (int64_t i = int64_t(begin) * width + threadIdx.x; plane && i < int64_t(end) * width;
         i += share_block)
        sum[0] += double(fabsf(plane[i]));
    distwar::block_sum(sum, memory, total);
    if (threadIdx.x == 0) sums[row * GS_ROW_SUMS + int(blockIdx.y)] = total[0];
}

__global__ void bound_of_rows_kernel(const double *sums, int rows, gs_largest_values *largest) {
    double color = 0, depth = 0;
    for (int row = 0; row < rows; row++, sums += GS_ROW_SUMS) {
        for (int c = 0; c < GS_CHANNELS; c++) color += sums[c];
        depth += sums[GS_CHANNELS];
    }
    largest->d_color = fixed::at_least(color), largest->d_depth = fixed::at_least(depth);
}

__global__ void units_kernel(const fixed::header *in, int summed, gs_fixed_units *out) {
    const int k = int(threadIdx.x);
    if (k < GS_MOMENTS_STRIDE) out->scale[k] = in->scale[k];
    if (k == 0) out->invalid = in->flag != 0, out->summed = float(summed);
    if (k < 2) out->reserved[k] = 0;
}

__global__ void __launch_bounds__(share_block)
    from_sums_kernel(const long long *sums, const gs_fixed_units *units, int64_t values, float *out) {
    const int64_t i = int64_t(blockIdx.x) * share_block + threadIdx.x, of_all = blockIdx.y * values + i;
    const gs_fixed_units &of_view = units[blockIdx.y];
    if (i >= values) return;
    const int k = int(i % GS_MOMENTS_STRIDE);
    const bool summed = k < int(of_view.summed) && of_view.scale[k] > 0;
    out[of_all] = !summed                ? 0
                  : of_view.invalid != 0 ? NAN
                                         : distwar::fixed_to_float(sums[of_all], of_view.scale[k]);
}

} // namespace

gs_status gs_largest(const gs_view *view, gs_largest_values *largest, gs_stream stream) {
    GS_TRY(check_extent(__func__, view));
    const int64_t count = view->gaussians.count;
    GS_REQUIRE(largest && (count == 0 || view->splats), "largest and splats must be given");
    GS_REQUIRE(channels_of(&view->gaussians) == GS_CHANNELS, "channels must be 3");
    const unsigned views = unsigned(view_count(view)), blocks = blocks_for(count, share_block);
    GS_CUDA(cudaMemsetAsync(largest, 0, views * sizeof *largest, stream));
    GS_CUDA(launch(stream, dim3(blocks < largest_blocks ? blocks : largest_blocks, views), share_block,
                   largest_kernel, view->splats, count, view->inverse_depth != 0, largest));
    return GS_OK;
}

gs_status gs_share_row_sums(const gs_view *view, gs_rows rows, const gs_gradient *gradient, double *sums,
                            gs_stream stream) {
    GS_TRY(check_extent(__func__, view));
    GS_TRY(check_rows(__func__, view, rows));
    GS_REQUIRE(gradient && gradient->color && sums, "the gradient of the colours and sums must be given");
    GS_CUDA(launch(stream, dim3(unsigned(rows.end - rows.begin), GS_ROW_SUMS), share_block, row_sums_kernel,
                   gradient->color, gradient->depth, view->camera.width, view->camera.height, rows.begin,
                   sums));
    return GS_OK;
}

gs_status gs_share_bound(const gs_view *view, const double *sums, gs_largest_values *largest,
                         gs_stream stream) {
    GS_TRY(check_extent(__func__, view));
    GS_REQUIRE(sums && largest, "sums and largest must be given");
    GS_CUDA(launch(stream, 1, 1, bound_of_rows_kernel, sums, tile_rows_of(view), largest));
    return GS_OK;
}

gs_status gs_fixed_sums(const gs_view *view, const gs_gradient *gradient, const int64_t **sums,
                        gs_fixed_units *units, gs_stream stream) {
    GS_TRY(check_one_view(__func__, view));
    GS_REQUIRE(gradient && gradient->moments && sums && units,
               "moments of the gradient, sums and units must be given");
    const int channels = channels_of(&view->gaussians);
    GS_REQUIRE(channels == GS_CHANNELS, "channels must be 3");
    const int64_t count = view->gaussians.count;
    const fixed::sums_memory memory = fixed::memory_of(gradient->moments, count, channels);
    GS_REQUIRE(gradient->moments_bytes >= memory.bytes, "the moments are not of DISTWAR_FIXED");
    *sums = reinterpret_cast<const int64_t *>(memory.sums);
    if (view->lists.pairs == 0) { // nothing was drawn, so nothing was written
        GS_CUDA(cudaMemsetAsync(memory.sums, 0, size_t(count) * sizeof(gs_moments) * 2, stream));
        GS_CUDA(cudaMemsetAsync(units, 0, sizeof *units, stream));
        return GS_OK;
    }
    GS_CUDA(launch(stream, 1, 32, units_kernel, memory.head, fixed::summed_moments(*gradient), units));
    return GS_OK;
}

gs_status gs_moments_from_sums(const int64_t *sums, const gs_fixed_units *units, int64_t count, int32_t views,
                               gs_moments *moments, gs_stream stream) {
    GS_TRY(check_count(__func__, count));
    GS_REQUIRE(views >= 0 && views <= GS_MAX_VIEWS, "views must be in 0..32");
    GS_REQUIRE(count == 0 || views == 0 || (sums && units && moments),
               "sums, units and moments must be given");
    const int64_t values = count * GS_MOMENTS_STRIDE;
    GS_CUDA(launch(stream, dim3(blocks_for(values, share_block), unsigned(views)), share_block,
                   from_sums_kernel, reinterpret_cast<const long long *>(sums), units, values,
                   reinterpret_cast<float *>(moments)));
    return GS_OK;
}
