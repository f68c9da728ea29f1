// SPDX-License-Identifier: MIT
// Adam's step for spheres.
#include "gpu/adam.cuh"
#include "device.h"
#include "spheres.h"

void spheres_adam(const sphere_set *set, const sphere_set *gradient, const sphere_set *first_moment,
                  const sphere_set *second_moment, const sphere_rates *rates, int64_t step) {
    const struct {
        float *value, *gradient, *first, *second;
        int64_t count;
        float rate;
    } arrays[] = {{set->center, gradient->center, first_moment->center, second_moment->center, 3 * set->count,
                   rates->center},
                  {set->log_radius, gradient->log_radius, first_moment->log_radius, second_moment->log_radius,
                   set->count, rates->log_radius},
                  {set->opacity_logit, gradient->opacity_logit, first_moment->opacity_logit,
                   second_moment->opacity_logit, set->count, rates->opacity_logit},
                  {set->feature, gradient->feature, first_moment->feature, second_moment->feature,
                   set->channels * set->count, rates->feature}};
    for (const auto &a : arrays)
        DEVICE_CHECK(
            adam_step({a.value, a.gradient, a.first, a.second, a.count, 1, 1, a.rate, a.rate}, step, NULL));
}
