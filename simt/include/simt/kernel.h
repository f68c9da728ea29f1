// SPDX-License-Identifier: MIT
// What a kernel knows of itself: where it is in the grid, and its block's dynamic shared memory.
#ifndef SIMT_KERNEL_H
#define SIMT_KERNEL_H

#include "vector_types.h"

namespace simt {

// A line of source: of a call, through default arguments.
struct Place {
    const char *file;
    int line;
};
#define SIMT_HERE simt::Place place = {__builtin_FILE(), __builtin_LINE()}

// The block's dynamic shared memory.
extern __thread void *dynamic_shared;

} // namespace simt

// Of the lane that this OS thread runs just now. This TLS model saves a call at each access from a shared
// library, for a few dozen bytes of the program's static TLS.
#define SIMT_OF_LANE extern __thread __attribute__((tls_model("initial-exec")))
SIMT_OF_LANE uint3 threadIdx, blockIdx;
SIMT_OF_LANE dim3 blockDim, gridDim;
#undef SIMT_OF_LANE

constexpr int warpSize = 32;

// The block's dynamic shared memory (cudaLaunchConfig_t::dynamicSmemBytes), aligned to 256 bytes and filled
// with 0xFF bytes when the block begins; null if the launch asked for none.
inline void *simt_dynamic_shared() {
    return simt::dynamic_shared;
}

#endif
