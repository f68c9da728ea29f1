// SPDX-License-Identifier: MIT
#include "state/parameter_average.h"
#include "frames/device_gaussians.h"
#include "frames/gs_check.h"

void parameter_average_add(parameter_average *a, const gs_gaussians *now) {
    if (a->samples == 0) a->average = device_gaussians_open(now->count, now->sh_degree);
    GS_CHECK(gs_average(&a->average, now, ++a->samples, NULL));
}

void parameter_average_take(parameter_average *a, const gs_gaussians *to) {
    if (a->samples > 0) device_gaussians_copy(to, &a->average);
    parameter_average_close(a);
}

void parameter_average_close(parameter_average *a) {
    device_gaussians_close(&a->average);
    *a = (parameter_average){0};
}
