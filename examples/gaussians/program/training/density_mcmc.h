// SPDX-License-Identifier: MIT
#pragma once

#include "training/density_control.h"

C_LINKAGE_BEGIN

// The number of Gaussians after density control at `step`, of `existing` ones. Grows by the set part. Grows faster where
// that would not reach the limit half-way, so that a run that starts from few points has time for detail too.
int64_t density_mcmc_grown(const density_settings *settings, int64_t existing, int64_t step);

C_LINKAGE_END
