// SPDX-License-Identifier: MIT
// Launches kernels whose blocks start while the kernel before still runs (programmatic dependent launch, from compute
// capability 9.0 on), so that hardly any time passes between short kernels.
#pragma once

#include "launch.cuh"

// launch() for a kernel that begins with in_turn(). Its blocks may start once all blocks of the kernel queued before on
// this stream have called in_turn() or let_next_start(), and wait in in_turn() for that kernel's end.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_in_turn(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                           Arguments... arguments) {
#if defined(__SIMT__) || CUDART_VERSION < 12030 // before, graphs could not capture it
    return launch(stream, grid, block, kernel, arguments...);
#else
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
    cudaFuncAttributes compiled; // code for older GPUs, also if translated for this one, does not wait
    const cudaError_t status = cudaFuncGetAttributes(&compiled, kernel);
    if (status != cudaSuccess) return status;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = compiled.ptxVersion >= 90 && compiled.binaryVersion >= 90 ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
#endif
}

// Lets the blocks of the next kernel start, if that is launched in turn, once all blocks of this one have called it.
__device__ inline void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// let_next_start(), then waits until the kernel before has ended and its writes are visible. By all threads, before
// they read or write global memory.
__device__ inline void in_turn() {
    let_next_start();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
