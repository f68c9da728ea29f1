// SPDX-License-Identifier: MIT
// The sums of products from which a Gaussian's part of diag(J^T J), and its blocks of J^T J, follow:
// docs/math.md, section 8.
#ifndef GS_LM_SQUARES_CUH
#define GS_LM_SQUARES_CUH

#include "gs_lm.h"
#include <cuda_runtime.h>
#include <distwar/reduce.cuh>

// One pixel's part. weight: of its three values; share = T alpha, the derivative by the splat's own colour;
// difference: the splat's colour less that behind it, 0 where alpha was cut. share difference is the
// derivative by log alpha, of which 1, e0, .. e1^2 times are those by the six moments.
//   sums[0..2]          weight share^2, a channel
//   sums[3]             H = weight (share difference)^2, over the channels
//   sums[4..6]          H e0^2, e0 e1, e1^2
//   sums[7..10]         H e0^3, e0^2 e1, e0 e1^2, e1^3
//   sums[11..15]        H e0^4, e0^3 e1, e0^2 e1^2, e0 e1^3, e1^4
//   sums[16 + 5 c ..]   weight share^2 difference times e0, e1, e0^2, e0 e1, e1^2, of channel c
// All have weight share^2, so that is what the difference multiplies.
__device__ __forceinline__ void add_squares(const float weight[3], float share, const float difference[3],
                                            float e0, float e1, float (&sums)[GS_LM_SQUARES]) {
    const float e00 = e0 * e0, e01 = e0 * e1, e11 = e1 * e1, share2 = share * share;
    float h = 0;
    DISTWAR_UNROLL
    for (int c = 0; c < 3; c++) {
        const float own = weight[c] * share2, cross = own * difference[c];
        sums[c] += own;
        h = fmaf(cross, difference[c], h);
        sums[16 + 5 * c] = fmaf(cross, e0, sums[16 + 5 * c]);
        sums[17 + 5 * c] = fmaf(cross, e1, sums[17 + 5 * c]);
        sums[18 + 5 * c] = fmaf(cross, e00, sums[18 + 5 * c]);
        sums[19 + 5 * c] = fmaf(cross, e01, sums[19 + 5 * c]);
        sums[20 + 5 * c] = fmaf(cross, e11, sums[20 + 5 * c]);
    }
    const float h00 = h * e00, h01 = h * e01, h11 = h * e11;
    sums[3] += h;
    sums[4] += h00;
    sums[5] += h01;
    sums[6] += h11;
    sums[7] = fmaf(h00, e0, sums[7]);
    sums[8] = fmaf(h00, e1, sums[8]);
    sums[9] = fmaf(h11, e0, sums[9]);
    sums[10] = fmaf(h11, e1, sums[10]);
    sums[11] = fmaf(h00, e00, sums[11]);
    sums[12] = fmaf(h00, e01, sums[12]);
    sums[13] = fmaf(h00, e11, sums[13]);
    sums[14] = fmaf(h01, e11, sums[14]);
    sums[15] = fmaf(h11, e11, sums[15]);
}

#endif
