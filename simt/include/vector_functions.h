// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name.
#ifndef SIMT_NVIDIA_VECTOR_FUNCTIONS_H
#define SIMT_NVIDIA_VECTOR_FUNCTIONS_H

#include "cuda_runtime.h"

#endif
