// SPDX-License-Identifier: MIT
// The blend of given colours of any number of channels but three.
#include "blend_forward.cuh"
#include "blend_queue.cuh"

namespace gs {

cudaError_t render_channels(const forward_pass &pass) {
    const bool depth = pass.first == 0 && (pass.view->image.depth || pass.view->image.median_depth);
    return with_channels(pass.used, [&](auto channels) {
        return depth ? launch_render<channels, true>(pass) : launch_render<channels, false>(pass);
    });
}

// The strategies other than fixed take the tree.
cudaError_t render_backward_channels(const backward_pass &pass) {
    const auto queue = [&](auto values) {
        using Values = decltype(values);
        return pass.policy.strategy == DISTWAR_FIXED ? queue_fixed<Values>(pass) : queue_tree<Values>(pass);
    };
    const bool extra = pass.first == 0 && (pass.gradient->depth || pass.gradient->abs_mean2d);
    return with_channels(pass.used, [&](auto channels) {
        return extra ? queue(pass_values<channels, extras::both>()) : queue(pass_values<channels>());
    });
}

} // namespace gs
