// SPDX-License-Identifier: MIT
// Threads return before a reduction of the warp.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void early_return(const float *in, int n, float *sum) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const float total = cg::reduce(warp, in[i], cg::plus<float>());
    if (warp.thread_rank() == 0) atomicAdd(sum, total);
}

cudaError_t run_mistake(const float *in, int n, float *sum) {
    early_return<<<(n + 63) / 64, 64>>>(in, n, sum);
    return cudaGetLastError();
}
