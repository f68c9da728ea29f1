// SPDX-License-Identifier: MIT
// A stranger's kernel with the most common mistake: lanes return before a call that all lanes must make.
#include <distwar/reduce.cuh>
#include <cstdio>

__global__ void count_odd(int pixels, int *count) {
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (pixel >= pixels) return;
    distwar::reduce(distwar::all_lanes, pixel % 2 == 1, 0, 1, distwar::record<int>{count, 1});
}

int main() {
    int *count;
    if (cudaMalloc(&count, sizeof(int)) != cudaSuccess) return 2;
    count_odd<<<1, 128>>>(100, count);
    const cudaError_t status = cudaDeviceSynchronize();
    std::printf("%s\n", cudaGetErrorString(status));
    return status == cudaSuccess ? 0 : 1;
}
