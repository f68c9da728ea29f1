// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: g++ compiles the same kernels and host code, and they run on the
// CPU. C sources get the runtime API and the vector types. C++ sources (.cu files compiled as C++17) also get
// everything that kernels use.
//
// Differences from a GPU:
//   - A launch returns when the kernel has finished, so streams and events are always complete.
//   - Times are those of the CPU.
//   - Undefined behaviour of the kernel ends the launch with cudaErrorLaunchFailure (see simt.h).
#pragma once

// Defined under simt. Kernels test it where they have C++ code in place of inline PTX.
#define __SIMT__ 1

#ifdef __cplusplus
// libstdc++ uses __attribute__((__noinline__)) in these headers, so they come before __noinline__ is a macro.
#include <memory>
#include <string>
#endif

// ---- CUDA's qualifiers of functions and variables

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

#include "simt/vector_types.h"
#include "simt/runtime_api.h"

#ifdef __cplusplus
#include "simt/lanes.h"
#include "simt/atomics.h"
#include "simt/intrinsics.h"
#include "simt/launch.h"
#endif
