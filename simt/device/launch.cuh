// SPDX-License-Identifier: MIT
// Launches kernels on a GPU and under simt. All kernels of this project's programs are launched here.
#pragma once

#include <distwar/device/launch.cuh>
#include <stdint.h>

// Queues kernel<<<grid, block, 0, stream>>>(arguments...). Returns the error of the launch; a later call
// reports errors inside the kernel. An empty grid does nothing and is no error.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                   Arguments... arguments) {
    return distwar::detail::launch_kernel(stream, grid, block, 0, kernel, arguments...);
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

// launch() for a kernel that begins with in_turn(), so that hardly any time passes between short kernels. From compute
// capability 9.0 on its blocks may start once all blocks of the kernel queued before on this stream have called
// in_turn() or let_next_start(), and wait in in_turn() for that kernel's end (programmatic dependent launch).
template <typename... Parameters, typename... Arguments>
cudaError_t launch_in_turn(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(Parameters...),
                           Arguments... arguments) {
    return distwar::detail::launch_kernel<true>(stream, grid, block, 0, kernel, arguments...);
}

// Lets the blocks of the next kernel start, if that is launched in turn, once all blocks of this one have called it.
using distwar::detail::let_next_start;

// Calls let_next_start(), then waits until the kernel before has ended and its writes are visible. By all threads, before
// they read or write global memory.
__device__ inline void in_turn() {
    let_next_start();
    distwar::detail::wait_for_kernel_before();
}
