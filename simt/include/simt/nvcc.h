// SPDX-License-Identifier: MIT
// What nvcc gives every .cu file before its first line: `g++ -x c++ -include simt/nvcc.h kernel.cu`.
//
// Code often tests __CUDACC__ around its kernels, so this defines it. A file may also define it itself, or
// include <cuda_runtime.h> instead and do without it: simt and distwar test __SIMT__. __CUDA_ARCH__ stays
// undefined, so code takes its path without PTX.
#pragma once

#include "../cuda_runtime.h"

#ifndef __CUDACC__
#define __CUDACC__ 1
#endif
