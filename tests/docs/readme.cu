// SPDX-License-Identifier: MIT
// README.md's kernel.
#include <cuda_runtime.h>

__device__ void gradient_of(int pixel, float (&value)[9]) {
    for (int k = 0; k < 9; ++k) value[k] = float(pixel + k);
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
    distwar::reduce_serial(distwar::all_lanes, active, primitive, value, distwar::record<float>{gradient, 12});
}
// [end]
