// SPDX-License-Identifier: MIT
// Threads return before a reduction of the warp. A header, as most kernels are in: its launch and its dynamic shared
// array are rewritten, too.
#ifndef MISTAKE_CUH
#define MISTAKE_CUH

#include "vector_math.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void early_return(const float *in, int n, float *sum) {
    extern __shared__ float staged[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    staged[threadIdx.x] = in[i];
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const float total = cg::reduce(warp, staged[threadIdx.x], cg::plus<float>());
    if (warp.thread_rank() == 0) atomicAdd(sum, total);
}

inline cudaError_t launch_early_return(const float *in, int n, float *sum) {
    early_return<<<(n + 63) / 64, 64, 64 * sizeof(float)>>>(in, n, sum);
    return cudaGetLastError();
}

#endif
