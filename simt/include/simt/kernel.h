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

// Of the lane that this OS thread runs just now. Not in the initial-exec TLS model, which would save a shared
// library a call at each access: all its thread-local memory, every __shared__ array included, would then
// have to fit into what a running program has left, and dlopen would refuse it.
extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;

constexpr int warpSize = 32;

// The block's dynamic shared memory (cudaLaunchConfig_t::dynamicSmemBytes), aligned to 256 bytes and filled
// with 0xFF bytes when the block begins; null if the launch asked for none.
inline void *simt_dynamic_shared() {
    return simt::dynamic_shared;
}

#endif
