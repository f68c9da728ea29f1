// SPDX-License-Identifier: MIT
// Adam over all parameters of the Gaussians (docs/math.md, section 6). SH's constant term has its own rate.
#include "status.h"

#include <adam.cuh>
#include <float.h>

namespace {

bool complete(const gs_gaussians *g) {
    return g->mean && g->log_scale && g->quaternion && g->opacity_logit && g->sh;
}

bool same_shape(const gs_gaussians *a, const gs_gaussians *b) {
    return a->count == b->count && a->sh_degree == b->sh_degree;
}

bool valid_rate(float rate) {
    return rate >= 0 && rate <= FLT_MAX;
}

} // namespace

gs_status gs_adam(const gs_gaussians *gaussians, const gs_gaussians *gradients,
                  const gs_gaussians *first_moment, const gs_gaussians *second_moment,
                  const gs_adam_rates *rates, int64_t step, gs_stream stream) {
    GS_REQUIRE(gaussians && gradients && first_moment && second_moment && rates, "an argument is NULL");
    const int64_t count = gaussians->count;
    GS_REQUIRE(count >= 0 && count < int64_t(1) << 31, "count must be 0..2^31 - 1");
    GS_REQUIRE(gaussians->sh_degree >= 0 && gaussians->sh_degree <= GS_MAX_SH_DEGREE,
               "sh_degree must be 0..3");
    GS_REQUIRE(same_shape(gradients, gaussians) && same_shape(first_moment, gaussians) &&
                   same_shape(second_moment, gaussians),
               "gaussians, gradients and moments differ in count or sh_degree");
    GS_REQUIRE(step >= 1, "step must be 1 or more");
    GS_REQUIRE(valid_rate(rates->mean) && valid_rate(rates->log_scale) && valid_rate(rates->quaternion) &&
                   valid_rate(rates->opacity_logit) && valid_rate(rates->sh_constant) &&
                   valid_rate(rates->sh_rest),
               "rates must be finite and not negative");
    GS_REQUIRE(rates->sh_coefficients >= 0, "sh_coefficients must not be negative");
    if (count == 0) return GS_OK;
    GS_REQUIRE(complete(gaussians) && complete(gradients) && complete(first_moment) &&
                   complete(second_moment),
               "an array is NULL");

#define GROUP(name, row_length, head_length, head_rate, rest_rate)                                           \
    {                                                                                                        \
        gaussians->name, gradients->name, first_moment->name, second_moment->name, count *row_length,        \
            row_length, head_length, head_rate, rest_rate                                                    \
    }
    const int sh_values = 3 * (gaussians->sh_degree + 1) * (gaussians->sh_degree + 1);
    adam_array groups[] = {
        GROUP(mean, 3, 3, rates->mean, 0),
        GROUP(log_scale, 3, 3, rates->log_scale, 0),
        GROUP(quaternion, 4, 4, rates->quaternion, 0),
        GROUP(opacity_logit, 1, 1, rates->opacity_logit, 0),
        GROUP(sh, sh_values, 3, rates->sh_constant, rates->sh_rest),
    };
#undef GROUP
    groups[4].used_length = 3 * rates->sh_coefficients;
    GS_CUDA(adam_steps(groups, 5, step, stream));
    return GS_OK;
}
