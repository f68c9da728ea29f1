// SPDX-License-Identifier: MIT
// The blend of three channels with depth, and with absolute gradients.
#include "blend_forward.cuh"
#include "blend_queue.cuh"

namespace gs {

cudaError_t render_extras(const forward_pass &pass) {
    return launch_render<GS_CHANNELS, true>(pass);
}

cudaError_t render_backward_extras(const backward_pass &pass) {
    return pass.gradient->abs_mean2d ? queue_render_backward<pass_values<GS_CHANNELS, extras::absolute>>(pass)
                                     : queue_render_backward<pass_values<GS_CHANNELS, extras::depth>>(pass);
}

} // namespace gs
