// SPDX-License-Identifier: MIT
//
// One step of Adam (Kingma and Ba 2015), each group of parameters at its own rate.
#include "reference.h"

#include <math.h>

static void update(double *value, double gradient, double *first, double *second, double rate, int64_t step) {
    const double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-15;
    *first = beta1 * *first + (1 - beta1) * gradient;
    *second = beta2 * *second + (1 - beta2) * gradient * gradient;
    const double first_estimate = *first / (1 - pow(beta1, (double)step));
    const double second_estimate = *second / (1 - pow(beta2, (double)step));
    *value -= rate * first_estimate / (sqrt(second_estimate) + epsilon);
}

void reference_adam(const reference_gaussians *gaussians, const reference_gaussians *gradients,
                    const reference_gaussians *first_moment, const reference_gaussians *second_moment,
                    const gs_adam_rates *rates, int64_t step) {
    const int64_t count = gaussians->count;
    const int64_t stored = 3 * (int64_t)(gaussians->sh_degree + 1) * (gaussians->sh_degree + 1);
    const int64_t values = reference_gaussians_values(gaussians);
    for (int64_t i = 0; i < values; i++) {
        const int64_t in_sh =
            i - 11 * count; // the block's order: mean, log_scale, quaternion, opacity_logit, sh
        const double rate = i < 3 * count        ? rates->mean
                            : i < 6 * count      ? rates->log_scale
                            : i < 10 * count     ? rates->quaternion
                            : i < 11 * count     ? rates->opacity_logit
                            : in_sh % stored < 3 ? rates->sh0
                                                 : rates->shN;
        update(&gaussians->mean[i], gradients->mean[i], &first_moment->mean[i], &second_moment->mean[i], rate,
               step);
    }
}
