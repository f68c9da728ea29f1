// SPDX-License-Identifier: MIT
// Launches of the calls that the host makes. Internal to the library.
#ifndef DISTWAR_HOST_LAUNCH_CUH
#define DISTWAR_HOST_LAUNCH_CUH

#include "push_macros.h"

#include "compiler.cuh"
#include <stddef.h>

namespace distwar {

namespace detail {

// Queues the kernel. Returns the error of the launch; a later call reports errors inside the kernel. An empty grid
// does nothing and is no error.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(cudaStream_t stream, unsigned blocks, unsigned threads, size_t shared_bytes,
                          void (*kernel)(Parameters...), Arguments... arguments) {
    if (blocks == 0) return cudaSuccess;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// Of the current device.
inline cudaError_t count_multiprocessors(int *count) {
    int device;
    const cudaError_t error = cudaGetDevice(&device);
    return error == cudaSuccess ? cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device)
                                : error;
}

} // namespace detail

} // namespace distwar

#include "pop_macros.h"

#endif
