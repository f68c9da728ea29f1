// SPDX-License-Identifier: MIT
// GS_FIXED: moments that are the same to the last bit in every run. A warp's sums are floats, added in an
// order that is always the same; from warps on they are 64-bit integers, for which the order, that of the
// atomics, does not matter.
//
// The scale of each moment is a power of two, and small enough that its sum cannot overflow, by this rule.
// Let S be the sum of |dL/dcolor| over pixels and channels, A that of |dL/dalpha|, and K the largest absolute
// value in the colours of the visible splats and the background. At a pixel with gradient g (docs/math.md,
// section 3):
// - |T alpha g_c| <= |g_c|, since T <= 1 and alpha < 1: the sum of a colour's moment is at most S.
// - Both colour . g and B, a mixture of such products and of background . g - dL/dalpha, are at most
//   K |g|_1 + |dL/dalpha|, and B alone has the last term: |h| = T alpha |colour . g - B| <= 2 K |g|_1 +
//   |dL/dalpha|, and the sum of |h| at most H = 2 K S + A.
// - A splat counts where |e|^2 <= log2(255 opacity) < 8, e as the kernels scale it: the sums with e0 or e1
//   are at most sqrt(8) H, those with e0^2 or e1^2 8 H, that with e0 e1 4 H.
// Rounding adds less than a hundredth: at most 2,344 splats count at a pixel, as each takes at least 1/255 of
// the light until 1e-4 is left. With the scale's bound below 2^56 units for each of these sums, a factor of
// 128 is left to the ends of a 64-bit integer. What does not follow the rule all the same, because the
// gradient is not finite or a value is above 2^57 units, raises a flag, and with the flag all moments become
// NaN: a wrong sum is never handed on.
#ifndef GS_BLEND_FIXED_CUH
#define GS_BLEND_FIXED_CUH

#include "blend_backward.cuh"
#include <distwar/block.cuh>
#include <distwar/fixed.cuh>

namespace fixed {

constexpr int threads = 256, most_blocks = threads; // so that one block can sum what all left
constexpr int scale_exponent = 56;                  // sums stay below 2^56 units
constexpr int log2_adds = 6;                        // of to_fixed: single values may have 2^57

// Of one block's part of the image and of the splats.
struct bounds {
    double by_color, by_alpha;
    float largest_color;
};

// What lies behind the moments in their memory; then follow the sums, [count][GS_MOMENTS_STRIDE].
struct header {
    float scale[GS_MOMENTS]; // units per 1
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

// All of the block's, in thread 0; by the whole block.
__device__ inline bounds total(double by_color, double by_alpha, float largest_color) {
    __shared__ distwar::block_sum_memory<2, threads, double> memory;
    __shared__ unsigned of_warp[threads / 32];
    // Floats that are not negative are ordered as their bits are, and NaN is the largest.
    const unsigned largest = largest_in_warp(__float_as_uint(largest_color));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
    const double value[2] = {by_color, by_alpha};
    double sum[2];
    distwar::block_sum(value, memory, sum);
    bounds all = {sum[0], sum[1], 0};
    for (const unsigned each : of_warp) all.largest_color = larger(__uint_as_float(each), all.largest_color);
    return all;
}

static __global__ void __launch_bounds__(threads)
    bound_kernel(const backward_input in, int64_t count, header *out) {
    const int64_t first = int64_t(blockIdx.x) * threads + threadIdx.x, step = int64_t(gridDim.x) * threads;
    const int64_t pixels = int64_t(in.width) * in.height;
    double by_color = 0, by_alpha = 0;
    float largest = 0;
    for (int64_t i = first; i < 3 * pixels; i += step) by_color += double(fabsf(in.color_gradient[i]));
    for (int64_t i = first; in.alpha_gradient && i < pixels; i += step)
        by_alpha += double(fabsf(in.alpha_gradient[i]));
    for (int64_t i = first; i < count; i += step) {
        if (in.splats[i].depth == 0) continue;
        for (int c = 0; c < 3; c++) largest = larger(fabsf(in.splats[i].color[c]), largest);
    }
    const bounds all = total(by_color, by_alpha, largest);
    if (threadIdx.x == 0) out->of_block[blockIdx.x] = all;
}

static __global__ void __launch_bounds__(threads) scale_kernel(int blocks, color3 background, header *out) {
    bounds mine = {};
    if (int(threadIdx.x) < blocks) mine = out->of_block[threadIdx.x];
    const float behind = larger(fabsf(background.r), larger(fabsf(background.g), fabsf(background.b)));
    const bounds all = total(mine.by_color, mine.by_alpha, larger(mine.largest_color, behind));
    if (threadIdx.x != 0) return;
    const double h = 2 * double(all.largest_color) * all.by_color + all.by_alpha;
    // The least power of two above the bound becomes 2^scale_exponent units.
    const auto scale = [&](double bound) {
        if (!isfinite(bound)) {
            out->flag |= distwar::fixed_nan;
            return 1.0f;
        }
        const int exponent = bound > 0x1p-40 ? ilogb(bound) + 1 : -40;
        return float(ldexp(1.0, scale_exponent - exponent));
    };
    const float by_color = scale(all.by_color), by_h = scale(h);
    for (int k = 0; k < GS_MOMENTS; k++) {
        const float most[GS_MOMENTS] = {1, 1, 1, 1, 4, 4, 8, 4, 8};
        out->scale[k] = (k < 3 ? by_color : by_h) / most[k];
    }
}

static __global__ void __launch_bounds__(threads)
    convert_kernel(const long long *sums, const header *in, int64_t values, float *moments) {
    const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
    if (i >= values) return;
    const int k = int(i % GS_MOMENTS_STRIDE);
    moments[i] = k >= GS_MOMENTS ? 0 : in->flag ? NAN : distwar::fixed_to_float(sums[i], in->scale[k]);
}

} // namespace fixed

// As warp_commit with the strategy tree and threshold 0, on integers.
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

// Queues all of it; moments has the memory that gs_moments_bytes says.
inline cudaError_t launch_fixed_backward(gs_stream stream, const backward_input &input, int64_t count,
                                         float *moments) {
    char *const memory = reinterpret_cast<char *>(moments) + fixed::float_bytes(count);
    auto *const header = reinterpret_cast<fixed::header *>(memory);
    auto *const sums = reinterpret_cast<long long *>(memory + fixed::header_bytes);
    const int64_t values = 3 * int64_t(input.width) * input.height;
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

#endif
