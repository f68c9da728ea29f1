// SPDX-License-Identifier: MIT
#include "training/finite.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

int64_t gaussians_keep_finite(gs_gaussians *gaussians) {
    const int bases = (gaussians->sh_degree + 1) * (gaussians->sh_degree + 1);
    float *const arrays[] = {gaussians->mean, gaussians->log_scale, gaussians->quaternion,
                             gaussians->opacity_logit, gaussians->sh};
    const int widths[] = {3, 3, 4, 1, GS_CHANNELS * bases};
    int64_t kept = 0;
    for (int64_t i = 0; i < gaussians->count; i++) {
        bool finite = true;
        for (int a = 0; a < 5; a++) {
            const float *row = arrays[a] + i * widths[a];
            for (int k = 0; k < widths[a]; k++) finite = finite && isfinite(row[k]);
            if (kept < i) memcpy(arrays[a] + kept * widths[a], row, (size_t)widths[a] * sizeof *row);
        }
        kept += finite; // otherwise the next one overwrites it
    }
    int64_t dropped = gaussians->count - kept;
    gaussians->count = kept;
    return dropped;
}
