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

__host__ __device__ float larger(float a, float b) { // NaN if either is
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

// What comes before the passes of a call.
gs_status begin(const char *function, const gs_view &view, const gs_gradient &gradient, gs_context *context,
                sums_memory *memory) {
    const gs_stream stream = stream_of(context);
    const int channels = channels_of(&view.gaussians);
    GS_TRY(sums_of(function, splat_count(&view), channels, context, memory));
    GS_CUDA(cudaMemsetAsync(memory->head, 0, memory->bytes, stream));
    const gs_largest_values *const largest = gradient.largest;
    const int64_t pixels = view_count(&view) * int64_t(plane_of(view)),
                  splats = largest ? 0 : splat_count(&view);
    const auto blocks_of = [](int64_t items) {
        return int(std::min(items / (8 * threads) + 1, int64_t(most_blocks)));
    };
    const int pixel_blocks = blocks_of(channels * pixels), blocks = std::max(pixel_blocks, blocks_of(splats));
    GS_CUDA(launch(stream, unsigned(blocks), threads, bound_kernel, view.splats, splats,
                   channels == GS_CHANNELS ? nullptr : view.gaussians.color, channels, view.image, pixels,
                   largest ? nullptr : gradient.color, gradient.alpha, largest ? nullptr : gradient.depth,
                   depth_form_of(view), pixel_blocks, memory->head));
    const float *const background = channels == GS_CHANNELS ? view.background : view.channel_background;
    float largest_background = 0;
    for (int c = 0; background && c < channels; c++)
        largest_background = larger(fabsf(background[c]), largest_background);
    return GS_STATUS(launch(stream, 1u, threads, scale_kernel, blocks, largest_background, largest,
                            view.inverse_depth != 0, memory->head));
}

// What comes after them.
gs_status end(const gs_view &view, const gs_gradient &gradient, const sums_memory &memory, gs_stream stream) {
    const int64_t count = splat_count(&view), moments = count * GS_SPLAT_GRAD_STRIDE;
    const int channels = channels_of(&view.gaussians);
    GS_CUDA(launch_for(stream, moments, threads, convert_kernel, memory.sums, memory.head, moments,
                       summed_moments(gradient), reinterpret_cast<float *>(gradient.splat_grad)));
    if (channels == GS_CHANNELS) return GS_OK;
    return GS_STATUS(launch_for(stream, count * channels, threads, convert_kernel, memory.sums + moments,
                                memory.head, count * channels, 0, gradient.gaussians.color));
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

// Queues its kernel. Values: what it sums.
template <typename Values, typename Commit>
cudaError_t launch_pass(const backward_pass &pass, const Commit &commit) {
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
    return launch_render_backward<Values>(pass.stream, in, commit);
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
        return launch_pass<Values>(pass, fixed_commit{of_pass, pass.fixed.head});
    }
    const auto sums =
        sums_of_pass(reinterpret_cast<float *>(gradient.splat_grad), gradient.gaussians.color, pass);
    const tree_commit tree = {sums, std::max(policy.balance_threshold, 1)};
    if constexpr (Values::has_rows) {
        return launch_pass<Values>(pass, tree);
    } else if (policy.strategy == DISTWAR_BLOCK) {
        const float limit = gradient.block_limit;
        return launch_pass<Compared>(pass, tile_commit<Compared>{sums, limit > 0 ? limit : INFINITY});
    } else {
        return distwar::with_strategy(distwar::strategy(policy.strategy), [&](auto strategy) {
            if constexpr (strategy == distwar::strategy::tree)
                return launch_pass<Values>(pass, tree);
            else
                return launch_pass<Compared>(pass, warp_commit<strategy>{sums, policy.balance_threshold});
        });
    }
}

// Of GS_CHANNELS channels each kind of pass has kernels of its own. Of others the first has what is asked for.
template <int Channels>
cudaError_t queue_pass_of(const backward_pass &pass) {
    using both = pass_values<Channels, true, true>;
    const bool depth = pass.first == 0 && pass.gradient->depth,
               absolute = pass.first == 0 && pass.gradient->abs_mean2d;
    if (!depth && !absolute) return queue_pass<pass_values<Channels>>(pass);
    if constexpr (Channels == GS_CHANNELS) {
        if (!absolute) return queue_pass<pass_values<Channels, true>, both>(pass);
        if (!depth) return queue_pass<pass_values<Channels, false, true>, both>(pass);
    }
    return queue_pass<both>(pass);
}

} // namespace

int gs_has_strategy(distwar_strategy strategy) {
    return is_one_of(strategy, blend_strategy_bits);
}

size_t libgs_fixed_bytes(int64_t splats, int32_t channels) {
    block_layout layout = {};
    fixed::sums_memory unplaced;
    fixed::place_sums(&layout, splats, channels, &unplaced);
    return layout.bytes;
}

gs_status gs_render_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                             gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_TRY(check_blended(__func__, view));
    const bool split = view->ranges.split_tiles != 0;
    GS_REQUIRE(view->image.color || !split, "color of the image must be given where tiles are split");
    GS_TRY(check_policy(__func__, policy, blend_strategy_bits));
    const int64_t count = splat_count(view);
    const int channels = channels_of(&view->gaussians);
    const bool has_rows = channels != GS_CHANNELS;
    GS_REQUIRE(gradient && gradient->color && (count == 0 || gradient->splat_grad),
               "color and splat_grad of the gradient must be given");
    GS_REQUIRE(!has_rows || count == 0 || gradient->gaussians.color,
               "gaussians.color of the gradient must be given unless there are 3 channels");
    GS_REQUIRE(!gradient->depth || view->image.depth || !(split || view->normalize_depth),
               "depth of the image must be given where tiles are split or the depth is normalised");
    GS_REQUIRE(!gradient->abs_mean2d || channels <= most_channels_of_pass,
               "abs_mean2d needs 32 channels or fewer");
    GS_REQUIRE(gradient->block_limit >= 0, "block_limit must be at least 0");
    if (count == 0) return GS_OK; // then nothing has a gradient

    const bool is_drawn = view->ranges.isects > 0;
    fixed::sums_memory sums = {};
    if (policy.strategy == DISTWAR_FIXED && is_drawn) {
        GS_TRY(fixed::begin(__func__, *view, *gradient, context, &sums));
    } else { // the sums of float begin at 0
        GS_CUDA(cudaMemsetAsync(gradient->splat_grad, 0, size_t(count) * sizeof(gs_splat_grad), stream));
        if (has_rows)
            GS_CUDA(cudaMemsetAsync(gradient->gaussians.color, 0,
                                    size_t(count) * size_t(channels) * sizeof(float), stream));
    }
    if (is_drawn)
        GS_CUDA(for_passes(channels, [&](auto room, int first, int used) {
            return queue_pass_of<room>({view, gradient, policy, sums, first, used, stream});
        }));
    return sums.head ? fixed::end(*view, *gradient, sums, stream) : GS_OK;
}
