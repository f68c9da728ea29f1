// SPDX-License-Identifier: MIT
#include "early_return.cuh"
#include <cstdio>

int main() {
    int *count;
    if (cudaMalloc(&count, sizeof(int)) != cudaSuccess) return 2;
    const cudaError_t status = launch_count_odd(100, count);
    std::printf("%s\n", cudaGetErrorString(status));
    return status == cudaSuccess ? 0 : 1;
}
