// SPDX-License-Identifier: MIT
// The strategy fixed, before and after the blend: bounds, scales, and floats of the sums (blend_fixed.cuh).
#include "blend_fixed.cuh"
#include "check.h"
#include "rows.h"
#include <distwar/block.cuh>
#include <math.h>

namespace gs {
namespace fixed {
namespace {

constexpr int scale_exponent = 56; // sums stay below 2^56 units

struct bound_input {
    const gs_splat *splats;
    int64_t count, pixels;
    int channels;
    const float *colors; // [count][channels]; NULL: those of the splats
    gs_image image;
    const float *color_gradient, *alpha_gradient, *depth_gradient; // may be NULL
    depth_form form;
    int pixel_blocks; // that sum over pixels: their number, and so the rounding, does not depend on count
};

__device__ float larger(float a, float b) { // NaN if either is
    return a > b || a != a ? a : b;
}

// The largest value over the block, in thread 0; not negative.
__device__ float largest_in_block(float value) {
    __shared__ unsigned of_warp[threads / 32];
    // Floats >= 0 order as their bits do; NaN is above all.
    const unsigned largest = largest_in_warp(__float_as_uint(value));
    __syncthreads(); // of_warp may still be read from the call before
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
    __syncthreads();
    float all = 0;
    for (const unsigned each : of_warp) all = larger(__uint_as_float(each), all);
    return all;
}

// The bounds over the block, in thread 0. By all threads of the block.
__device__ bounds block_bounds(const bounds &mine) {
    __shared__ distwar::block_sum_memory<3, threads, double> memory;
    const double value[3] = {mine.d_color, mine.d_depth, mine.d_alpha};
    double sum[3];
    distwar::block_sum(value, memory, sum);
    return {sum[0], sum[1], sum[2], largest_in_block(mine.largest_color),
            largest_in_block(mine.largest_depth)};
}

__global__ void __launch_bounds__(threads) bound_kernel(const bound_input in, header *out) {
    const int64_t first = int64_t(blockIdx.x) * threads + threadIdx.x, step = int64_t(gridDim.x) * threads;
    const int64_t pixels = int(blockIdx.x) < in.pixel_blocks ? in.pixels : 0;
    const int64_t pixel_step = int64_t(in.pixel_blocks) * threads;
    bounds mine = {};
    for (int64_t i = first; in.color_gradient && i < in.channels * pixels; i += pixel_step)
        mine.d_color += double(fabsf(in.color_gradient[i]));
    for (int64_t i = first; in.alpha_gradient && i < pixels; i += pixel_step)
        mine.d_alpha += double(fabsf(in.alpha_gradient[i]));
    for (int64_t i = first; in.depth_gradient && i < pixels; i += pixel_step) {
        const float d_depth = in.depth_gradient[i], alpha = 1 - in.image.transmittance[i];
        if (!in.form.normalized) {
            mine.d_depth += double(fabsf(d_depth));
        } else if (alpha > 0) {
            mine.d_depth += double(fabsf(d_depth / alpha));
            mine.d_alpha += double(fabsf(d_depth / alpha * in.image.depth[i]));
        }
    }
    for (int64_t i = first; i < in.count; i += step) {
        const gs_splat &splat = in.splats[i];
        if (splat.depth == 0) continue;
        const float *const color = in.colors ? in.colors + i * in.channels : splat.color;
        for (int c = 0; c < in.channels; c++)
            mine.largest_color = larger(fabsf(color[c]), mine.largest_color);
        mine.largest_depth = larger(summed_depth(splat.depth, in.form.inverse), mine.largest_depth);
    }
    const bounds all = block_bounds(mine);
    if (threadIdx.x == 0) out->of_block[blockIdx.x] = all;
}

// The smallest power of two above the bound becomes 2^scale_exponent units.
__device__ float scale_of(double bound, unsigned *flag) {
    if (!isfinite(bound)) {
        *flag |= distwar::fixed_nan;
        return 1;
    }
    const int exponent = bound > 0x1p-40 ? ilogb(bound) + 1 : -40;
    return float(ldexp(1.0, scale_exponent - exponent));
}

__global__ void __launch_bounds__(threads)
    scale_kernel(int blocks, float largest_background, const gs_largest_values *largest_of_image,
                 bool inverse_depth, header *out) {
    bounds mine = {};
    if (int(threadIdx.x) < blocks) mine = out->of_block[threadIdx.x];
    if (largest_of_image)
        mine.largest_color = largest_of_image->color, mine.largest_depth = largest_of_image->depth;
    mine.largest_color = larger(mine.largest_color, largest_background);
    bounds all = block_bounds(mine);
    if (threadIdx.x != 0) return;
    if (largest_of_image)
        all.d_color = double(largest_of_image->d_color), all.d_depth = double(largest_of_image->d_depth);
    else // floats too, so that both have the same power of two above
        all.d_color = double(at_least(all.d_color)), all.d_depth = double(at_least(all.d_depth));
    const double h = 2 * double(all.largest_color) * all.d_color +
                     2 * double(all.largest_depth) * all.d_depth + all.d_alpha;
    const float h_scale = scale_of(h, &out->flag);
    for (int c = 0; c < GS_CHANNELS; c++) out->scale[MOMENT_COLOR + c] = scale_of(all.d_color, &out->flag);
    const double largest = double(all.largest_depth), slope = inverse_depth ? largest * largest : 1;
    out->scale[MOMENT_DEPTH] = scale_of(all.d_depth * slope, &out->flag);
    out->scale[MOMENT_H] = h_scale;
    out->scale[MOMENT_H_E0] = out->scale[MOMENT_H_E1] = h_scale / 4; // sqrt(8), rounded up to a power of two
    out->scale[MOMENT_ABS_X] = out->scale[MOMENT_ABS_Y] = h_scale / 4;
    out->scale[MOMENT_H_E0E0] = out->scale[MOMENT_H_E1E1] = h_scale / 8;
    out->scale[MOMENT_H_E0E1] = h_scale / 4;
}

// One sum per thread. summed: fields of gs_moments that are summed, the others become 0; or 0: `sums` are rows of
// colours.
__global__ void __launch_bounds__(threads)
    convert_kernel(const long long *sums, const header *in, int64_t values, int summed, float *out) {
    const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
    if (i >= values) return;
    const int k = summed == 0 ? int(MOMENT_COLOR) : int(i % GS_MOMENTS_STRIDE);
    out[i] = summed != 0 && k >= summed ? 0 : in->flag ? NAN : distwar::fixed_to_float(sums[i], in->scale[k]);
}

cudaError_t convert(const long long *sums, const header *in, int64_t values, int summed, float *out,
                    gs_stream stream) {
    return launch_for(stream, values, threads, convert_kernel, sums, in, values, summed, out);
}

// The largest absolute value of the background; NaN if one is NaN.
float largest_background(const gs_view &view, int channels) {
    const float *const from = channels == GS_CHANNELS ? view.background : view.channel_background;
    float largest = 0;
    for (int c = 0; from && c < channels; c++) {
        const float size = fabsf(from[c]);
        if (!(size <= largest)) largest = size;
        if (isnan(largest)) break;
    }
    return largest;
}

} // namespace

cudaError_t begin(const gs_view &view, const gs_gradient &gradient, gs_stream stream) {
    const int64_t count = splat_count(&view), pixels = view_count(&view) * int64_t(plane_of(view));
    const int channels = channels_of(&view.gaussians);
    const sums_memory memory = memory_of(gradient.moments, count, channels);
    const int64_t values = channels * pixels, summed = gradient.largest ? 0 : count; // splats
    const auto blocks_of = [](int64_t items) {
        return int(items / (8 * threads) < most_blocks ? items / (8 * threads) + 1 : most_blocks);
    };
    const bound_input input = {view.splats,
                               summed,
                               pixels,
                               channels,
                               channels == GS_CHANNELS ? nullptr : view.gaussians.color,
                               view.image,
                               gradient.largest ? nullptr : gradient.color,
                               gradient.alpha,
                               gradient.largest ? nullptr : gradient.depth,
                               depth_form_of(view),
                               blocks_of(values)};
    const int blocks = input.pixel_blocks > blocks_of(summed) ? input.pixel_blocks : blocks_of(summed);
    cudaError_t status = cudaMemsetAsync(memory.head, 0, memory.head_bytes, stream);
    if (status == cudaSuccess)
        status = launch(stream, unsigned(blocks), threads, bound_kernel, input, memory.head);
    if (status == cudaSuccess)
        status = launch(stream, 1u, threads, scale_kernel, blocks, largest_background(view, channels),
                        gradient.largest, view.inverse_depth != 0, memory.head);
    return status;
}

cudaError_t end(const gs_view &view, const gs_gradient &gradient, gs_stream stream) {
    const int64_t count = splat_count(&view);
    const int channels = channels_of(&view.gaussians);
    const sums_memory memory = memory_of(gradient.moments, count, channels);
    const int summed = summed_moments(gradient);
    cudaError_t status = convert(memory.sums, memory.head, count * GS_MOMENTS_STRIDE, summed,
                                 reinterpret_cast<float *>(gradient.moments), stream);
    if (status == cudaSuccess && channels != GS_CHANNELS)
        status = convert(memory.sums + count * GS_MOMENTS_STRIDE, memory.head, count * channels, 0,
                         gradient.gaussians.color, stream);
    return status;
}

} // namespace fixed
} // namespace gs
