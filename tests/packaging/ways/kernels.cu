// SPDX-License-Identifier: MIT
// Kernels of a program whose host is in C: host.c calls the function that launches them.
#include "kernels.h"
#include <distwar/reduce.cuh>

__global__ void add_kernel(const int *key_of, const float *value_of, int count, float *sums) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < count;
    const float value[1] = {active ? value_of[i] : 0};
    distwar::reduce_tree(distwar::all_lanes, active, active ? key_of[i] : 0, value,
                         distwar::record<float>{sums, 1});
}

cudaError_t add_by_key(const int *key_of, const float *value_of, int count, float *sums) {
    add_kernel<<<(count + 255) / 256, 256>>>(key_of, value_of, count, sums);
    return cudaGetLastError();
}
