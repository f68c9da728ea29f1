// SPDX-License-Identifier: MIT
// Blending, forward and backward. How pixels map to threads: blend.cuh. Formulas: docs/math.md, section 3.
#include "blend_backward.cuh"
#include "blend_commit.cuh"
#include "blend_fixed.cuh"
#include "blend_forward.cuh"
#include "check.h"
#include "overflow.cuh"
#include "status.h"

using namespace gs;

namespace {

color3 background_of(const gs_view *view) {
    return {view->background[0], view->background[1], view->background[2]};
}

} // namespace

gs_status gs_render(const gs_view *view, gs_stream stream) {
    GS_TRY(check_blended(__func__, view));
    GS_REQUIRE(view->image.color, "color of the image must be given");
    GS_CUDA(launch_render(stream, view->splats, view->lists, view->camera.width, view->camera.height,
                          background_of(view), view->image));
    if (view->report) GS_CUDA(launch_overflow(stream, view));
    return GS_OK;
}

int gs_has_strategy(distwar_strategy strategy) {
    return is_one_of(strategy, blend_strategies);
}

gs_status gs_moments_bytes(int64_t count, distwar_strategy strategy, size_t *bytes) {
    GS_TRY(check_count(__func__, count));
    GS_TRY(check_strategy(__func__, strategy, blend_strategies));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = strategy == DISTWAR_FIXED
                 ? fixed::float_bytes(count) + fixed::header_bytes + fixed::sum_bytes(count)
                 : size_t(count) * sizeof(gs_moments);
    return GS_OK;
}

gs_status gs_render_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                             gs_stream stream) {
    GS_TRY(check_blended(__func__, view));
    GS_REQUIRE(view->image.color || view->lists.split_tiles == 0,
               "color of the image must be given where tiles are split");
    GS_TRY(check_policy(__func__, policy, blend_strategies));
    const int64_t count = splat_count(view);
    GS_REQUIRE(gradient && gradient->color && (count == 0 || gradient->moments),
               "color and moments of the gradient must be given");
    size_t needed = 0;
    GS_TRY(gs_moments_bytes(count, policy.strategy, &needed));
    GS_REQUIRE(gradient->moments_bytes >= needed, "moments_bytes is smaller than gs_moments_bytes");
    float *const moments = reinterpret_cast<float *>(gradient->moments);
    if (count > 0 && (policy.strategy != DISTWAR_FIXED || view->lists.pairs == 0))
        GS_CUDA(cudaMemsetAsync(moments, 0, size_t(count) * sizeof(gs_moments), stream));
    if (view->lists.pairs == 0) return GS_OK;
    const backward_input input = {view->splats,        view->lists, view->camera.width, view->camera.height,
                                  background_of(view), view->image, gradient->color,    gradient->alpha};
    const auto run = [&](const auto &commit) { return launch_render_backward(stream, input, commit); };
    if (policy.strategy == DISTWAR_FIXED) {
        GS_CUDA(launch_fixed_backward(stream, input, count, moments));
    } else if (policy.strategy == DISTWAR_BLOCK) {
        GS_CUDA(run(tile_commit{moments}));
    } else {
        const auto blend = [&](auto strategy) {
            return run(warp_commit<strategy>{moments, policy.balance_threshold});
        };
        GS_CUDA(distwar::with_strategy(distwar::strategy(policy.strategy), blend));
    }
    return GS_OK;
}
