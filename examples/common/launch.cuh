// SPDX-License-Identifier: MIT
// The one way this project launches a kernel, on a GPU and under simt alike; and 1D grids that cover any
// count.
#ifndef COMMON_LAUNCH_CUH
#define COMMON_LAUNCH_CUH

#include <cuda_runtime.h>
#include <stdint.h>

// Queues kernel<<<grid, block, 0, stream>>>(arguments...). Returns the launch's own error; what happens
// inside the kernel shows in a later call, as always. An empty grid is no work and no error.
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

inline unsigned blocks_for(int64_t items, int block) {
    return unsigned((items + block - 1) / block);
}

#endif
