// SPDX-License-Identifier: MIT
// A user's kernel with the most common mistake: lanes return before a call that all lanes must make. A header, as most
// kernels are in: its launch and its dynamic shared array are rewritten, too.
#pragma once
#include <distwar/reduce.cuh>

__global__ void count_odd(int pixels, int *count) {
    extern __shared__ int staged[];
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (pixel >= pixels) return;
    staged[threadIdx.x] = pixel % 2;
    distwar::reduce(distwar::all_lanes, staged[threadIdx.x] == 1, 0, 1, distwar::record<int>{count, 1});
}

inline cudaError_t launch_count_odd(int pixels, int *count) {
    count_odd<<<1, 128, 128 * sizeof(int)>>>(pixels, count);
    return cudaDeviceSynchronize();
}
