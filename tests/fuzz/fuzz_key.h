// SPDX-License-Identifier: MIT
// What the seeds of a target and the target must agree about.
#pragma once

#include "state/checkpoint.h"
#include <distwar/tune.h>

static const checkpoint_key fuzz_key = {"--seed 3\n", 0x12345678};
enum { FUZZ_CANDIDATES = 3 };
static const tune_candidate fuzz_candidates[FUZZ_CANDIDATES] = {{0, 0}, {1, 8}, {2, 16}};
#define FUZZ_GPU "GPU"
#define FUZZ_WORKLOAD "work"
