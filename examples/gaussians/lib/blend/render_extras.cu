// SPDX-License-Identifier: MIT
// The blend of three channels with depth, and with absolute gradients.
#include "blend_forward.cuh"
#include "blend_queue.cuh"

namespace gs {

cudaError_t render_extras(const forward_pass &pass) {
    return launch_render<GS_CHANNELS, true>(pass);
}

cudaError_t render_backward_extras(const backward_pass &pass) {
    using depth = pass_values<GS_CHANNELS, extras::depth>;
    using absolute = pass_values<GS_CHANNELS, extras::absolute>;
    using both = pass_values<GS_CHANNELS, extras::both>;
    if (!pass.gradient->abs_mean2d) return queue_render_backward<depth, both>(pass);
    return pass.gradient->depth ? queue_render_backward<both, both>(pass)
                                : queue_render_backward<absolute, both>(pass);
}

} // namespace gs
