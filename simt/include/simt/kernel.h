// SPDX-License-Identifier: MIT
// Built-in variables of a kernel: its position in the grid, and the dynamic shared memory of its block.
#ifndef SIMT_KERNEL_H
#define SIMT_KERNEL_H

#include "vector_types.h"

namespace simt {

// The source line of a call. SIMT_HERE is a default argument, so it is the line of the caller.
struct Place {
    const char *file;
    int line;
};
#define SIMT_HERE simt::Place place = {__builtin_FILE(), __builtin_LINE()}

// The block's dynamic shared memory.
extern __thread void *dynamic_shared;

} // namespace simt

// Indices of the lane that this OS thread runs now. Not in the initial-exec TLS model, although that would save
// a shared library one call at each access: all its thread-local memory, every __shared__ array included,
// would have to fit into the static TLS space that a running program has left, and dlopen would fail.
extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;

constexpr int warpSize = 32;

// The block's dynamic shared memory (cudaLaunchConfig_t::dynamicSmemBytes), aligned to 256 bytes and filled
// with 0xFF bytes when the block begins; null if the launch asked for none.
inline void *simt_dynamic_shared() {
    return simt::dynamic_shared;
}

#endif
