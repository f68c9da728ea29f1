// SPDX-License-Identifier: MIT
// A program with the most common mistake: lanes return before a call that all lanes must make.
#include <distwar/reduce.cuh>
#include <stdio.h>

__global__ void backward(const int *primitive_of, int pixels, float *gradient) {
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (pixel >= pixels) return;
    const float value[1] = {1};
    distwar::reduce_tree(distwar::all_lanes, true, primitive_of[pixel], value,
                         distwar::record<float>{gradient, 1});
}

int main() {
    const int pixels = 100;
    int *primitive_of;
    float *gradient;
    if (cudaMalloc(&primitive_of, pixels * sizeof(int)) != cudaSuccess ||
        cudaMalloc(&gradient, sizeof(float)) != cudaSuccess ||
        cudaMemset(primitive_of, 0, pixels * sizeof(int)) != cudaSuccess ||
        cudaMemset(gradient, 0, sizeof(float)) != cudaSuccess)
        return 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(128);
    const int *from = primitive_of;
    cudaError_t status = cudaLaunchKernelEx(&config, backward, from, pixels, gradient);
    if (status == cudaSuccess) status = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorString(status));
    return status == cudaSuccess ? 0 : 1;
}
