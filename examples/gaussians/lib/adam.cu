// SPDX-License-Identifier: MIT
// Adam over all parameters of the Gaussians (docs/math.md, section 6). SH's constant term has its own rate.
#include "check.h"

#include <adam.cuh>
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

#define GROUP(name, row_length, head_length, head_rate, rest_rate)                                           \
    {                                                                                                        \
        gaussians->name, gradients->name, first_moment->name, second_moment->name, count *row_length,        \
            row_length, head_length, head_rate, rest_rate                                                    \
    }
    const int sh_values = GS_CHANNELS * (gaussians->sh_degree + 1) * (gaussians->sh_degree + 1);
    adam_array groups[] = {
        GROUP(mean, 3, 3, rates->mean, 0),
        GROUP(log_scale, 3, 3, rates->log_scale, 0),
        GROUP(quaternion, 4, 4, rates->quaternion, 0),
        GROUP(opacity_logit, 1, 1, rates->opacity_logit, 0),
        GROUP(sh, sh_values, GS_CHANNELS, rates->sh_constant, rates->sh_rest),
    };
#undef GROUP
    groups[4].used_length = GS_CHANNELS * rates->sh_coefficients;
    return GS_STATUS(adam_steps(groups, 5, step, stream));
}
