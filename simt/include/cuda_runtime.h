// SPDX-License-Identifier: MIT
// Stands in for NVIDIA's header of the same name: the same kernels and host code, compiled by g++, run on the
// CPU. C sources get the runtime API and the vector types; C++ sources (.cu files as C++17) all that kernels
// use as well.
//
// What differs from a GPU: a launch runs to its end before it returns, so streams and events are always
// complete; times are the CPU's. What CUDA leaves undefined ends the launch with cudaErrorLaunchFailure (see
// simt.h).
#ifndef SIMT_CUDA_RUNTIME_H
#define SIMT_CUDA_RUNTIME_H

// Tells kernels apart from nvcc's, where they must hold inline PTX beside its C++ twin.
#define __SIMT__ 1

#ifdef __cplusplus
// libstdc++ writes __attribute__((__noinline__)) in headers under this one: take it before the name becomes a
// macro.
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
