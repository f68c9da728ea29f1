// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: g++ compiles the same kernels and host code, and they run on the
// CPU. C sources get the runtime API and the vector types. C++ sources (.cu files compiled as C++17) also get
// everything that kernels use.
//
// Differences from a GPU:
//   - A launch returns when the kernel has finished, so streams and events are always complete.
//   - Times are those of the CPU.
//   - Undefined behaviour of the kernel ends the launch with cudaErrorLaunchFailure (see simt.h).
#ifndef SIMT_CUDA_RUNTIME_H
#define SIMT_CUDA_RUNTIME_H

// Defined under simt. Kernels test it where they have C++ code in place of inline PTX.
#define __SIMT__ 1

#ifdef __cplusplus
// libstdc++ uses __attribute__((__noinline__)) in this header, so it comes before __noinline__ is a macro.
#include <memory>
#endif

#include "simt/qualifiers.h"
#include "simt/vector_types.h"
#include "simt/runtime_api.h"

#ifdef __cplusplus
#include "simt/kernel.h"
#include "simt/lanes.h"
#include "simt/atomics.h"
#include "simt/intrinsics.h"
#include "simt/launch.h"
#endif

#endif
