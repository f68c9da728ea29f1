// SPDX-License-Identifier: MIT
// One pass of gs_render_backward. Tree and fixed have kernels for every pass. The other strategies are there to be
// compared with them and have kernels for three channels only (docs/notes/rasteriser.md).
#pragma once

#include "blend_backward.cuh"
#include "blend_commit.cuh"
#include "blend_fixed.cuh"
#include "check.h"
#include <algorithm>
#include <math.h>

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
template <typename T>
pass_sums<T> sums_of_pass(T *moments, T *colors, const backward_pass &pass) {
    return {moments, colors ? colors + pass.first : nullptr, pass.view->gaussians.channels, pass.used};
}

// The callers of what follows have checked the arguments. With the strategy fixed, between fixed::begin and fixed::end.
template <typename Values>
cudaError_t queue_fixed(const backward_pass &pass) {
    const int64_t count = splat_count(pass.view);
    const fixed::sums_memory memory =
        fixed::memory_of(pass.gradient->moments, count, channels_of(&pass.view->gaussians));
    const auto sums = sums_of_pass(memory.sums, memory.sums + count * GS_MOMENTS_STRIDE, pass);
    return launch_render_backward<Values>(pass.stream, input_of_pass<Values>(pass),
                                          fixed_commit{sums, memory.head});
}

inline pass_sums<float> float_sums_of_pass(const backward_pass &pass) {
    const gs_gradient &gradient = *pass.gradient;
    return sums_of_pass(reinterpret_cast<float *>(gradient.moments), gradient.gaussians.color, pass);
}

template <typename Values>
cudaError_t queue_tree(const backward_pass &pass) {
    return launch_render_backward<Values>(
        pass.stream, input_of_pass<Values>(pass),
        tree_commit{float_sums_of_pass(pass), std::max(pass.policy.balance_threshold, 1)});
}

// With any strategy. Values: what the pass sums. Compared: what it sums with the strategies that are there to be
// compared with the tree, at least Values: one kernel of theirs serves several kinds of pass.
template <typename Values, typename Compared>
cudaError_t queue_render_backward(const backward_pass &pass) {
    if (pass.policy.strategy == DISTWAR_FIXED) return queue_fixed<Values>(pass);
    if (pass.policy.strategy == DISTWAR_TREE) return queue_tree<Values>(pass);
    const auto queue = [&](const auto &commit) {
        return launch_render_backward<Compared>(pass.stream, input_of_pass<Compared>(pass), commit);
    };
    const pass_sums<float> sums = float_sums_of_pass(pass);
    if (pass.policy.strategy == DISTWAR_BLOCK) {
        const float limit = pass.gradient->block_limit;
        return queue(tile_commit<Compared>{sums, limit > 0 ? limit : INFINITY});
    }
    return distwar::with_strategy(distwar::strategy(pass.policy.strategy), [&](auto strategy) {
        if constexpr (strategy == distwar::strategy::tree)
            return queue_tree<Values>(pass);
        else
            return queue(warp_commit<strategy>{sums, pass.policy.balance_threshold});
    });
}

} // namespace gs
