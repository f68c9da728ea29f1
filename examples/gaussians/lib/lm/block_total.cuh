// SPDX-License-Identifier: MIT
// A sum in double over all threads of a grid.
#pragma once

#include <cuda_runtime.h>
#include <distwar/block.cuh>

namespace gs {

// Adds the parts of all threads to *sum, with one atomic per block. By all Threads threads of the block.
template <int Threads>
__device__ void add_of_block(double part, double *sum) {
    __shared__ distwar::block_sum_memory<1, Threads, double> memory;
    const double parts[1] = {part};
    double total[1];
    distwar::block_sum(parts, memory, total);
    if (distwar::block_rank() == 0) atomicAdd(sum, total[0]);
}

} // namespace gs
