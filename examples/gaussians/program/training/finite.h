// SPDX-License-Identifier: MIT
// Removes Gaussians whose parameters overflowed in training. Cameras cull them and readers of scenes refuse
// them.
#ifndef SPLAT_FINITE_H
#define SPLAT_FINITE_H

#include "gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// Removes Gaussians with a value that is not finite; the others keep their order. Host memory; its size is
// unchanged. Returns how many were removed.
int64_t gaussians_keep_finite(gs_gaussians *gaussians);

#ifdef __cplusplus
}
#endif
#endif
