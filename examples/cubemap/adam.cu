// SPDX-License-Identifier: MIT
// Adam's step for the texels of level 0.
#include "gpu/adam.cuh"
#include "cubemap.h"
#include "device.h"

void cubemap_adam(const cubemap_frame *frame, const float *gradient, float *first_moment,
                  float *second_moment, float rate, int64_t step) {
    const int64_t count = int64_t(18) * frame->size * frame->size;
    DEVICE_CHECK(adam_step({frame->texel, gradient, first_moment, second_moment, count, 1, 1, rate, rate},
                           step, NULL));
}
