// SPDX-License-Identifier: MIT
// Blending, forward and backward, in passes (blend_pass.cuh). How pixels map to threads: blend.cuh. Formulas:
// math.md, section 3. A view whose lists had no room, where gs_bin did not wait, says so in its image: NaN.
#include "blend_forward.cuh"
#include "blend_queue.cuh"
#include "check.h"
#include "status.h"

using namespace gs;

cudaError_t gs::render_plain(const forward_pass &pass) {
    return launch_render<GS_CHANNELS, false>(pass);
}

cudaError_t gs::render_backward_plain(const backward_pass &pass) {
    return queue_render_backward<plain_values, plain_values>(pass);
}

namespace {

constexpr int finish_block = 256, most_finish_blocks = 1024;

// Writes image.alpha, if given. If the lists had no room (pairs may be NULL: they had), the image becomes NaN.
__global__ void __launch_bounds__(finish_block)
    finish_kernel(const int64_t *pairs, int64_t pair_capacity, int64_t pixels, int channels, gs_image image) {
    const bool overflow = pairs && *pairs > pair_capacity;
    const int64_t step = int64_t(gridDim.x) * finish_block, first = int64_t(blockIdx.x) * finish_block;
    for (int64_t i = first + threadIdx.x; overflow && i < channels * pixels; i += step) {
        image.color[i] = NAN;
        if (i >= pixels) continue;
        image.transmittance[i] = NAN;
        if (image.depth) image.depth[i] = NAN;
        if (image.median_depth) image.median_depth[i] = NAN;
    }
    for (int64_t i = first + threadIdx.x; image.alpha && i < pixels; i += step)
        image.alpha[i] = 1 - image.transmittance[i];
}

// Queues the kernel, for a view that needs it.
cudaError_t launch_finish(gs_stream stream, const gs_view *view) {
    if (!view->lists.device_pairs && !view->image.alpha) return cudaSuccess;
    const int64_t pixels = int64_t(view_count(view)) * view->camera.width * view->camera.height;
    const unsigned blocks = blocks_for(pixels, finish_block), most = most_finish_blocks;
    return launch(stream, blocks < most ? blocks : most, finish_block, finish_kernel,
                  view->lists.device_pairs, view->pair_capacity, pixels, channels_of(&view->gaussians),
                  view->image);
}

// body(first channel, number of channels) for each pass.
template <typename Body>
cudaError_t for_passes(int channels, const Body &body) {
    cudaError_t status = cudaSuccess;
    for (int first = 0; status == cudaSuccess && first < channels; first += most_channels_of_pass) {
        const int rest = channels - first;
        status = body(first, rest < most_channels_of_pass ? rest : most_channels_of_pass);
    }
    return status;
}

gs_status check_backward(const char *function, const gs_view *view, const gs_gradient *gradient,
                         distwar_policy policy) {
    GS_TRY(check_blended(function, view));
    const bool split = view->lists.split_tiles != 0;
    GS_REQUIRE_OF(function, view->image.color || !split,
                  "color of the image must be given where tiles are split");
    GS_TRY(check_policy(function, policy, blend_strategies));
    const gs_gaussians *gaussians = &view->gaussians;
    const int channels = channels_of(gaussians);
    GS_REQUIRE_OF(function, gradient && gradient->color && (gaussians->count == 0 || gradient->moments),
                  "color and moments of the gradient must be given");
    GS_REQUIRE_OF(function, channels == GS_CHANNELS || gaussians->count == 0 || gradient->gaussians.color,
                  "gaussians.color of the gradient must be given unless there are 3 channels");
    GS_REQUIRE_OF(function, !gradient->depth || view->image.depth || !(split || view->normalize_depth),
                  "depth of the image must be given where tiles are split or the depth is normalised");
    GS_REQUIRE_OF(function, !gradient->abs_mean2d || channels <= most_channels_of_pass,
                  "abs_mean2d needs 32 channels or fewer");
    GS_REQUIRE_OF(function, gradient->block_limit >= 0, "block_limit must be at least 0");
    size_t needed = 0;
    GS_TRY(gs_moments_bytes(splat_count(view), gaussians->channels, policy.strategy, &needed));
    return libgs_require(function, gradient->moments_bytes >= needed,
                         "moments_bytes is smaller than gs_moments_bytes");
}

// The sums of float begin at 0. gs_moments of DISTWAR_FIXED are overwritten, unless nothing is drawn.
cudaError_t clear_sums(const gs_view &view, const gs_gradient &gradient, gs_stream stream) {
    const size_t count = size_t(splat_count(&view));
    const int channels = channels_of(&view.gaussians);
    const cudaError_t status = cudaMemsetAsync(gradient.moments, 0, count * sizeof(gs_moments), stream);
    if (status != cudaSuccess || channels == GS_CHANNELS) return status;
    return cudaMemsetAsync(gradient.gaussians.color, 0, count * size_t(channels) * sizeof(float), stream);
}

cudaError_t queue_backward(const gs_view &view, const gs_gradient &gradient, distwar_policy policy,
                           gs_stream stream) {
    if (splat_count(&view) == 0) return cudaSuccess; // then nothing has a gradient
    const bool is_fixed = policy.strategy == DISTWAR_FIXED && view.lists.pairs > 0;
    const int channels = channels_of(&view.gaussians);
    cudaError_t status = is_fixed ? fixed::begin(view, gradient, stream) : clear_sums(view, gradient, stream);
    if (status != cudaSuccess || view.lists.pairs == 0) return status;
    backward_pass pass = {&view, &gradient, policy, 0, channels, stream};
    if (channels != GS_CHANNELS) {
        status = for_passes(channels, [&](int first, int used) {
            pass.first = first, pass.used = used;
            return render_backward_channels(pass);
        });
    } else {
        const bool extra = gradient.depth || gradient.abs_mean2d;
        status = extra ? render_backward_extras(pass) : render_backward_plain(pass);
    }
    return status == cudaSuccess && is_fixed ? fixed::end(view, gradient, stream) : status;
}

cudaError_t queue_render(const gs_view &view, gs_stream stream) {
    const int channels = channels_of(&view.gaussians);
    forward_pass pass = {&view, 0, channels, stream};
    if (channels != GS_CHANNELS)
        return for_passes(channels, [&](int first, int used) {
            pass.first = first, pass.used = used;
            return render_channels(pass);
        });
    const bool extra = view.image.depth || view.image.median_depth;
    return extra ? render_extras(pass) : render_plain(pass);
}

} // namespace

gs_status gs_render(const gs_view *view, gs_stream stream) {
    GS_TRY(check_blended(__func__, view));
    GS_REQUIRE(view->image.color, "color of the image must be given");
    GS_CUDA(queue_render(*view, stream));
    GS_CUDA(launch_finish(stream, view));
    return GS_OK;
}

int gs_has_strategy(distwar_strategy strategy) {
    return is_one_of(strategy, blend_strategies);
}

gs_status gs_moments_bytes(int64_t count, int32_t channels, distwar_strategy strategy, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_TRY(check_channels(__func__, channels));
    GS_TRY(check_strategy(__func__, strategy, blend_strategies));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = strategy == DISTWAR_FIXED
                 ? fixed::memory_of(nullptr, count, channels ? channels : GS_CHANNELS).bytes
                 : size_t(count) * sizeof(gs_moments);
    return GS_OK;
}

gs_status gs_render_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                             gs_stream stream) {
    GS_TRY(check_backward(__func__, view, gradient, policy));
    return GS_STATUS(queue_backward(*view, *gradient, policy, stream));
}
