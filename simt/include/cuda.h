// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: the version, not the driver API.
#pragma once

#include "cuda_runtime.h"

#define CUDA_VERSION 12000
