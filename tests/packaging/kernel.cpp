// SPDX-License-Identifier: MIT
// The same kernel for a machine without nvcc: as C++, against simt's cuda_runtime.h.
#include "kernel.cu"
