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

cudaError_t render_backward_channels(const backward_pass &pass) {
    const bool extra = pass.first == 0 && (pass.gradient->depth || pass.gradient->abs_mean2d);
    return with_channels(pass.used, [&](auto channels) {
        return extra ? queue_render_backward<pass_values<channels, extras::absolute>>(pass)
                     : queue_render_backward<pass_values<channels>>(pass);
    });
}

} // namespace gs
