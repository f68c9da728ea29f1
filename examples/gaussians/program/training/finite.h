// SPDX-License-Identifier: MIT
// Removes Gaussians whose parameters overflowed in training. Cameras cull them and readers of scenes refuse
// them.
#ifndef SPLAT_FINITE_H
#define SPLAT_FINITE_H

#include "c_linkage.h"
#include "gs.h"

C_LINKAGE_BEGIN

// Removes Gaussians with a value that is not finite; the others keep their order. Host memory; its size is
// unchanged. Returns how many were removed.
int64_t gaussians_keep_finite(gs_gaussians *gaussians);

C_LINKAGE_END
#endif
