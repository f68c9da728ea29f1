// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: the version, not the driver API.
#ifndef SIMT_CUDA_H
#define SIMT_CUDA_H

#include "cuda_runtime.h"

#define CUDA_VERSION 12000

#endif
