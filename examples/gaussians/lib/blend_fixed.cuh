// SPDX-License-Identifier: MIT
// The strategy fixed: moments with the same bits in every run. A warp sums floats in a fixed order. From
// warps on, the sums are 64-bit integers, so the order of the atomics does not matter.
//
// The scale of each moment is a power of two, chosen so that no sum can overflow. Let S be the sum of
// |d_color| over pixels and channels, A the sum of |d_alpha|, and K the largest absolute value among the
// colours of visible splats and the background. For a pixel with gradient g (docs/math.md, section 3):
// - |T alpha g_c| <= |g_c|, since T <= 1 and alpha < 1. So the sum of a colour's moment is at most S.
// - colour . g and B are both at most K |g|_1 + |d_alpha|: B is a convex combination of such products and of
//   background . g - d_alpha. Only B has the last term, so |h| = T alpha |colour . g - B| <= 2 K |g|_1 +
//   |d_alpha|, and the sum of |h| is at most H = 2 K S + A.
// - A splat counts where |e|^2 <= log2(255 opacity) < 8, with e in the kernels' scale. So sums with e0 or e1
//   are at most sqrt(8) H, with e0^2 or e1^2 8 H, with e0 e1 4 H.
// Rounding adds less than 1%: at most 2,344 splats count at a pixel, since each takes at least 1/255 of the
// light until 1e-4 is left. Each bound is scaled to below 2^56 units, which leaves a factor of 128 to the
// range of a 64-bit integer. A gradient that is not finite, or a value above 2^57 units, raises a flag. With
// the flag all moments become NaN; a wrong sum is never returned.
#ifndef GS_BLEND_FIXED_CUH
#define GS_BLEND_FIXED_CUH

#include "blend_backward.cuh"
#include <distwar/block.cuh>
#include <distwar/fixed.cuh>

namespace gs {

namespace fixed {

constexpr int threads = 256, most_blocks = threads; // one block sums the parts of all blocks
constexpr int scale_exponent = 56;                  // sums stay below 2^56 units
constexpr int log2_adds = 6;                        // of to_fixed: a single value may have 2^57 units

// Over one block's part of the image and of the splats.
struct bounds {
    double d_color, d_alpha; // sums of absolute values
    float largest_color;
};

// Follows the moments in their memory. The integer sums, [count][GS_MOMENTS_STRIDE], follow the header.
struct header {
    float scale[GS_MOMENTS]; // units per 1.0
    unsigned flag;           // of distwar::fixed_flag
    bounds of_block[most_blocks];
};
constexpr size_t header_bytes = (sizeof(header) + 255) / 256 * 256;

inline size_t float_bytes(int64_t count) {
    return (size_t(count) * GS_MOMENTS_STRIDE * sizeof(float) + 255) / 256 * 256;
}

inline size_t sum_bytes(int64_t count) {
    return size_t(count) * GS_MOMENTS_STRIDE * sizeof(long long);
}

__device__ inline float larger(float a, float b) { // NaN if either is
    return a > b || a != a ? a : b;
}

// The bounds over the block, in thread 0. By all threads of the block.
__device__ inline bounds block_bounds(double d_color, double d_alpha, float largest_color) {
    __shared__ distwar::block_sum_memory<2, threads, double> memory;
    __shared__ unsigned of_warp[threads / 32];
    // Floats >= 0 order as their bits do; NaN is above all.
    const unsigned largest = largest_in_warp(__float_as_uint(largest_color));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
    const double value[2] = {d_color, d_alpha};
    double sum[2];
    distwar::block_sum(value, memory, sum);
    bounds all = {sum[0], sum[1], 0};
    for (const unsigned each : of_warp) all.largest_color = larger(__uint_as_float(each), all.largest_color);
    return all;
}

static __global__ void __launch_bounds__(threads)
    bound_kernel(const backward_input in, int64_t count, header *out) {
    const int64_t first = int64_t(blockIdx.x) * threads + threadIdx.x, step = int64_t(gridDim.x) * threads;
    const int64_t pixels = int64_t(in.width) * in.height * (in.lists.views > 1 ? in.lists.views : 1);
    double d_color = 0, d_alpha = 0;
    float largest = 0;
    for (int64_t i = first; i < GS_CHANNELS * pixels; i += step)
        d_color += double(fabsf(in.color_gradient[i]));
    for (int64_t i = first; in.alpha_gradient && i < pixels; i += step)
        d_alpha += double(fabsf(in.alpha_gradient[i]));
    for (int64_t i = first; i < count; i += step) {
        if (in.splats[i].depth == 0) continue;
        for (int c = 0; c < GS_CHANNELS; c++) largest = larger(fabsf(in.splats[i].color[c]), largest);
    }
    const bounds all = block_bounds(d_color, d_alpha, largest);
    if (threadIdx.x == 0) out->of_block[blockIdx.x] = all;
}

static __global__ void __launch_bounds__(threads) scale_kernel(int blocks, color3 background, header *out) {
    bounds mine = {};
    if (int(threadIdx.x) < blocks) mine = out->of_block[threadIdx.x];
    float behind = 0;
    for (int c = 0; c < GS_CHANNELS; c++) behind = larger(fabsf(background.at[c]), behind);
    const bounds all = block_bounds(mine.d_color, mine.d_alpha, larger(mine.largest_color, behind));
    if (threadIdx.x != 0) return;
    const double h = 2 * double(all.largest_color) * all.d_color + all.d_alpha;
    // The smallest power of two above the bound becomes 2^scale_exponent units.
    const auto scale = [&](double bound) {
        if (!isfinite(bound)) {
            out->flag |= distwar::fixed_nan;
            return 1.0f;
        }
        const int exponent = bound > 0x1p-40 ? ilogb(bound) + 1 : -40;
        return float(ldexp(1.0, scale_exponent - exponent));
    };
    const float color_scale = scale(all.d_color), h_scale = scale(h);
    for (int c = 0; c < GS_CHANNELS; c++) out->scale[MOMENT_COLOR + c] = color_scale;
    out->scale[MOMENT_H] = h_scale;
    out->scale[MOMENT_H_E0] = out->scale[MOMENT_H_E1] = h_scale / 4; // sqrt(8), rounded up to a power of two
    out->scale[MOMENT_H_E0E0] = out->scale[MOMENT_H_E1E1] = h_scale / 8;
    out->scale[MOMENT_H_E0E1] = h_scale / 4;
}

static __global__ void __launch_bounds__(threads)
    convert_kernel(const long long *sums, const header *in, int64_t values, float *moments) {
    const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
    if (i >= values) return;
    const int k = int(i % GS_MOMENTS_STRIDE);
    moments[i] = k >= GS_MOMENTS ? 0 : in->flag ? NAN : distwar::fixed_to_float(sums[i], in->scale[k]);
}

} // namespace fixed

// warp_commit with the strategy tree and threshold 0, on integers.
struct fixed_commit {
    long long *sums;
    fixed::header *header;

    static constexpr bool whole_tile = false;
    struct memory {};

    __device__ __forceinline__ int farthest(int value, memory &) const { return largest_in_warp(value); }
    __device__ __forceinline__ void add(bool active, uint32_t index, const float (&value)[GS_MOMENTS],
                                        memory &) const {
        if (!__any_sync(full_warp, active)) return;
        float total[distwar::tree_places(GS_MOMENTS)];
        distwar::tree_total(active, value, total);
        const int k = int(threadIdx.x % 32);
        if (k >= GS_MOMENTS) return;
        unsigned flags = 0;
        const long long units = distwar::to_fixed<fixed::log2_adds>(total[0], header->scale[k], flags);
        if (flags != 0) atomicOr(&header->flag, flags);
        distwar::record<long long>{sums, GS_MOMENTS_STRIDE}.add_one(index, k, units);
    }
};

// Queues all kernels. moments: as gs_moments_bytes says.
inline cudaError_t launch_fixed_backward(gs_stream stream, const backward_input &input, int64_t count,
                                         float *moments) {
    char *const memory = reinterpret_cast<char *>(moments) + fixed::float_bytes(count);
    auto *const header = reinterpret_cast<fixed::header *>(memory);
    auto *const sums = reinterpret_cast<long long *>(memory + fixed::header_bytes);
    const int64_t views = input.lists.views > 1 ? input.lists.views : 1;
    const int64_t values = GS_CHANNELS * views * input.width * input.height;
    const int64_t wanted = (values > count ? values : count) / (8 * fixed::threads) + 1;
    const int blocks = wanted < fixed::most_blocks ? int(wanted) : fixed::most_blocks;
    cudaError_t status = cudaMemsetAsync(memory, 0, fixed::header_bytes + fixed::sum_bytes(count), stream);
    if (status == cudaSuccess)
        status = launch(stream, unsigned(blocks), fixed::threads, fixed::bound_kernel, input, count, header);
    if (status == cudaSuccess)
        status = launch(stream, 1u, fixed::threads, fixed::scale_kernel, blocks, input.background, header);
    if (status == cudaSuccess) status = launch_render_backward(stream, input, fixed_commit{sums, header});
    if (status == cudaSuccess)
        status = launch(stream, blocks_for(count * GS_MOMENTS_STRIDE, fixed::threads), fixed::threads,
                        fixed::convert_kernel, sums, header, count * GS_MOMENTS_STRIDE, moments);
    return status;
}

} // namespace gs

#endif
