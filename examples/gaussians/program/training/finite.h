// SPDX-License-Identifier: MIT
// A Gaussian whose parameters overflowed in training is culled by every camera and refused by every PLY
// reader.
#ifndef SPLAT_FINITE_H
#define SPLAT_FINITE_H

#include "gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// Drops those with a value that is not finite; the others keep their order. Host memory, which stays as large
// as it was. Returns how many were dropped.
int64_t gaussians_keep_finite(gs_gaussians *gaussians);

#ifdef __cplusplus
}
#endif
#endif
