// SPDX-License-Identifier: MIT
// kernel.cu for a machine without nvcc: compiled as C++, with simt's cuda_runtime.h.
#include "kernel.cu"
