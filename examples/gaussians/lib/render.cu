// SPDX-License-Identifier: MIT
// Blending, forward and backward. How pixels map to threads: blend.cuh. Formulas: docs/math.md, section 3.
#include "blend_backward.cuh"
#include "blend_commit.cuh"
#include "blend_fixed.cuh"
#include "blend_forward.cuh"
#include "lists_check.h"
#include "status.h"

using namespace gs;

namespace {

gs_status check(const char *function, const gs_splat *splats, const gs_lists *lists, int width, int height,
                const float *background, const gs_image *image) {
    GS_REQUIRE_OF(function, lists && background && image, "lists, background and image must be given");
    const gs_status status = check_lists(function, splats, lists, width, height);
    if (status != GS_OK) return status;
    GS_REQUIRE_OF(function, image->transmittance && image->consumed,
                  "transmittance and consumed of the image must be given");
    return GS_OK;
}

} // namespace

gs_status gs_render(const gs_splat *splats, const gs_lists *lists, int32_t width, int32_t height,
                    const float background[3], const gs_image *image, gs_stream stream) {
    const gs_status status = check(__func__, splats, lists, width, height, background, image);
    if (status != GS_OK) return status;
    GS_REQUIRE(image->color, "color of the image must be given");
    GS_CUDA(launch_render(stream, splats, *lists, width, height,
                          {background[0], background[1], background[2]}, *image));
    return GS_OK;
}

gs_status gs_moments_bytes(int64_t count, gs_reduction reduction, size_t *bytes) {
    GS_REQUIRE(count >= 0 && count < INT32_MAX, "count must be in 0..2^31 - 2");
    GS_REQUIRE(reduction >= 0 && reduction < GS_REDUCTIONS, "unknown reduction");
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = reduction == GS_FIXED ? fixed::float_bytes(count) + fixed::header_bytes + fixed::sum_bytes(count)
                                   : size_t(count) * GS_MOMENTS_STRIDE * sizeof(float);
    return GS_OK;
}

gs_status gs_render_backward(const gs_splat *splats, int64_t count, const gs_lists *lists, int32_t width,
                             int32_t height, const float background[3], const gs_image *image,
                             const float *color_gradient, const float *alpha_gradient, gs_reduction reduction,
                             int balance_threshold, float *moments, gs_stream stream) {
    const gs_status status = check(__func__, splats, lists, width, height, background, image);
    if (status != GS_OK) return status;
    GS_REQUIRE(image->color || lists->split_tiles == 0,
               "color of the image must be given where tiles are split");
    GS_REQUIRE(count >= 0 && count < INT32_MAX, "count must be in 0..2^31 - 2");
    GS_REQUIRE(color_gradient && (count == 0 || moments), "color_gradient and moments must be given");
    GS_REQUIRE(balance_threshold >= 0 && balance_threshold <= 33, "balance_threshold must be in 0..33");
    GS_REQUIRE(reduction >= 0 && reduction < GS_REDUCTIONS, "unknown reduction");
    if (count > 0 && (reduction != GS_FIXED || lists->pairs == 0))
        GS_CUDA(cudaMemsetAsync(moments, 0, size_t(count) * GS_MOMENTS_STRIDE * sizeof(float), stream));
    if (lists->pairs == 0) return GS_OK;
    const backward_input input = {
        splats, *lists,         width,         height, {background[0], background[1], background[2]},
        *image, color_gradient, alpha_gradient};
    const auto run = [&](const auto &commit) { return launch_render_backward(stream, input, commit); };
    using distwar::strategy;
    switch (reduction) {
    case GS_ATOMIC:
        GS_CUDA(run(warp_commit<strategy::atomic>{moments, balance_threshold}));
        break;
    case GS_SERIAL:
        GS_CUDA(run(warp_commit<strategy::serial>{moments, balance_threshold}));
        break;
    case GS_BFLY:
        GS_CUDA(run(warp_commit<strategy::bfly>{moments, balance_threshold}));
        break;
    case GS_TREE:
        GS_CUDA(run(warp_commit<strategy::tree>{moments, balance_threshold}));
        break;
    case GS_BLOCK:
        GS_CUDA(run(tile_commit{moments}));
        break;
    default: // GS_FIXED
        GS_CUDA(launch_fixed_backward(stream, input, count, moments));
    }
    return GS_OK;
}
