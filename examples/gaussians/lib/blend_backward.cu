// SPDX-License-Identifier: MIT
// gs_render_backward: the adjoint of gs_render, by the kernel of blend_backward.cuh with one of its Commits, in passes.
// With the strategy fixed also what comes before and after the passes: bounds, scales, and floats of the sums. Reads
// splats, lists, the image and its gradient, writes gs_splat_grad. Formulas: docs/developers/math.md, section 3.
#include "blend_backward.cuh"
#include "rows.h"
#include <algorithm>
#include <math.h>

namespace gs::fixed {
namespace {

// ---- fixed: before and after the passes ----

constexpr int scale_exponent = 56; // sums stay below 2^56 units

__device__ float larger(float a, float b) { // NaN if either is
    return a > b || a != a ? a : b;
}

// The largest value over the block, in thread 0; not negative.
__device__ float largest_in_block(float value) {
    __shared__ unsigned of_warp[threads / 32];
    // Floats >= 0 order as their bits do; NaN is above all.
    const unsigned largest = warp_max(__float_as_uint(value));
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

// colors: [count][channels]; NULL: those of the splats. The gradients may be NULL. pixel_blocks: that sum over pixels:
// their number, and so the rounding, does not depend on count.
__global__ void __launch_bounds__(threads)
    bound_kernel(const gs_splat *splats, int64_t count, const float *colors, int channels,
                 const gs_image image, int64_t all_pixels, const float *color_gradient,
                 const float *alpha_gradient, const float *depth_gradient, depth_form form, int pixel_blocks,
                 header *out) {
    const int64_t first = int64_t(blockIdx.x) * threads + threadIdx.x, step = int64_t(gridDim.x) * threads;
    const int64_t pixels = int(blockIdx.x) < pixel_blocks ? all_pixels : 0;
    const int64_t pixel_step = int64_t(pixel_blocks) * threads;
    bounds mine = {};
    for (int64_t i = first; color_gradient && i < channels * pixels; i += pixel_step)
        mine.d_color += double(fabsf(color_gradient[i]));
    for (int64_t i = first; alpha_gradient && i < pixels; i += pixel_step)
        mine.d_alpha += double(fabsf(alpha_gradient[i]));
    for (int64_t i = first; depth_gradient && i < pixels; i += pixel_step) {
        const float d_depth = depth_gradient[i], alpha = 1 - image.transmittance[i];
        if (!form.normalized) {
            mine.d_depth += double(fabsf(d_depth));
        } else if (alpha > 0) {
            mine.d_depth += double(fabsf(d_depth / alpha));
            mine.d_alpha += double(fabsf(d_depth / alpha * image.depth[i]));
        }
    }
    for (int64_t i = first; i < count; i += step) {
        const gs_splat &splat = splats[i];
        if (splat.depth == 0) continue;
        const float *const color = colors ? colors + i * channels : splat.color;
        for (int c = 0; c < channels; c++) mine.largest_color = larger(fabsf(color[c]), mine.largest_color);
        mine.largest_depth = larger(summed_depth(splat.depth, form.inverse), mine.largest_depth);
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

// One sum per thread. summed: fields of gs_splat_grad that are summed, the others become 0; or 0: `sums` are rows of
// colours.
__global__ void __launch_bounds__(threads)
    convert_kernel(const long long *sums, const header *in, int64_t values, int summed, float *out) {
    const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
    if (i >= values) return;
    const int k = summed == 0 ? int(MOMENT_COLOR) : int(i % GS_SPLAT_GRAD_STRIDE);
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

// What comes before the passes of a call.
cudaError_t begin(const gs_view &view, const gs_gradient &gradient, const sums_memory &memory,
                  gs_stream stream) {
    const int64_t count = splat_count(&view), pixels = view_count(&view) * int64_t(plane_of(view));
    const int channels = channels_of(&view.gaussians);
    const int64_t values = channels * pixels, summed = gradient.largest ? 0 : count; // splats
    const auto blocks_of = [](int64_t items) {
        return int(items / (8 * threads) < most_blocks ? items / (8 * threads) + 1 : most_blocks);
    };
    const int pixel_blocks = blocks_of(values), blocks = std::max(pixel_blocks, blocks_of(summed));
    cudaError_t status = cudaMemsetAsync(memory.head, 0, memory.bytes, stream);
    if (status == cudaSuccess)
        status = launch(stream, unsigned(blocks), threads, bound_kernel, view.splats, summed,
                        channels == GS_CHANNELS ? nullptr : view.gaussians.color, channels, view.image,
                        pixels, gradient.largest ? nullptr : gradient.color, gradient.alpha,
                        gradient.largest ? nullptr : gradient.depth, depth_form_of(view), pixel_blocks,
                        memory.head);
    if (status == cudaSuccess)
        status = launch(stream, 1u, threads, scale_kernel, blocks, largest_background(view, channels),
                        gradient.largest, view.inverse_depth != 0, memory.head);
    return status;
}

// What comes after them.
cudaError_t end(const gs_view &view, const gs_gradient &gradient, const sums_memory &memory,
                gs_stream stream) {
    const int64_t count = splat_count(&view);
    const int channels = channels_of(&view.gaussians);
    const int summed = summed_moments(gradient);
    cudaError_t status = convert(memory.sums, memory.head, count * GS_SPLAT_GRAD_STRIDE, summed,
                                 reinterpret_cast<float *>(gradient.splat_grad), stream);
    if (status == cudaSuccess && channels != GS_CHANNELS)
        status = convert(memory.sums + count * GS_SPLAT_GRAD_STRIDE, memory.head, count * channels, 0,
                         gradient.gaussians.color, stream);
    return status;
}

} // namespace
} // namespace gs::fixed

using namespace gs;

namespace {

// ---- passes ----

// A pass, over the channels first .. first + used - 1.
struct backward_pass {
    const gs_view *view;
    const gs_gradient *gradient;
    distwar_policy policy;
    fixed::sums_memory fixed; // with DISTWAR_FIXED
    int first, used;
    gs_stream stream;
};

template <typename Values>
backward_input<Values> input_of_pass(const backward_pass &pass) {
    const gs_view &view = *pass.view;
    const gs_gradient &gradient = *pass.gradient;
    const bool is_first = pass.first == 0; // what belongs to no channel is added once
    const gs_image image = image_of_pass(view, pass.first);
    backward_input<Values> in = {};
    if constexpr (Values::has_rows) in.rows = rows_of_pass(view.gaussians, pass.first, pass.used);
    if constexpr (Values::has_depth) {
        in.depth = image.depth;
        in.depth_gradient = is_first ? gradient.depth : nullptr;
        in.form = depth_form_of(view);
    }
    in.splats = view.splats, in.ranges = view.ranges;
    in.width = view.camera.width, in.height = view.camera.height;
    in.background = background_of<Values::channels>(view, pass.first, pass.used);
    in.color = image.color, in.transmittance = image.transmittance, in.n_contrib = image.n_contrib;
    in.color_gradient = gradient.color + size_t(pass.first) * plane_of(view);
    in.alpha_gradient = is_first ? gradient.alpha : nullptr;
    return in;
}

// splat_grad, colors: [count][GS_SPLAT_GRAD_STRIDE], [count][channels].
template <typename T>
pass_sums<T> sums_of_pass(T *splat_grad, T *colors, const backward_pass &pass) {
    return {splat_grad, colors ? colors + pass.first : nullptr, pass.view->gaussians.channels, pass.used};
}

// Queues the kernel; with the strategy fixed, between fixed::begin and fixed::end. Tree and fixed have kernels for
// every pass. The other strategies are there to be compared with them and have kernels for three channels only
// (docs/notes/rasteriser.md); other channels take the tree. Values: what the pass sums. Compared: what it sums with
// those strategies, at least Values: one kernel of theirs serves several kinds of pass.
template <typename Values, typename Compared = Values>
cudaError_t queue_pass(const backward_pass &pass) {
    const gs_gradient &gradient = *pass.gradient;
    const distwar_policy policy = pass.policy;
    if (policy.strategy == DISTWAR_FIXED) {
        long long *const sums = pass.fixed.sums;
        const auto of_pass = sums_of_pass(sums, sums + splat_count(pass.view) * GS_SPLAT_GRAD_STRIDE, pass);
        return launch_render_backward<Values>(pass.stream, input_of_pass<Values>(pass),
                                              fixed_commit{of_pass, pass.fixed.head});
    }
    const auto sums =
        sums_of_pass(reinterpret_cast<float *>(gradient.splat_grad), gradient.gaussians.color, pass);
    const auto queue_tree = [&] {
        return launch_render_backward<Values>(pass.stream, input_of_pass<Values>(pass),
                                              tree_commit{sums, std::max(policy.balance_threshold, 1)});
    };
    if constexpr (Values::has_rows) {
        return queue_tree();
    } else {
        const auto queue = [&](const auto &commit) {
            return launch_render_backward<Compared>(pass.stream, input_of_pass<Compared>(pass), commit);
        };
        if (policy.strategy == DISTWAR_BLOCK) {
            const float limit = gradient.block_limit;
            return queue(tile_commit<Compared>{sums, limit > 0 ? limit : INFINITY});
        }
        return distwar::with_strategy(distwar::strategy(policy.strategy), [&](auto strategy) {
            if constexpr (strategy == distwar::strategy::tree)
                return queue_tree();
            else
                return queue(warp_commit<strategy>{sums, policy.balance_threshold});
        });
    }
}

// Of GS_CHANNELS channels each kind of pass has kernels of its own. Of others the first has what is asked for.
template <int Channels>
cudaError_t queue_pass_of(const backward_pass &pass) {
    using both = pass_values<Channels, extras::both>;
    const bool depth = pass.first == 0 && pass.gradient->depth,
               absolute = pass.first == 0 && pass.gradient->abs_mean2d;
    if (!depth && !absolute) return queue_pass<pass_values<Channels>>(pass);
    if constexpr (Channels == GS_CHANNELS) {
        if (!absolute) return queue_pass<pass_values<Channels, extras::depth>, both>(pass);
        if (!depth) return queue_pass<pass_values<Channels, extras::absolute>, both>(pass);
    }
    return queue_pass<both>(pass);
}

gs_status check_backward(const char *function, const gs_view *view, const gs_gradient *gradient,
                         distwar_policy policy) {
    GS_TRY(check_blended(function, view));
    const bool split = view->ranges.split_tiles != 0;
    GS_REQUIRE_OF(function, view->image.color || !split,
                  "color of the image must be given where tiles are split");
    GS_TRY(check_policy(function, policy, blend_strategy_bits));
    const gs_gaussians *gaussians = &view->gaussians;
    const int channels = channels_of(gaussians);
    GS_REQUIRE_OF(function, gradient && gradient->color && (gaussians->count == 0 || gradient->splat_grad),
                  "color and splat_grad of the gradient must be given");
    GS_REQUIRE_OF(function, channels == GS_CHANNELS || gaussians->count == 0 || gradient->gaussians.color,
                  "gaussians.color of the gradient must be given unless there are 3 channels");
    GS_REQUIRE_OF(function, !gradient->depth || view->image.depth || !(split || view->normalize_depth),
                  "depth of the image must be given where tiles are split or the depth is normalised");
    GS_REQUIRE_OF(function, !gradient->abs_mean2d || channels <= most_channels_of_pass,
                  "abs_mean2d needs 32 channels or fewer");
    return libgs_require(function, gradient->block_limit >= 0, "block_limit must be at least 0");
}

// The sums of float begin at 0. gs_splat_grad of DISTWAR_FIXED are overwritten, unless nothing is drawn.
cudaError_t clear_sums(const gs_view &view, const gs_gradient &gradient, gs_stream stream) {
    const size_t count = size_t(splat_count(&view));
    const int channels = channels_of(&view.gaussians);
    const cudaError_t status = cudaMemsetAsync(gradient.splat_grad, 0, count * sizeof(gs_splat_grad), stream);
    if (status != cudaSuccess || channels == GS_CHANNELS) return status;
    return cudaMemsetAsync(gradient.gaussians.color, 0, count * size_t(channels) * sizeof(float), stream);
}

// sums: NULL with other strategies and where nothing is drawn.
cudaError_t queue_backward(const gs_view &view, const gs_gradient &gradient, distwar_policy policy,
                           const fixed::sums_memory &sums, gs_stream stream) {
    const bool is_fixed = sums.head != nullptr;
    cudaError_t status =
        is_fixed ? fixed::begin(view, gradient, sums, stream) : clear_sums(view, gradient, stream);
    if (status != cudaSuccess || view.ranges.isects == 0) return status;
    status = for_passes(channels_of(&view.gaussians), [&](auto channels, int first, int used) {
        return queue_pass_of<channels>({&view, &gradient, policy, sums, first, used, stream});
    });
    return status == cudaSuccess && is_fixed ? fixed::end(view, gradient, sums, stream) : status;
}

} // namespace

int gs_has_strategy(distwar_strategy strategy) {
    return is_one_of(strategy, blend_strategy_bits);
}

size_t libgs_fixed_bytes(int64_t splats, int32_t channels) {
    return fixed::place_sums(nullptr, splats, channels).bytes;
}

gs_status gs_render_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                             gs_context *context) {
    GS_TRY(check_backward(__func__, view, gradient, policy));
    const int64_t count = splat_count(view);
    if (count == 0) return GS_OK; // then nothing has a gradient
    fixed::sums_memory sums = {};
    if (policy.strategy == DISTWAR_FIXED && view->ranges.isects > 0)
        GS_TRY(fixed::sums_of(__func__, count, channels_of(&view->gaussians), context, &sums));
    return GS_STATUS(queue_backward(*view, *gradient, policy, sums, stream_of(context)));
}
