// SPDX-License-Identifier: MIT
// CUDA's words for where code and data live.
#ifndef SIMT_QUALIFIERS_H
#define SIMT_QUALIFIERS_H

#define __host__
#define __device__
#define __global__
#define __constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

// An OS thread runs one block at a time and a lane never leaves its OS thread, so what belongs to the thread
// belongs to the block. As on a GPU nobody clears it between blocks.
#define __shared__ static thread_local

#endif
