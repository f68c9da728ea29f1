// SPDX-License-Identifier: MIT
// What the seeds of a target and the target must agree about.
#pragma once

#include "checkpoint.h"

static const checkpoint_key fuzz_key = {"--seed 3\n", 0x12345678, "--seed 0\n"};
