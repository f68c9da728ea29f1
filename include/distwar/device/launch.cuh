// SPDX-License-Identifier: MIT
// Launches of the calls that the host makes. Internal to the library.
#ifndef DISTWAR_DEVICE_LAUNCH_CUH
#define DISTWAR_DEVICE_LAUNCH_CUH

#include "../config.cuh"
#include <stddef.h>

namespace distwar::detail {

// Queues the kernel. Returns the error of the launch; an empty grid does nothing and is no error. AfterKernel: it calls
// wait_for_kernel_before() and stands right after another kernel on the stream. From compute capability 9.0 on its blocks
// may start once all blocks of that called let_next_start().
template <bool AfterKernel = false, typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes,
                          void (*kernel)(Parameters...), Arguments... arguments) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
#if DISTWAR_PTX && CUDART_VERSION >= 12030 // before, graphs could not capture it
    cudaLaunchAttribute early = {};
    if constexpr (AfterKernel) {
        cudaFuncAttributes compiled; // code for older GPUs, also if translated for this one, does not wait
        const cudaError_t error = cudaFuncGetAttributes(&compiled, kernel);
        if (error != cudaSuccess) return error;
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
        config.attrs = &early;
        config.numAttrs = compiled.ptxVersion >= 90 && compiled.binaryVersion >= 90 ? 1 : 0;
    }
#endif
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

DISTWAR_DEVICE void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Waits until the kernel before has ended and its writes are visible. By all threads, before they read what it wrote
// or write what it reads.
DISTWAR_DEVICE void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// An attribute of the current device.
inline cudaError_t read_attribute(cudaDeviceAttr attribute, int *value) {
    int device;
    const cudaError_t error = cudaGetDevice(&device);
    return error == cudaSuccess ? cudaDeviceGetAttribute(value, attribute, device) : error;
}

} // namespace distwar::detail

#endif
