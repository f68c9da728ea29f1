// SPDX-License-Identifier: MIT
// A file that defines __CUDACC__ after cuda_runtime.h and before distwar's headers.
#include <cuda_runtime.h>
#ifndef __CUDACC__
#define __CUDACC__
#endif
#include "cudacc.h"

unsigned cudacc_after() {
    return aggregate_ones();
}
