// SPDX-License-Identifier: MIT
// LPIPS in double precision, loop by loop (Zhang et al. 2018; docs/developers/metrics.md).
#ifndef REFERENCE_LPIPS_H
#define REFERENCE_LPIPS_H

#include "distwar_gs_lpips.h"

#ifdef __cplusplus
extern "C" {
#endif

// pictures: [2][height][width][3]. weights: as gs_lpips_comparison has them. activations: of each level, its
// [2][outputs][height][width], which the caller frees. result: 1 + GS_LPIPS_LEVELS values, as gs_lpips writes them.
void reference_lpips(const gs_lpips_architecture *network, const float *weights, const uint8_t *pictures,
                     int width, int height, double *activations[GS_LPIPS_LEVELS], double *result);

#ifdef __cplusplus
}
#endif

#endif
