// SPDX-License-Identifier: MIT
#include "training/finite.h"
#include "arrays.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

int64_t gaussians_keep_finite(gs_gaussians *gaussians) {
    const gs_arrays arrays = gs_arrays_of(gaussians);
    int64_t kept = 0;
    for (int64_t i = 0; i < gaussians->count; i++) {
        bool finite = true;
        for (int a = 0; a < GS_ARRAYS; a++) {
            const int width = arrays.width[a];
            const float *row = arrays.of[a] + i * width;
            for (int k = 0; k < width; k++) finite = finite && isfinite(row[k]);
            if (kept < i) memcpy(arrays.of[a] + kept * width, row, (size_t)width * sizeof *row);
        }
        kept += finite; // otherwise the next one overwrites it
    }
    int64_t dropped = gaussians->count - kept;
    gaussians->count = kept;
    return dropped;
}
