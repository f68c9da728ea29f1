// SPDX-License-Identifier: MIT
// CUDA's qualifiers of functions and variables.
#ifndef SIMT_QUALIFIERS_H
#define SIMT_QUALIFIERS_H

#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// gcc decides: forced to inline, it takes twice as long for kernels that run no faster.
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))

// An OS thread runs one block at a time and a lane stays on its OS thread, so thread-local memory is local to
// the block. As on a GPU it is not cleared between blocks.
#define __shared__ static thread_local

#endif
