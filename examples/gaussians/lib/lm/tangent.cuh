// SPDX-License-Identifier: MIT
// A splat's derivative along a direction: the record in memory, and the change of log alpha at a pixel.
// docs/developers/math.md, section 8.
#pragma once

#include "distwar_gs_lm.h"
#include <cuda_runtime.h>

namespace gs {

struct alignas(16) splat_tangent {
    float color[GS_CHANNELS];
    float log_alpha[6]; // coefficients of 1, e0, e1, e0^2, e0 e1, e1^2
    float reserved[3];
};
static_assert(sizeof(splat_tangent) == GS_LM_TANGENT_STRIDE * sizeof(float), "one record");

__device__ inline float log_alpha_change(const splat_tangent &t, float e0, float e1) {
    const float *k = t.log_alpha;
    return k[0] + e0 * (k[1] + k[3] * e0 + k[4] * e1) + e1 * (k[2] + k[5] * e1);
}

} // namespace gs
