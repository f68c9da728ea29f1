// SPDX-License-Identifier: MIT
// The smallest program, in one file: every pixel adds nine values to the record of its primitive.
//     nvcc -std=c++17 -arch=sm_75 -Iinclude examples/scatter.cu -o scatter && ./scatter
#include <algorithm>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

static void check(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "scatter: %s: %s\n", what, cudaGetErrorString(error));
    exit(EXIT_FAILURE);
}

__host__ __device__ void gradient_of(int pixel, float (&value)[9]) {
    for (int k = 0; k < 9; ++k) value[k] = float(pixel % 8 + k); // whole numbers: their sums are exact
}

// clang-format off
// [readme]
#include <distwar/reduce.cuh>

__global__ void backward(const int *primitive_of, int pixels, float *gradient) {
    const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
    const bool active = pixel < pixels; // no early return: all 32 lanes make the call
    const int primitive = active ? primitive_of[pixel] : 0;
    float value[9];
    if (active) gradient_of(pixel, value);
    // was: if (active) for (int k = 0; k < 9; k++) atomicAdd(&gradient[12 * primitive + k], value[k]);
    distwar::reduce(distwar::all_lanes, active, primitive, value, distwar::record<float>{gradient, 12});
}
// [end]
// clang-format on

int main() {
    const int pixels = 10000, primitives = 7;
    std::vector<float> expected(12 * primitives);
    int *primitive_of;
    float *gradient;
    check(cudaMallocManaged(&primitive_of, pixels * sizeof(int)), "cudaMallocManaged");
    check(cudaMallocManaged(&gradient, expected.size() * sizeof(float)), "cudaMallocManaged");
    for (int pixel = 0; pixel < pixels; ++pixel) {
        float value[9];
        gradient_of(pixel, value);
        primitive_of[pixel] = pixel / 100 % primitives;
        for (int k = 0; k < 9; ++k) expected[12 * primitive_of[pixel] + k] += value[k];
    }
    check(cudaMemset(gradient, 0, expected.size() * sizeof(float)), "cudaMemset");
    backward<<<(pixels + 255) / 256, 256>>>(primitive_of, pixels, gradient);
    check(cudaGetLastError(), "backward");
    check(cudaDeviceSynchronize(), "backward");
    const bool right = std::equal(expected.begin(), expected.end(), gradient);
    check(cudaFree(primitive_of), "cudaFree");
    check(cudaFree(gradient), "cudaFree");
    printf("%s\n", right ? "the sums are right" : "WRONG");
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
