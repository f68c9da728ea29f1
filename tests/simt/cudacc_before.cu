// SPDX-License-Identifier: MIT
// A file that defines __CUDACC__ before it includes anything. cudacc_after.cu includes it behind cuda_runtime.h.
#ifndef __CUDACC__
#define __CUDACC__
#endif
#include <distwar/block.cuh>
#include <distwar/fixed.cuh>
#include <distwar/hot_slots.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>

namespace {

__global__ void add_ones(float *sums) {
    const float value[5] = {1, 2, 3, 4, 5};
    distwar::reduce_tree(distwar::all_lanes, true, int(threadIdx.x / 16), value,
                         distwar::record<float>{sums, 8});
    distwar::reduce_serial(distwar::all_lanes, true, 0, value, distwar::record<float>{sums + 32, 8});
}

} // namespace

// 16 times 1, and 1000 times 64 times 5.
unsigned cudacc_before() {
    float sums[40] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(64);
    if (cudaLaunchKernelEx(&config, add_ones, static_cast<float *>(sums)) != cudaSuccess) return 0;
    return unsigned(sums[8] + 1000 * sums[36]);
}
