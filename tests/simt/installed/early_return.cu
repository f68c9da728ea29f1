// SPDX-License-Identifier: MIT
// A stranger's kernel with the most common mistake: lanes return before a call that all lanes must make.
#include <distwar/reduce.cuh>
#include <cstdio>

__global__ void backward(int pixels, float *gradient) {
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (pixel >= pixels) return;
    const float value[1] = {1};
    distwar::reduce_tree(distwar::all_lanes, true, 0, value, distwar::record<float>{gradient, 1});
}

int main() {
    float *gradient;
    if (cudaMalloc(&gradient, sizeof(float)) != cudaSuccess) return 2;
    backward<<<1, 128>>>(100, gradient);
    const cudaError_t status = cudaDeviceSynchronize();
    std::printf("%s\n", cudaGetErrorString(status));
    return status == cudaSuccess ? 0 : 1;
}
