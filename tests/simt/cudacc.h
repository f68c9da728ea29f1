// SPDX-License-Identifier: MIT
// The kernel of cudacc_before.cu and cudacc_after.cu: every header of distwar, with __CUDACC__ defined.
#ifndef CUDACC_H
#define CUDACC_H

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
    // The calls of 0.2 add nothing here.
    distwar::reduce_n<4>(distwar::all_lanes, false, 0, 5, value, distwar::record<float>{sums, 8});
    distwar::reduce(distwar::all_lanes, false, 0, value, distwar::aligned_record{sums, 8});
    const auto groups = distwar::group_lanes(distwar::all_lanes, false, 0);
    groups.add(value, distwar::fields<float, 2, 3>{{sums, 2}, {sums, 3}});
    __shared__ distwar::hot_slots<2, 5> slots;
    slots.clear();
    distwar::reduce_bfly(distwar::all_lanes, false, 0, value,
                         slots.sink(distwar::record<float, distwar::add, distwar::scope::block>{sums, 8}));
    distwar::append(distwar::all_lanes, false, reinterpret_cast<unsigned *>(sums));
    const distwar::fixed_format<5> format = {{1, 1, 1, 1, 1}, nullptr};
    distwar::reduce_fixed(distwar::all_lanes, false, 0, value, distwar::record<long long>{nullptr, 5},
                          format);
}

// 16 times 1, and 1000 times 64 times 5.
inline unsigned aggregate_ones() {
    float sums[40] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(64);
    if (cudaLaunchKernelEx(&config, add_ones, static_cast<float *>(sums)) != cudaSuccess) return 0;
    return unsigned(sums[8] + 1000 * sums[36]);
}

} // namespace

#endif
