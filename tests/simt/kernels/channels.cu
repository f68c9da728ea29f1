// SPDX-License-Identifier: MIT
// Rows of C channels, C known at run time: a template for each padded count, values in half or float, a
// dynamic shared array, gradients summed over the lanes that share a row.
#ifndef __CUDACC__
#error "kernels are compiled by nvcc"
#endif
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>

namespace {

namespace cg = cooperative_groups;

template <typename scalar_t>
__device__ inline float to_float(scalar_t x) {
    return static_cast<float>(x);
}
template <>
__device__ inline float to_float(__half x) {
    return __half2float(x);
}

template <int CDIM, typename scalar_t>
__global__ void gather_gradient(const int count, const int channels, const int *__restrict__ row,
                                const scalar_t *__restrict__ weights, float *__restrict__ d_table) {
    extern __shared__ float staged[]; // blockDim.x * CDIM
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const bool active = idx < count;
    float local[CDIM];
#pragma unroll
    for (int c = 0; c < CDIM; ++c) {
        local[c] = active && c < channels ? to_float(weights[idx * channels + c]) : 0.f;
        staged[threadIdx.x * CDIM + c] = __saturatef(local[c]);
    }
    __syncthreads();
    const int target = active ? row[idx] : -1;
    auto group = cg::labeled_partition(warp, target);
    if (target < 0) return;
#pragma unroll
    for (int c = 0; c < CDIM; ++c) {
        const float partner = staged[(threadIdx.x ^ 1) * CDIM + c];
        const float sum = cg::reduce(group, local[c] + partner, cg::plus<float>());
        if (group.thread_rank() == 0 && c < channels) atomicAdd(d_table + target * channels + c, sum);
    }
}

template <typename scalar_t>
cudaError_t launch_gather(int count, int channels, const int *row, const scalar_t *weights, float *d_table) {
    const int threads = 64;
    const int blocks = (count + threads - 1) / threads;
#define LAUNCH(CDIM)                                                                                         \
    gather_gradient<CDIM, scalar_t>                                                                          \
        <<<blocks, threads, threads * CDIM * sizeof(float)>>>(count, channels, row, weights, d_table)
    if (channels <= 4)
        LAUNCH(4);
    else if (channels <= 8)
        LAUNCH(8);
    else
        return cudaErrorInvalidValue;
#undef LAUNCH
    return cudaGetLastError();
}

} // namespace

cudaError_t run_channels(int count, int channels, const int *row, const float *weights, float *d_table) {
    return launch_gather(count, channels, row, weights, d_table);
}
cudaError_t run_channels(int count, int channels, const int *row, const __half *weights, float *d_table) {
    return launch_gather(count, channels, row, weights, d_table);
}
