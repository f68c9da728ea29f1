// SPDX-License-Identifier: MIT
// Adam over all parameters of the Gaussians (docs/developers/math.md, section 6). SH's constant term has its own rate.
#include "arrays.h"
#include "check.h"

#include <gpu/adam.cuh>
#include <float.h>

namespace {

bool valid_rate(float rate) {
    return rate >= 0 && rate <= FLT_MAX;
}

} // namespace

gs_status gs_adam(const gs_gaussians *gaussians, const gs_gaussians *gradients,
                  const gs_gaussians *first_moment, const gs_gaussians *second_moment,
                  const gs_adam_rates *rates, int64_t step, gs_stream stream) {
    GS_TRY(check_vector(__func__, gaussians, gradients));
    GS_TRY(check_vector(__func__, gaussians, first_moment));
    GS_TRY(check_vector(__func__, gaussians, second_moment));
    GS_REQUIRE(rates, "rates must be given");
    GS_REQUIRE(step >= 1, "step must be 1 or more");
    GS_REQUIRE(valid_rate(rates->mean) && valid_rate(rates->log_scale) && valid_rate(rates->quaternion) &&
                   valid_rate(rates->opacity_logit) && valid_rate(rates->sh_constant) &&
                   valid_rate(rates->sh_rest),
               "rates must be finite and not negative");
    GS_REQUIRE(rates->sh_coefficients >= 0, "sh_coefficients must not be negative");
    const int64_t count = gaussians->count;
    if (count == 0) return GS_OK;

    const gs_arrays to = gs_arrays_of(gaussians), by = gs_arrays_of(gradients),
                    first = gs_arrays_of(first_moment), second = gs_arrays_of(second_moment);
    const float rate[GS_ARRAYS] = {rates->mean, rates->log_scale, rates->quaternion, rates->opacity_logit,
                                   rates->sh_constant};
    adam_array groups[GS_ARRAYS];
    for (int a = 0; a < GS_ARRAYS; a++)
        groups[a] = {
            to.of[a], by.of[a], first.of[a], second.of[a], count * to.width[a], to.width[a], to.width[a],
            rate[a],  0};
    groups[4].head_length = GS_CHANNELS; // of sh
    groups[4].rest_rate = rates->sh_rest;
    groups[4].used_length = GS_CHANNELS * rates->sh_coefficients;
    return GS_STATUS(adam_steps(groups, GS_ARRAYS, step, stream));
}
