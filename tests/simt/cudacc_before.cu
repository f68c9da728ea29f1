// SPDX-License-Identifier: MIT
// A file that defines __CUDACC__ before it includes anything.
#ifndef __CUDACC__
#define __CUDACC__
#endif
#include "cudacc.h"

unsigned cudacc_before() {
    return aggregate_ones();
}
