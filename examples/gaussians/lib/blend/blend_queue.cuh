// SPDX-License-Identifier: MIT
// One pass of gs_render_backward, with any strategy.
#pragma once

#include "blend_backward.cuh"
#include "blend_commit.cuh"
#include "blend_fixed.cuh"
#include "check.h"

namespace gs {

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
    in.splats = view.splats, in.lists = view.lists;
    in.width = view.camera.width, in.height = view.camera.height;
    in.background = background_of<Values::channels>(view, pass.first, pass.used);
    in.color = image.color, in.transmittance = image.transmittance, in.n_contrib = image.n_contrib;
    in.color_gradient = gradient.color + size_t(pass.first) * plane_of(view);
    in.alpha_gradient = is_first ? gradient.alpha : nullptr;
    return in;
}

// moments, colors: [count][GS_MOMENTS_STRIDE], [count][channels].
template <int Channels, typename T>
pass_sums<Channels, T> sums_of_pass(T *moments, T *colors, const backward_pass &pass) {
    if constexpr (Channels == GS_CHANNELS)
        return {moments};
    else
        return {moments, colors + pass.first, pass.view->gaussians.channels, pass.used};
}

// The caller has checked the arguments. With the strategy fixed, between fixed::begin and fixed::end.
template <typename Values>
cudaError_t queue_render_backward(const backward_pass &pass) {
    constexpr int C = Values::channels;
    const backward_input<Values> input = input_of_pass<Values>(pass);
    const gs_gradient &gradient = *pass.gradient;
    if (pass.policy.strategy == DISTWAR_FIXED) {
        const int64_t count = splat_count(pass.view);
        const fixed::sums_memory memory =
            fixed::memory_of(gradient.moments, count, channels_of(&pass.view->gaussians));
        return launch_render_backward<Values>(
            pass.stream, input,
            fixed_commit<Values>{sums_of_pass<C>(memory.sums, memory.sums + count * GS_MOMENTS_STRIDE, pass),
                                 memory.head});
    }
    const pass_sums<C> sums =
        sums_of_pass<C>(reinterpret_cast<float *>(gradient.moments), gradient.gaussians.color, pass);
    if (pass.policy.strategy == DISTWAR_BLOCK)
        return launch_render_backward<Values>(pass.stream, input, tile_commit<Values>{sums});
    return distwar::with_strategy(distwar::strategy(pass.policy.strategy), [&](auto strategy) {
        return launch_render_backward<Values>(pass.stream, input,
                                              warp_commit<strategy, C>{sums, pass.policy.balance_threshold});
    });
}

} // namespace gs
