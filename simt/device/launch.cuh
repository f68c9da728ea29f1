// SPDX-License-Identifier: MIT
// Launches kernels on a GPU and under simt. All kernels of this project are launched here.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

// Queues kernel<<<grid, block, 0, stream>>>(arguments...). Returns the error of the launch; a later call
// reports errors inside the kernel. An empty grid does nothing and is no error.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                   Arguments... arguments) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// The blocks of a 1D grid with at least one thread for each item.
inline unsigned blocks_for(int64_t items, int block) {
    return unsigned((items + block - 1) / block);
}

// launch() with that grid.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_for(cudaStream_t stream, int64_t items, int block, void (*kernel)(Parameters...),
                       Arguments... arguments) {
    return launch(stream, blocks_for(items, block), block, kernel, arguments...);
}
