// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name.
#pragma once

#include "cuda_runtime.h"
