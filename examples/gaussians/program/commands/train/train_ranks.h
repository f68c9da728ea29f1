// SPDX-License-Identifier: MIT
// `dsplat train --gpus`: what a rank does.
#pragma once

#include "train_run.h"
#include "ranks.h"

// From the start to the files, which rank 0 writes. run: with the data, whose views are on the host only, and prepared;
// each rank has its own copy. start: the first Gaussians, if the run does not resume. False after ranks_fail.
bool train_as_rank(train_run *run, const gs_gaussians *start, ranks *group);
