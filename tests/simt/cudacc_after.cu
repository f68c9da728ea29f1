// SPDX-License-Identifier: MIT
// A file that defines __CUDACC__ after cuda_runtime.h and before distwar's headers.
#include <cuda_runtime.h>
#define cudacc_before cudacc_after
#include "cudacc_before.cu"
