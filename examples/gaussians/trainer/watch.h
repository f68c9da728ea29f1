// SPDX-License-Identifier: MIT
// Whether MCMC runs away: it relocates ever more Gaussians, or its loss rises. Pure functions.
#pragma once

#include "c_linkage.h"
#include <stdbool.h>
#include <stdint.h>

C_LINKAGE_BEGIN

// What one rank sees of its own Gaussians. Starts as {0}, then mcmc_watch_begin.
typedef struct mcmc_watch {
    double smooth, least; // the mean loss of the last views, and its least
    int64_t seen;         // losses since mcmc_watch_begin
    uint64_t dead;        // Gaussians since step `since`
    int64_t since;
    double part; // of the Gaussians, dead in the last 100 steps or more that are complete
} mcmc_watch;
void mcmc_watch_begin(mcmc_watch *watch); // pictures of another size follow
// Whether the mean loss of 100 views is above 1.5 times its least, with that of one more view.
bool mcmc_watch_loss(mcmc_watch *watch, double loss);
// Adds the dead Gaussians of the steps before `steps`. Whether more than a tenth of `count` died in the last 100.
bool mcmc_watch_dead(mcmc_watch *watch, int64_t steps, uint64_t dead, int64_t count);

C_LINKAGE_END
