// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name.
#ifndef SIMT_NVIDIA_CUDA_RUNTIME_API_H
#define SIMT_NVIDIA_CUDA_RUNTIME_API_H

#include "cuda_runtime.h"

#endif
